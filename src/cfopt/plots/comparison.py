"""Why plausibility is needed: a naive explanation, which looks the same, beside a plausible one."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cfopt.drawing.mpl import INK, draw_image, draw_routes
from cfopt.drawing.panel import marks, winner_first
from cfopt.drawing.pixels import change_size, magnification, magnified, pixels
from cfopt.errors import InputError
from cfopt.plots.common import caption, finish, height_ratio, map_scene, refuse_rejected
from cfopt.plots.map_explanation import legend_handles, values
from cfopt.plots.style import canvas
from cfopt.problems.solved import same_decision
from cfopt.result.explanation import Explanation
from cfopt.result.wording import question

#: Lines and signs, compared with those of a large panel; the size of titles.
_SIZE, _TITLE = 0.7, 12


def plot_naive_and_plausible(
    naive: Explanation, plausible: Explanation, path: str | Path | None = None
) -> Figure:
    """One question answered twice: the map, each answer, and what each changed, magnified (Fig. 2).

    Arguments:
        naive: one row, searched for among all images.
        plausible: one row, searched for among the codes of a generative model.
        path: where to save the picture (PNG, SVG or PDF), if anywhere.
    """
    _check(naive, plausible)
    scene = map_scene(naive, "plot_naive_and_plausible")
    height = 1.95 + 2.9 * height_ratio(scene)
    figure = canvas(15, height, rect=(0.005, 0.45 / height, 0.99, 1 - 0.9 / height))
    origin, *panels = figure.subplots(1, 5)
    figure.text(
        0.012,
        1 - 0.32 / height,
        question(naive.criterion, naive.margin),
        fontsize=15,
        fontweight="bold",
        color=INK,
    )
    factual, other = marks(naive)
    draw_image(origin, scene, pixels(naive.x0[0]))
    # Without an alternative to argue for, each answer has a rival of its own.
    rivals = [other] if naive.criterion.contrasts else []
    draw_routes(origin, scene, factual, *rivals, size=_SIZE)
    caption(origin, "The map", values(naive, "costs_before"), _TITLE)
    _draw_answer(naive, "Naive", panels[0], panels[1])
    _draw_answer(plausible, "Plausible", panels[2], panels[3])
    third = any(winner_first(e)[0].role == "third" for e in (naive, plausible))
    handles = legend_handles(naive, *([("third", "what is chosen there")] if third else []))
    figure.legend(handles=handles, loc="lower left", ncols=6, frameon=False, fontsize=11)
    return finish(figure, path)


def _draw_answer(e: Explanation, name: str, left: Axes, right: Axes) -> None:
    """The map of an answer with the path that wins there, and its magnified difference."""
    scene = map_scene(e, "plot_naive_and_plausible")
    draw_image(left, scene, pixels(e.x[0]))
    draw_routes(left, scene, *winner_first(e)[:1], size=_SIZE)
    title = f"{name} explanation" if e.answered[0] else f"{name}: {e.status[0]}"
    caption(left, title, f"distance {e.distance[0]:.3g}\n{values(e, 'costs')}", _TITLE)
    factor = magnification(e.x0[0], e.x[0])
    draw_image(right, scene, magnified(e.x0[0], e.x[0], factor))
    largest = float(change_size(e.x0[0], e.x[0]).max())
    caption(
        right,
        f"What it changes, times {factor:g}",
        f"grey is unchanged; the largest change\nis {100 * largest:.2g}% of a colour's range",
        _TITLE,
    )


def _check(naive: Explanation, plausible: Explanation) -> None:
    """Raise InputError unless both answer the same question about the same map."""
    for name, e in (("naive", naive), ("plausible", plausible)):
        map_scene(e, "plot_naive_and_plausible")
        if len(e) != 1:
            raise InputError(
                f"plot_naive_and_plausible needs explanations of one row, {name} has {len(e)}. "
                "Pick one: e[3]."
            )
        refuse_rejected(e)
    if naive.x0.shape != plausible.x0.shape or not torch.equal(
        naive.x0.cpu(), plausible.x0.cpu().to(naive.x0.dtype)
    ):
        raise InputError(
            "plot_naive_and_plausible needs two explanations of the same map, got different x0. "
            "Explain the same context twice."
        )
    if not _same_question(naive, plausible):
        raise InputError(
            "plot_naive_and_plausible needs two answers to the same question, got "
            f"{_asked(naive)!r} and {_asked(plausible)!r}"
            f"{'' if _asked(naive) != _asked(plausible) else ' about different alternatives'}. "
            "Pass the same criterion and margin to explain."
        )


def _asked(e: Explanation) -> str:
    return question(e.criterion, e.margin)


def _same_question(left: Explanation, right: Explanation) -> bool:
    if type(left.criterion) is not type(right.criterion) or _asked(left) != _asked(right):
        return False
    if not left.criterion.contrasts:
        return True
    pair = (e.alternative.double().cpu() for e in (left, right))
    return bool(same_decision(*pair).all())
