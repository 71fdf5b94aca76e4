"""The search for the fewest edits, each of which puts something known in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cfopt import registry
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.exact.affine import AffineMap, is_affine
from cfopt.names import join_words
from cfopt.problems.cells import Cells
from cfopt.search.base import Search, check_whole
from cfopt.search.edits.places import CellPlaces, ColumnPlaces, Places
from cfopt.search.edits.row import EditedRow
from cfopt.search.edits.vocabulary import Vocabulary

#: How many edits are named.
_NAMED = 12


@registry.searches.register
@dataclass(frozen=True, eq=False)
class Edits(Search):
    """Answers made of what is known: cells of known maps, values seen in a table.

    Nothing is made up: of a map, whole cells are replaced by cells of known maps, with blended
    borders; of a table, values by values that it has seen. The effect of every single edit on the
    costs is predicted; a best-first search then chooses few edits that together let the
    criterion hold, if effects add up, against the decisions that the solver calls for. What it
    chooses is predicted as a whole, and it learns by how much the sum was wrong. At last,
    edits that are not needed are taken back.

    That no answer is nearer is not proved. How many edits are needed at the least is, where effects
    add up: behind an affine predictor, of columns, or of cells with `blend=0`. `Explanation.method`
    says so, or the message where no edits of these kinds are enough.

    Arguments:
        vocabulary: what can be put in place; by default it is made of `explain(reference=...)`.
        kinds: how many kinds of cells, or values of a column, are made of known contexts.
        blend: over how many pixels an edit fades into what is there; for images.
        attempts: how often that is corrected.
        nearest: how much an edit's distance counts beside the number of edits: that of the largest
            edit counts as so many edits.
    """

    #: Answers of another kind would not be edits: no other search stands in.
    stands_alone: ClassVar[bool] = True
    counts_changes: ClassVar[bool] = True
    #: By refusing it.
    heeds_variation: ClassVar[bool] = True
    vocabulary: Vocabulary | None = field(default=None, repr=False)
    kinds: int = 8
    blend: int = 4
    attempts: int = 12
    nearest: float = 0.3
    known: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_whole(self, kinds=1, blend=0, attempts=1)

    def knowing(self, reference: Tensor) -> Edits:
        """The same, with a vocabulary that is made of known contexts, if none was given."""
        return replace(self, known=reference)

    def refusal(self, task: Task) -> str:
        """Needs contexts, something to put in place, and cells if contexts are images."""
        if task.space.latent is not None:
            return "codes are searched; leave out generative=..."
        if task.variation is not None:
            return "its answers are not made to stand up to anything; leave out robust=..."
        origin = task.space.origin
        if self.vocabulary is None and self.known is None:
            return "it needs known contexts: pass reference=..., or Edits(Vocabulary(...))"
        given = self._usable() if self.vocabulary is None else self.vocabulary.contexts
        if not len(given):
            return "none of the known contexts is finite; pass others as reference=..."
        if given.shape[1:] != origin.shape[1:]:
            return (
                f"the vocabulary has contexts of shape {tuple(given.shape[1:])}, and those asked "
                f"about have {tuple(origin.shape[1:])}"
            )
        if origin.ndim not in (2, 4):
            return "contexts need to be images or rows of a table; use Auto()"
        return self._cells_missing(task)

    def steps(self, task: Task) -> Iterator[Progress]:
        """One row after the other."""
        self.check(task)
        task = task.proven()
        places = self._places(task)
        parts = self._vocabulary(places)
        adding_up = _adding_up(task, places)
        for row in range(len(task)):
            alone = EditedRow(
                task[torch.tensor([row])], places, parts.contexts, self.nearest, adding_up
            )
            if not task.late:
                alone.run(self.attempts)
            words = "edits"
            if alone.edits:
                words += f": {self._words(places, parts, alone)}{alone.proved()}"
            best = alone.best
            finished = Points(
                rows=torch.tensor([row]),
                x=best.x,
                found=best.found,
                steps=torch.tensor([alone.rounds]),
                solves=torch.tensor([alone.solves]),
                passes=torch.tensor([alone.passes]),
                notes=("" if best.found[0] else alone.why_not(),),
                methods=(words,),
            )
            yield Progress(row + 1, len(task) - row - 1, len(task), finished)

    def _cells_missing(self, task: Task) -> str:
        origin, scene = task.space.origin, task.rules.problem.scene()
        if origin.ndim == 2:
            return ""
        if not isinstance(scene, Cells):
            return "images need a problem whose scene has cells"
        if origin.shape[2] % scene.size[0] or origin.shape[3] % scene.size[1]:
            return f"images of {tuple(origin.shape[2:])} pixels have no {scene.size} whole cells"
        return ""

    def _places(self, task: Task) -> Places:
        origin, scene = task.space.origin, task.rules.problem.scene()
        if origin.ndim == 4:
            assert isinstance(scene, Cells)
            _, channels, height, width = origin.shape
            return CellPlaces(scene.names, scene.size, (channels, height, width), self.blend)
        domain = task.space.domain
        if domain is None:
            count = origin.shape[1]
            return ColumnPlaces([f"feature {j}" for j in range(count)], np.arange(count))
        names = [domain.unit_name(k) for k in range(domain.limits.num_units)]
        return ColumnPlaces(names, domain.limits.unit)

    def _vocabulary(self, places: Places) -> Vocabulary:
        if self.vocabulary is not None:
            return self.vocabulary
        usable = self._usable()
        if isinstance(places, CellPlaces):
            return Vocabulary.of_cells(usable, *places.size, self.kinds)
        assert isinstance(places, ColumnPlaces)
        return Vocabulary.of_values(usable, places.unit, self.kinds)

    def _usable(self) -> Tensor:
        """Known contexts of which something can be taken."""
        assert self.known is not None
        return self.known[self.known.flatten(1).isfinite().all(1)]

    def _words(self, places: Places, parts: Vocabulary, row: EditedRow) -> str:
        """What is put where: "C3 and H8 grass, A2 rock"."""
        if not parts.names:
            return join_words([places.names[place] for place, _ in row.edits], most=_NAMED)
        said = []
        for kind, name in enumerate(parts.names):
            where = [places.names[place] for place, k in row.edits if k == kind]
            if where:
                said.append(f"{join_words(where, most=_NAMED)} {name}")
        return ", ".join(said)


def _adding_up(task: Task, places: Places) -> AffineMap | None:
    """The predictor, if effects of edits are known to add up and decisions are exact; else None."""
    rules = task.rules
    plain = rules.problem.tolerance == 0 and rules.wish is None
    known = plain and places.are_apart and is_affine(task.predictor)
    return AffineMap.of(task) if known else None
