"""The pictures of each task, as many in full as the file has room for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from cfopt.errors import InputError
from cfopt.explanation import Explanation
from cfopt.names import listing
from cfopt.plots.maps import has_maps
from cfopt.plots.parts import host, prices
from cfopt.problems import GridShortestPath, Knapsack, TerrainShortestPath
from cfopt.problems.base import same_decision
from cfopt.report import svg
from cfopt.report.bars import shown_of
from cfopt.report.drawing import draw, sketch
from cfopt.report.images import change_uri, has_images, image_uri
from cfopt.report.scene import Line, Panel
from cfopt.report.sentences import chosen_elsewhere, names, same, third_role
from cfopt.types import Array, Status

#: What all pictures of a report may take together, in bytes.
ROOM = 12_000_000
#: What the lines of a picture are.
_ROLES = {
    "factual": "decided",
    "other": "asked for",
    "rival1": "one in its way",
    "rival2": "another",
}
#: How many of the first tasks come before all others when room is short.
_FIRST = 60


@dataclass(frozen=True)
class Picture:
    """A picture with its title and a line below it."""

    title: str
    drawing: Markup
    caption: str = ""


@dataclass(frozen=True)
class Gallery:
    """The pictures of one task.

    Arguments:
        pictures: in the order in which they are seen; empty where there is nothing to draw.
        thinned: whether room was short, so that they show the decisions alone, or nothing.
    """

    pictures: tuple[Picture, ...] = ()
    thinned: bool = False


def galleries(e: Explanation, room: int = ROOM) -> list[Gallery]:
    """The pictures of every row, drawn in full as long as there is room.

    Arguments:
        e: the explanation.
        room: what they may take together, in bytes.
    """
    found = [Gallery()] * len(e)
    for row in by_worth(e):
        one = e[row]
        if not _can_be_drawn(one):
            continue
        # Maps are encoded only while there is room: that takes longer than all the rest.
        full = tuple(_pictures(one)) if room > 0 else ()
        size = sum(len(picture.drawing) for picture in full)
        if full and size <= room:
            room -= size
            found[row] = Gallery(full)
        else:
            room = 0
            found[row] = Gallery(tuple(_sketches(one)), thinned=True)
    return found


def by_worth(e: Explanation) -> list[int]:
    """Rows in the order in which they deserve a picture: the first, the unanswered, the nearest."""
    distance = e.distance.tolist()
    rest = range(_FIRST, len(e))
    return [
        *range(min(_FIRST, len(e))),
        *sorted(rest, key=lambda row: (e.status[row].is_valid, distance[row])),
    ]


def _can_be_drawn(one: Explanation) -> bool:
    if one.status[0] is Status.REJECTED or not bool(one.factual.isfinite().all()):
        return False
    try:
        prices(one, "costs_before")
    except InputError:  # read from a file, without the problem that knows the fixed costs
        return False
    return True


def _pictures(one: Explanation) -> Iterable[Picture]:
    before, after = panels(one)
    clash = one.clash[0] is not None
    titles = "Before", _after_title(one)
    if has_maps(one):
        images = [image_uri(one.x0[0]), "" if clash else image_uri(one.x[0])]
        for title, panel, uri in zip(titles, (before, after), images, strict=True):
            drawing = draw(one.problem, _on(panel, uri or images[0]))
            yield Picture(title, drawing, _caption(one, panel))
        if not clash and _moved(one):
            uri = change_uri(one.x0[0], one.x[0])
            drawing = draw(one.problem, _on(after, uri))
            yield Picture("Where it changed", drawing, "The more purple, the larger the change.")
            yield Picture("Predicted costs before", draw(one.problem, before))
            yield Picture("Predicted costs after", draw(one.problem, after))
        return
    if has_images(one):
        yield from _images(one)
    for title, panel in zip(titles, (before, after), strict=True):
        yield Picture(title, draw(one.problem, panel), _caption(one, panel))


def _sketches(one: Explanation) -> Iterable[Picture]:
    for title, panel in zip(("Before", _after_title(one)), panels(one), strict=True):
        drawing = sketch(one.problem, panel)
        if drawing is not None:
            yield Picture(title, drawing, _caption(one, panel))


def _images(one: Explanation) -> Iterable[Picture]:
    """Images that no route crosses."""
    height, width = one.x0.shape[2:]
    shown = [("Image before", image_uri(one.x0[0]))]
    if _moved(one):
        shown.append(("Image after", image_uri(one.x[0])))
        shown.append(("Where it changed", change_uri(one.x0[0], one.x[0])))
    for title, uri in shown:
        parts = [svg.image(uri, 0, 0, width, height)]
        yield Picture(title, svg.picture(width, height, title, parts, "image"))


def _moved(one: Explanation) -> bool:
    return bool((one.x - one.x0).abs().max() > 0)


def _on(panel: Panel, uri: str) -> Panel:
    return Panel(
        panel.prices, panel.strong, panel.weak, panel.low, panel.high, panel.label, backdrop=uri
    )


def _after_title(one: Explanation) -> str:
    if one.status[0] is Status.PROVED_INFEASIBLE:
        return "In its way"
    if one.status[0] is Status.ALREADY_VALID:
        return "After, unchanged"
    return "After" if one.status[0] is Status.VALID else "At the nearest miss"


def _caption(one: Explanation, panel: Panel) -> str:
    """What is seen, and in which line: also for those who cannot tell the colours apart."""
    problem = one.problem
    routes = isinstance(problem, GridShortestPath | TerrainShortestPath)
    said = _ROLES | {"third": third_role(one)}
    if not one.criterion.contrasts:
        said["other"] = "best there"
    front, back = ("Thick", "dashed") if routes else ("Filled", "outlined")
    beside = [said[line.role] for line in (panel.weak if routes else panel.weak[:1])]
    legend = f"{front}: {said[panel.strong.role]}"
    legend += f"; {back}: {listing(beside)}." if beside else "."
    if routes:
        return legend
    shown = f"{legend} {shown_of(problem, panel)}".strip()
    if isinstance(problem, Knapsack):
        packed = panel.strong.decision > 0.5
        room = np.where(problem.capacities > 0, problem.capacities, 1)
        used = [f"{part:.0%}" for part in problem.weights @ packed / room]
        takes = " and ".join(used)
        which = "the capacity" if len(used) == 1 else "the capacities"
        return f"{shown} The filled set takes {takes} of {which}."
    return shown


def panels(one: Explanation) -> tuple[Panel, Panel]:
    """Before and after, or what is in the way, of a single row."""
    before, after = prices(one, "costs_before"), prices(one, "costs")
    factual, other = Line(host(one.factual[0]), "factual"), Line(host(one.alternative[0]), "other")
    decided, wanted = names(one)
    differ = bool((one.factual - one.alternative).abs().max() > 1e-9)
    lines = _after(one, factual, other)
    said = f"After: {wanted if lines[0] is other else decided} in front"
    if one.clash[0] is not None:
        after = before
        lines = rivals(one) or [factual, other]
        said = f"What stands in the way of {wanted}"
    low, high = _range(before, after)
    weak = (other,) if differ else ()
    label = f"Before: {decided} was decided" + (f", {wanted} beside it" if differ else "")
    first = Panel(before, factual, weak, low, high, label)
    strong, *rest = lines
    return first, Panel(after, strong, tuple(rest), low, high, said)


def _after(one: Explanation, factual: Line, other: Line) -> list[Line]:
    """The decisions at x, the one that wins there first."""
    third = [Line(host(one.decision[0]), "third")] if chosen_elsewhere(one) else []
    if bool(one.valid[0]):
        return [other, factual, *third] if not same(one) else [factual, *third]
    if bool(same_decision(one.decision, one.factual)[0]):
        return [factual, other]
    return [*third, other, factual]


def rivals(one: Explanation) -> list[Line]:
    """The first two decisions of a clash; the factual one keeps the role that it has anyway."""
    clash, factual = one.clash[0], one.factual
    if clash is None or clash.decisions.shape[1] != factual.shape[1]:
        return []
    lines, roles = [], iter(("rival1", "rival2"))
    for y in clash.decisions[:2]:
        own = bool(same_decision(factual.new_tensor(y)[None], factual)[0])
        lines.append(Line(y, "factual" if own else next(roles)))
    return lines


def _range(before: Array, after: Array) -> tuple[float, float]:
    values = np.concatenate([before, after])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
