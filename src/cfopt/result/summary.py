"""An explanation in a few lines, for the terminal."""

from __future__ import annotations

from collections import Counter

from cfopt.names import counted, join_words
from cfopt.result.explanation import Explanation
from cfopt.result.measures.realism import pixels_moved
from cfopt.result.nearness import measure_said
from cfopt.result.status import Status
from cfopt.result.wording import moved_words, price_words, question, radius_words, terms

#: How many changes, or rows without an answer, a summary lists.
_SHOWN = 6


def summary(e: Explanation) -> str:
    """What was asked, how it ended, what changed."""
    lines = _of_row(e) if len(e) == 1 else _of_batch(e)
    if e.radii is not None and len(e) == 1 and e.answered[0]:
        lines += [words] if (words := radius_words(float(e.radius[0]), e.radius_kind[0])) else []
    if e.prices is not None and len(e) == 1:
        lines += _of_prices(e.prices)
    return "\n".join([question(e.criterion, e.margin) + terms(e.asked), *lines])


def _of_row(e: Explanation) -> list[str]:
    lines = [f"{e.status[0].capitalize()}: {e.message[0]}."]
    if e.status[0] is Status.PROVED_INFEASIBLE:
        remedy = e.remedy[0] if e.remedy else None
        return lines if remedy is None else [*lines, f"{remedy.words}."]
    if e.steps[0] > 0:
        taken = counted(int(e.steps[0]), "step")
        lines.append(f"Distance {e.distance[0]:.3g}, in {taken}.")
    lines += _changes(e)
    lines += [line for k in range(1, _options(e)) for line in _of_option(e, k)]
    return lines + (measure_said(e) if e.steps[0] > 0 else [])


def _changes(e: Explanation) -> list[str]:
    """The largest changes of a single row; of an image, how much of it changes."""
    changes = e.table()
    # Of other ranges of colours nothing is known here: then the values themselves are listed.
    if e.x0.ndim == 4 and len(changes) and e.x0.min() >= 0 and e.x0.max() <= 1:
        moved, largest = pixels_moved(e.x, e.x0)[0], (e.x - e.x0).abs().max()
        return [
            f"  {100 * moved:.3g}% of the pixels change by more than 5% of a colour's range, "
            f"none by more than {100 * largest:.3g}%"
        ]
    lines = [f"  {moved_words(*line)}" for line in changes.head(_SHOWN).itertuples(index=False)]
    if len(changes) > _SHOWN:
        lines.append(f"  ... and {len(changes) - _SHOWN} smaller changes")
    return lines


def _options(e: Explanation) -> int:
    return 1 if e.options is None else len(e.options[0])


def _of_option(e: Explanation, k: int) -> list[str]:
    """A further option of a single row."""
    assert e.options is not None
    one = e.options[0][k]
    return [
        f"Option {k + 1}, at distance {one.distance[0]:.3g}: {one.message[0]}.",
        *_changes(one),
    ]


def _of_prices(e: Explanation) -> list[str]:
    """What the costs would have had to be instead, of a single row."""
    if not e.valid[0]:
        return [f"Prices: {e.message[0]}."]
    changes = e.table().head(_SHOWN)
    words = [
        price_words(str(name), before, after)
        for name, before, after, _ in changes.itertuples(index=False)
    ]
    return [f"Or, with this context: {join_words(words)}."] if words else []


def _of_batch(e: Explanation) -> list[str]:
    counts = Counter(e.status)
    ended = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
    lines = [f"{len(e)} contexts: {ended}."]
    found = e.answered & (e.steps > 0)
    if found.any():
        distance, steps = e.distance[found], e.steps[found].double()
        lines.append(
            f"Distance of what was found: mean {distance.mean():.3g}, median "
            f"{distance.double().quantile(0.5):.3g}, largest {distance.max():.3g}; "
            f"{counted(round(float(steps.mean())), 'step')} on average, "
            f"{counted(int(e.tie[found].sum()), 'tie')}, "
            f"{int(e.optimal[found].sum())} proved to be the closest possible."
        )
        lines += measure_said(e)
    if e.options is not None:
        several = [len(one) for one in e.options if one.answered[0]]
        lines.append(f"{sum(several)} options for {counted(len(several), 'answered context')}.")
    if e.prices is not None:
        priced = int(e.prices.valid.sum())
        lines.append(f"Changes of the costs themselves would do in {priced} of {len(e)} contexts.")
    moved = 0 if e.latent is None else int(e.reconstruction_moved.sum())
    if moved:
        lines.append(
            f"In {counted(moved, 'context')}, what the generative model alone makes of the "
            "context, before any search, already changes the decision."
        )
    failed = [i for i, status in enumerate(e.status) if not status.is_answer]
    lines += [f"  row {e.label(i)}: {e.message[i]}" for i in failed[:_SHOWN]]
    if len(failed) > _SHOWN:
        lines.append(f"  ... and {len(failed) - _SHOWN} more rows without an answer")
    return lines
