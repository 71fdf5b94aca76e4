"""The default search: exact where that is possible, otherwise the best of what there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from cfopt import registry
from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.search.base import Search, check_time_limit
from cfopt.search.closed_form import ClosedForm
from cfopt.search.cutting_plane import CuttingPlane
from cfopt.search.enumeration import Enumeration
from cfopt.search.fallback import Fallback, Refined
from cfopt.search.mdmm import MDMM
from cfopt.search.tangents import Tangents
from cfopt.search.tree_cells import TreeCells
from cfopt.search.trust_region import LatentSequential, Sequential


@registry.searches.register
@dataclass(frozen=True)
class Auto(Search):
    """Picks the searches that fit the task.

    With an affine predictor: the closed form, cutting planes or enumeration, whichever serves the
    criterion. Rows that these cannot settle in time, and all rows of any other predictor: the
    sequential search, then MDMM for those that are still without an answer, polished. Contexts that
    are too large for the sequential search, such as images: tangents in its place. Among codes: the
    sequential search alone, since MDMM seldom finds what it does not. Behind a tree ensemble: the
    search over its cells.

    Arguments:
        cutting_plane, enumeration, trees, sequential, latent, tangents, mdmm: the searches, with
            settings of your own.
        time_limit: seconds for all rows and searches together; rows without an answer by then end
            as best effort. A solve that has begun is not stopped.
    """

    cutting_plane: CuttingPlane = field(default_factory=CuttingPlane)
    enumeration: Enumeration = field(default_factory=Enumeration)
    trees: TreeCells = field(default_factory=TreeCells)
    sequential: Sequential = field(default_factory=Sequential)
    latent: LatentSequential = field(default_factory=LatentSequential)
    tangents: Tangents = field(default_factory=Tangents)
    mdmm: MDMM = field(default_factory=lambda: MDMM(max_steps=1000))
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_time_limit(self, self.time_limit)

    def plan(self, task: Task) -> Fallback:
        """What is tried, in this order."""
        if task.space.latent is not None:
            return Fallback((self.mdmm if self.latent.refusal(task) else self.latent,))
        if not self.trees.refusal(task):
            return Fallback((self.trees,))
        exact = (ClosedForm(), self.cutting_plane, self.enumeration)
        chosen = [search for search in exact if not search.refusal(task)][:1]
        polish = replace(self.sequential, restarts=0)
        if self.sequential.refusal(task):
            return Fallback((*chosen, self.tangents, Refined(self.mdmm, self.tangents)))
        return Fallback((*chosen, self.sequential, Refined(self.mdmm, polish)))

    def steps(self, task: Task) -> Iterator[Progress]:
        """As planned."""
        yield from replace(self.plan(task), time_limit=self.time_limit).steps(task)
