"""The default search: exact where that is possible, otherwise the best of what there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import ClassVar

from torch import Tensor

from cfopt import registry
from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.exact.relu import layer_sizes
from cfopt.question.quantifier import Quantifier
from cfopt.search.anywhere import Anywhere, anywhere
from cfopt.search.base import Search
from cfopt.search.broad_codes import BroadCodes
from cfopt.search.by_squares import BySquares
from cfopt.search.certify import Certify
from cfopt.search.clearance import Clearance
from cfopt.search.closed_form import ClosedForm
from cfopt.search.cutting_plane import CuttingPlane
from cfopt.search.derivative_free import DerivativeFree
from cfopt.search.enumeration import Enumeration
from cfopt.search.fallback import Fallback, Refined
from cfopt.search.few_changes import with_few_changes
from cfopt.search.few_codes import FewCodes
from cfopt.search.mdmm import MDMM
from cfopt.search.one_plan import OnePlan
from cfopt.search.scenarios import Scenarios
from cfopt.search.tangents import Tangents
from cfopt.search.tree_cells import TreeCells
from cfopt.search.trust_region import LatentSequential, Sequential
from cfopt.search.undominated import Undominated
from cfopt.search.unlisted_wishes import UnlistedWishes
from cfopt.search.wishes import Wishes

#: Behind ReLU networks with no more features and neurons than these, so many cases are looked at
#: for each row.
_SMALL, _CASES = 100, 300


@registry.searches.register
@dataclass(frozen=True)
class Auto(Search):
    """Picks the searches that fit the task.

    Where costs are known to be above 0, rows that ask for a plan of which a part is a plan, too,
    are settled at once: it can never be best.

    With an affine predictor: the closed form, cutting planes, enumeration, or plan by plan for a
    wish, whichever serves the criterion. Rows that these cannot settle in time, and all rows of any
    other predictor: the sequential search (behind a small ReLU network certified, so that its
    answers are proved or improved), then MDMM for those that are still without an answer, polished.
    Contexts that are too large for the sequential search, such as images: tangents in its place.
    Among codes: the sequential search alone, since MDMM seldom finds what it does not; of long ones
    first in broad directions, then among the entries that matter, then among all. Predictors
    without a gradient: what is exact, then a search that looks at many points. Where answers have
    to stand up to something, what is exact, then all this in several scenarios at once. Where
    answers must be like known contexts, the first of all these among any contexts; then, for rows
    whose answer is strange, the search that looks at many points.

    Arguments:
        cutting_plane, enumeration, wishes, unlisted_wishes, trees: the exact searches, with
            settings of your own.
        sequential, latent, tangents, certify, mdmm, derivative_free: the others.
    """

    heeds_variation: ClassVar[bool] = True
    heeds_surroundings: ClassVar[bool] = True
    cutting_plane: CuttingPlane = field(default_factory=CuttingPlane)
    enumeration: Enumeration = field(default_factory=Enumeration)
    wishes: Wishes = field(default_factory=Wishes)
    unlisted_wishes: UnlistedWishes = field(default_factory=UnlistedWishes)
    trees: TreeCells = field(default_factory=TreeCells)
    sequential: Sequential = field(default_factory=Sequential)
    latent: LatentSequential = field(default_factory=LatentSequential)
    tangents: Tangents = field(default_factory=Tangents)
    certify: Certify = field(default_factory=lambda: Certify(Sequential(), None, _CASES))
    mdmm: MDMM = field(default_factory=lambda: MDMM(max_steps=1000))
    derivative_free: DerivativeFree = field(default_factory=DerivativeFree)
    counts_changes: ClassVar[bool] = True

    def knowing(self, reference: Tensor) -> Auto:
        """The same, with searches that begin from known contexts."""
        return replace(
            self,
            trees=self.trees.knowing(reference),
            derivative_free=self.derivative_free.knowing(reference),
        )

    def plan(self, task: Task) -> Fallback:
        """What is tried, in this order; each such that it keeps to the number of changes."""
        return Fallback(
            tuple(with_few_changes(search, task) for search in self._plan(task).searches)
        )

    def _plan(self, task: Task) -> Fallback:
        """The same, whether searches count changes or not."""
        if task.space.surroundings is not None:
            first = self._plan(anywhere(task)).searches[0]
            if first is self.derivative_free:
                return Fallback((first,))
            return Fallback((Anywhere(with_few_changes(first, task)), self.derivative_free))
        among_codes = task.space.latent is not None
        exact = (
            ClosedForm(),
            self.cutting_plane,
            self.enumeration,
            self.wishes,
            self.unlisted_wishes,
            self.trees,
        )
        serving = (search for search in exact if not among_codes and not search.refusal(task))
        chosen = list(islice(serving, 1))
        if task.variation is not None:
            robust: Search = self._in_scenarios(task)
            clearance = Clearance(self)
            if not clearance.refusal(task):
                robust = Fallback((clearance, robust))
            robust = self._certified(robust, task, chosen)
            return Fallback((*chosen, robust if task.rules.wish is None else OnePlan(self, self)))
        if not task.differentiable:
            return Fallback((*chosen, self.derivative_free))
        if among_codes:
            search: Search = self.mdmm if self.latent.refusal(task) else self.latent
            # A climb from halfway takes what a polish does, and may end in a nearer piece.
            quick = replace(self.latent, restarts=0, approaches=1, polishes=0)
            few = FewCodes(quick if search is self.latent else search)
            # Hundreds of entries: first what contexts differ in most, then less usual changes of
            # these, then the entries that matter, each of which takes a fraction of the time.
            broad = BroadCodes(quick)
            narrow: tuple[Search, ...] = (broad, replace(broad, stray=broad.stray / 4), few)
            return Fallback((*(one for one in narrow if not one.refusal(task)), search))
        climbs: Search = self.sequential
        polish: Search = replace(self.sequential, restarts=0)
        if climbs.refusal(task):
            climbs, polish = Refined(BySquares(self.sequential), self.tangents), self.tangents
            if climbs.refusal(task):
                return Fallback((*chosen, self.tangents, Refined(self.mdmm, self.tangents)))
        climbs = self._certified(climbs, task, chosen)
        return Fallback((*chosen, climbs, Refined(self.mdmm, polish)))

    def _certified(self, search: Search, task: Task, chosen: Sequence[Search]) -> Search:
        """The search with proofs behind a small ReLU network, unless exact ones are chosen."""
        certified = replace(self.certify, first=search)
        if chosen or certified.refusal(task) or sum(layer_sizes(task)) > _SMALL:
            return search
        return certified

    def _in_scenarios(self, task: Task) -> Scenarios:
        """What answers in several scenarios at once.

        Where some decision is to meet the criterion, those of other places are not cuts.
        """
        some = Quantifier.SOME in task.rules.criterion.multiples
        climbs = replace(self.sequential, bundle=1) if some else self.sequential
        nearby = (replace(climbs, restarts=0), self.latent, self.tangents)
        counting = tuple(with_few_changes(search, task) for search in nearby)
        return Scenarios(replace(self, sequential=climbs), counting)

    def steps(self, task: Task) -> Iterator[Progress]:
        """As planned, but for rows whose plan can never be best: these are settled at once."""
        yield from Undominated(self.plan(task)).steps(task)
