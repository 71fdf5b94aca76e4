"""The default search: exact where that is possible, otherwise the best of what there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torch import Tensor

from cfopt import registry
from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.exact.relu import layer_sizes
from cfopt.search.base import Search
from cfopt.search.certify import Certify
from cfopt.search.closed_form import ClosedForm
from cfopt.search.cutting_plane import CuttingPlane
from cfopt.search.derivative_free import DerivativeFree
from cfopt.search.enumeration import Enumeration
from cfopt.search.fallback import Fallback, Refined
from cfopt.search.mdmm import MDMM
from cfopt.search.tangents import Tangents
from cfopt.search.tree_cells import TreeCells
from cfopt.search.trust_region import LatentSequential, Sequential

#: Behind ReLU networks with no more features and neurons than these, so many cases are looked at
#: for each row.
_SMALL, _CASES = 100, 300


@registry.searches.register
@dataclass(frozen=True)
class Auto(Search):
    """Picks the searches that fit the task.

    With an affine predictor: the closed form, cutting planes or enumeration, whichever serves the
    criterion. Rows that these cannot settle in time, and all rows of any other predictor: the
    sequential search (behind a small ReLU network certified, so that its answers are proved or
    improved), then MDMM for those that are still without an answer, polished. Contexts that are too
    large for the sequential search, such as images: tangents in its place. Among codes: the
    sequential search alone, since MDMM seldom finds what it does not. Predictors without a
    gradient: what is exact, then a search that looks at many points.

    Arguments:
        cutting_plane, enumeration, sequential, latent, tangents, certify, mdmm, derivative_free:
            the searches, with settings of your own.
    """

    cutting_plane: CuttingPlane = field(default_factory=CuttingPlane)
    enumeration: Enumeration = field(default_factory=Enumeration)
    trees: TreeCells = field(default_factory=TreeCells)
    sequential: Sequential = field(default_factory=Sequential)
    latent: LatentSequential = field(default_factory=LatentSequential)
    tangents: Tangents = field(default_factory=Tangents)
    certify: Certify = field(default_factory=lambda: Certify(Sequential(), None, _CASES))
    mdmm: MDMM = field(default_factory=lambda: MDMM(max_steps=1000))
    derivative_free: DerivativeFree = field(default_factory=DerivativeFree)

    def knowing(self, reference: Tensor) -> Auto:
        """The same, with searches that begin from known contexts."""
        return replace(
            self,
            trees=self.trees.knowing(reference),
            derivative_free=self.derivative_free.knowing(reference),
        )

    def plan(self, task: Task) -> Fallback:
        """What is tried, in this order."""
        among_codes = task.space.latent is not None
        exact = (ClosedForm(), self.cutting_plane, self.enumeration, self.trees)
        chosen = [search for search in exact if not among_codes and not search.refusal(task)][:1]
        if not task.differentiable:
            return Fallback((*chosen, self.derivative_free))
        if among_codes:
            return Fallback((self.mdmm if self.latent.refusal(task) else self.latent,))
        polish = replace(self.sequential, restarts=0)
        if self.sequential.refusal(task):
            return Fallback((*chosen, self.tangents, Refined(self.mdmm, self.tangents)))
        climbs: Search = self.sequential
        if not chosen and not self.certify.refusal(task) and sum(layer_sizes(task)) <= _SMALL:
            climbs = replace(self.certify, first=climbs)
        return Fallback((*chosen, climbs, Refined(self.mdmm, polish)))

    def steps(self, task: Task) -> Iterator[Progress]:
        """As planned."""
        yield from self.plan(task).steps(task)
