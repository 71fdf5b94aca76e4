"""The pictures of each task, as many in full as the file has room for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup

from cfopt._batch import once
from cfopt.drawing import elements as svg
from cfopt.drawing.bars import shown_of
from cfopt.drawing.panel import (
    Line,
    Panel,
    has_images,
    has_maps,
    marks,
    price_range,
    prices,
    prices_at,
    scene_of,
    winner_first,
)
from cfopt.drawing.redrawn import origin_of
from cfopt.drawing.svg import draw, sketch
from cfopt.errors import InputError
from cfopt.names import join_words
from cfopt.problems.solved import same_decision
from cfopt.report.images import change_uri, image_uri
from cfopt.report.sentences import names, third_role
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status

#: What all pictures of a report may take together, in bytes.
ROOM = 12_000_000
#: What the lines of a picture are.
_ROLES = {
    "factual": "decided",
    "other": "asked for",
    "rival1": "one in its way",
    "rival2": "another",
}
#: What the picture of the model alone is called.
REDRAWN = "As the model redraws it"
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
        pictures: in the order of the page; empty if there is nothing to draw.
        thinned: whether room was short, so that they show the decisions alone, or nothing.
    """

    pictures: tuple[Picture, ...] = ()
    thinned: bool = False


def galleries(e: Explanation, room: int = ROOM, standalone: bool = False) -> list[Gallery]:
    """The pictures of every row, drawn in full as long as there is room.

    Arguments:
        e: the explanation.
        room: the most bytes that they may take together.
        standalone: whether each needs no other element of its page.
    """
    found, rows = [Gallery()] * len(e), alone(e)
    for row in by_worth(e):
        one = rows[row]
        if not _can_be_drawn(one):
            continue
        # Maps are encoded only while there is room: that takes longer than all the rest.
        full = tuple(_pictures(one, standalone)) if room > 0 else ()
        size = sum(len(picture.drawing) for picture in full)
        if full and size <= room:
            room -= size
            found[row] = Gallery(full)
        else:
            room = 0
            found[row] = Gallery(tuple(_sketches(one)), thinned=True)
    return found


@once
def alone(e: Explanation) -> list[Explanation]:
    """Every row alone."""
    return e.split([1] * len(e))


def by_worth(e: Explanation) -> list[int]:
    """Rows in the order in which they deserve a picture: the first, the unanswered, the nearest."""
    distance = e.distance.tolist()
    rest = range(_FIRST, len(e))
    return [
        *range(min(_FIRST, len(e))),
        *sorted(rest, key=lambda row: (e.status[row].is_answer, distance[row])),
    ]


def _can_be_drawn(one: Explanation) -> bool:
    if one.status[0] is Status.REJECTED or not bool(one.factual.isfinite().all()):
        return False
    try:
        prices(one, "costs_before")
    except InputError:  # read from a file, without the problem that knows the fixed costs
        return False
    return True


def _pictures(one: Explanation, standalone: bool) -> Iterable[Picture]:
    before, after = panels(one)
    titles = "Before", _after_title(one)
    if has_maps(one):
        yield from _maps(one, before, after, standalone)
        return
    if has_images(one):
        yield from _images(one)
    for title, panel in zip(titles, (before, after), strict=True):
        yield Picture(title, draw(panel, standalone), _caption(one, panel))


def _maps(one: Explanation, before: Panel, after: Panel, standalone: bool) -> Iterable[Picture]:
    """The map before and after, between them what the model alone makes of it, and costs."""
    origin, clash = origin_of(one), one.clash[0] is not None
    first = image_uri(one.x0[0])
    drawing = draw(replace(before, backdrop=first), standalone)
    yield Picture("Before", drawing, _caption(one, before))
    if origin.redrawn:
        costs = prices_at(one, origin.costs[None])
        between = replace(before, prices=costs, label=REDRAWN)
        drawing = draw(replace(between, backdrop=image_uri(origin.context)), standalone)
        yield Picture(REDRAWN, drawing, _redrawn_caption(one))
    drawing = draw(replace(after, backdrop=first if clash else image_uri(one.x[0])), standalone)
    yield Picture(_after_title(one), drawing, _caption(one, after))
    if not clash and _moved(one):
        drawing = draw(replace(after, backdrop=change_uri(origin.context, one.x[0])), standalone)
        yield Picture("Where it changed", drawing, "The more purple, the larger the change.")
        yield Picture("Predicted costs before", draw(before, standalone))
        yield Picture("Predicted costs after", draw(after, standalone))


def _redrawn_caption(one: Explanation) -> str:
    """What is decided on the map that the model alone makes."""
    stays = not bool(one.reconstruction_moved[0])
    there = "the same is decided" if stays else "something else is decided"
    return f"Before any search; {there} there."


def _sketches(one: Explanation) -> Iterable[Picture]:
    for title, panel in zip(("Before", _after_title(one)), panels(one), strict=True):
        drawing = sketch(panel)
        if drawing is not None:
            yield Picture(title, drawing, _caption(one, panel))


def _images(one: Explanation) -> Iterable[Picture]:
    """Images that no route crosses."""
    height, width = one.x0.shape[2:]
    shown = [("Image before", image_uri(one.x0[0]))]
    origin = origin_of(one)
    if origin.redrawn:
        shown.append((REDRAWN, image_uri(origin.context)))
    if _moved(one):
        shown.append(("Image after", image_uri(one.x[0])))
        shown.append(("Where it changed", change_uri(origin.context, one.x[0])))
    for title, uri in shown:
        parts = [svg.image(uri, 0, 0, width, height)]
        yield Picture(title, svg.picture(width, height, title, parts, "image"))


def _moved(one: Explanation) -> bool:
    return bool((one.x - one.x0).abs().max() > 0)


def _after_title(one: Explanation) -> str:
    if one.status[0] is Status.PROVED_INFEASIBLE:
        return "In its way"
    if one.status[0] is Status.ALREADY_VALID:
        return "After, unchanged"
    return "After" if one.status[0].is_found else "At the nearest miss"


def _caption(one: Explanation, panel: Panel) -> str:
    """What is seen, and in which line: also for those who cannot distinguish the colours."""
    scene, shaded = panel.scene, panel.scene.has_places
    said = _ROLES | {"third": third_role(one)}
    if not one.criterion.contrasts:
        said["other"] = "best there"
    front, back = ("Thick", "dashed") if shaded else ("Filled", "outlined")
    beside = [said[line.role] for line in (panel.weak if shaded else panel.weak[:1])]
    legend = f"{front}: {said[panel.strong.role]}"
    legend += f"; {back}: {join_words(beside)}." if beside else "."
    note = scene.note(panel.strong.decision)
    if note:
        note = f"The {front.lower()} {scene.noun} {note}."
    return " ".join(filter(None, [legend, "" if shaded else shown_of(panel), note]))


def panels(one: Explanation) -> tuple[Panel, Panel]:
    """Before and after, or what is in the way, of a single row."""
    before, after = prices(one, "costs_before"), prices(one, "costs")
    factual, other = marks(one)
    decided, wanted = names(one)
    differ = bool(np.abs(factual.decision - other.decision).max() > 1e-9)
    lines = winner_first(one)
    said = f"After: {wanted if lines[0].role == 'other' else decided} in front"
    if one.clash[0] is not None:
        after = before
        lines = rivals(one) or [factual, other]
        said = f"What stands in the way of {wanted}"
    scene, (low, high) = scene_of(one), price_range([before, after])
    weak = (other,) if differ else ()
    label = f"Before: {decided} was decided" + (f", {wanted} beside it" if differ else "")
    first = Panel(scene, before, factual, weak, low, high, label)
    strong, *rest = lines
    return first, Panel(scene, after, strong, tuple(rest), low, high, said)


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
