"""An explanation in a few lines, for the terminal."""

from __future__ import annotations

from collections import Counter

from cfopt.names import counted
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status
from cfopt.result.wording import moved_words, question

#: How many changes, or rows without an answer, a summary lists.
_SHOWN = 6


def summary(e: Explanation) -> str:
    """What was asked, how it ended, what changed."""
    lines = _of_row(e) if len(e) == 1 else _of_batch(e)
    return "\n".join([question(e.criterion, e.margin), *lines])


def _of_row(e: Explanation) -> list[str]:
    lines = [f"{e.status[0].capitalize()}: {e.message[0]}."]
    if e.status[0] is Status.PROVED_INFEASIBLE:
        return lines
    if e.steps[0] > 0:
        taken = counted(int(e.steps[0]), "step")
        lines.append(f"Distance {e.distance[0]:.3g}, in {taken}.")
    changes = e.table()
    lines += [f"  {moved_words(*line)}" for line in changes.head(_SHOWN).itertuples(index=False)]
    if len(changes) > _SHOWN:
        lines.append(f"  ... and {len(changes) - _SHOWN} smaller changes")
    return lines


def _of_batch(e: Explanation) -> list[str]:
    counts = Counter(e.status)
    ended = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
    lines = [f"{len(e)} contexts: {ended}."]
    found = e.valid & (e.steps > 0)
    if found.any():
        distance, steps = e.distance[found], e.steps[found].double()
        lines.append(
            f"Distance of what was found: mean {distance.mean():.3g}, median "
            f"{distance.double().quantile(0.5):.3g}, largest {distance.max():.3g}; "
            f"{counted(round(float(steps.mean())), 'step')} on average, "
            f"{counted(int(e.tie[found].sum()), 'tie')}, "
            f"{int(e.optimal[found].sum())} proved to be the closest possible."
        )
    moved = 0 if e.latent is None else int(e.reconstruction_moved.sum())
    if moved:
        lines.append(
            f"In {counted(moved, 'context')}, what the generative model alone makes of the "
            "context, before any search, already changes the decision."
        )
    failed = [i for i, status in enumerate(e.status) if not status.is_valid]
    lines += [f"  row {e.label(i)}: {e.message[i]}" for i in failed[:_SHOWN]]
    if len(failed) > _SHOWN:
        lines.append(f"  ... and {len(failed) - _SHOWN} more rows without an answer")
    return lines
