"""What the pictures share: words, prices, scales, and how a figure begins and ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text

from cfopt.drawing.mpl import INK
from cfopt.drawing.panel import Line, has_maps, scene_of
from cfopt.errors import InputError
from cfopt.exact.certificate import Clash
from cfopt.problems.cells import Cells
from cfopt.problems.sense import Sense
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status

#: How many features, or limits, a picture names.
SHOWN = 12


def refuse_rejected(e: Explanation) -> None:
    """Raise InputError if a row was rejected."""
    for row, status in enumerate(e.status):
        if status is Status.REJECTED:
            raise InputError(
                f"There is nothing to draw, the row was rejected: {e.message[row]}."
                if len(e) == 1
                else f"There is nothing to draw for row {e.label(row)}, which was rejected: "
                f"{e.message[row]}. Leave it out."
            )


def finish(figure: Figure, path: str | Path | None) -> Figure:
    """The figure, saved if a path is given; its texts are shown as written, not as formulas."""
    for text in _texts(figure):
        text.set_parse_math(False)  # a feature may be called "cost in $"
    if path is not None:
        figure.savefig(path)
    return figure


def _texts(artist: Artist) -> Iterator[Text]:
    """The texts of a figure or of a part of it; an axis that is not shown would first make some."""
    for child in artist.get_children():
        if isinstance(child, Text):
            yield child
        elif not (isinstance(child, Axis) and not child.axes.axison):
            yield from _texts(child)


def verdict(e: Explanation) -> str:
    """How the first row ended, as a sentence."""
    return f"{e.status[0].capitalize()}: {e.message[0]}."


def other_name(e: Explanation) -> str:
    """What to call the decision that is compared with the factual one."""
    return "the alternative" if e.criterion.contrasts else "what is best then"


def value_verb(e: Explanation) -> str:
    """How a decision's value is said."""
    return "costs" if e.sense is Sense.MIN else "is worth"


def obstacles(clash: Clash) -> list[Line]:
    """The first two decisions that the alternative cannot beat at once."""
    return [Line(y, role) for y, role in zip(clash.decisions, ("rival1", "rival2"), strict=False)]


def map_scene(e: Explanation, name: str) -> Cells:
    """The map that an explanation of images is about; `name` is the caller, for the error."""
    scene = scene_of(e)
    if not has_maps(e) or not isinstance(scene, Cells):
        problem = "no problem" if e.problem is None else type(e.problem).__name__
        raise InputError(
            f"{name} needs explanations of map images, contexts of shape (rows, 3, height, width) "
            f"and a problem whose decisions are paths over cells, such as TerrainShortestPath; got "
            f"{tuple(e.x0.shape)} and {problem}. For an explanation read from JSON, pass the "
            "problem: from_json(path, problem=...)."
        )
    return scene


def height_ratio(scene: Cells) -> float:
    """How high a panel is beside its width; long maps leave some of it empty."""
    rows, cols = scene.size
    return min(max(rows / cols, 0.5), 1.6)


def caption(axes: Axes, title: str, detail: str, size: float) -> None:
    """A bold title above a panel, and a detail in smaller letters below it."""
    axes.set_title(title, fontsize=size, fontweight="bold", color=INK)
    axes.set_xlabel(detail, fontsize=0.9 * size, color=INK)


def reasons(axes: Axes, clash: Clash) -> None:
    """The limits on the context that are involved in a clash, in words."""
    axes.set_axis_off()
    parts = [("Limits involved", clash.limits), ("Locked, and involved", clash.locked)]
    lines = [f"{title}:\n  " + "\n  ".join(_first(names)) for title, names in parts if names]
    text = "\n\n".join(lines) or "No limit is involved:\nit is so in every context."
    axes.text(0.05, 0.95, text, va="top", fontsize=10, color=INK, transform=axes.transAxes)


def _first(names: tuple[str, ...]) -> list[str]:
    more = [f"... and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return [*names[:SHOWN], *more]


def obstacle_title(count: int) -> str:
    """What a panel with the decisions of a clash is called."""
    if not count:
        return "No context helps"
    return f"In its way: {min(count, 2)} of {count} decisions" if count > 2 else "In its way"
