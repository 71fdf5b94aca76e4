"""Whether a cell of a tree ensemble is valid: the solver's word on the costs of its leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE, Rules
from cfopt.exact.tree_task import TreeTask
from cfopt.question.quantifier import Quantifier
from cfopt.search.tree_branched import Branched
from cfopt.trees.branch import Branching


class Judged(NamedTuple):
    """Whether a cell is valid, whether rounding could not change that, and what decided it."""

    holds: bool
    sure: bool
    decision: Array | None


class CellJudge:
    """Judges the cells of one row.

    Arguments:
        model: the task.
        rules: those of the row, for each predictor.
        root: the branching that knows the costs of the row's cells.
    """

    def __init__(self, model: TreeTask, rules: Rules, root: Branching) -> None:
        self._model, self._rules, self._root = model, rules, root
        self._every = bool(model.multiples(Quantifier.EVERY))
        #: How often the solver was asked.
        self.solves = 0

    def judge(self, cell: NDArray[np.int32], branched: Branched | None = None) -> Judged:
        """Judge a cell by its leaves; where rounding could matter, by the model's own prediction.

        So it is where the leaves say that it is not valid, but their decision is no new cut.
        """
        found = self._of_prices(self._model.prices_of(self._root.costs(cell)), branched)
        new = branched is not None and self.is_new(found.decision, branched)
        if found.sure or (new and not found.holds):
            return found
        x = self._model.contexts(self._root.cells.context(cell)[None])
        return self._of_prices(self._model.prices(x), branched)

    def is_new(self, decision: Array | None, branched: Branched) -> bool:
        """Whether a decision makes a cut that is not there yet."""
        every = Quantifier.EVERY
        return decision is not None and self._every and not branched.knows(decision, every)

    def _of_prices(self, prices: Tensor, branched: Branched | None) -> Judged:
        """Judge prices under each predictor, `(K, m)`; where several refuse, by a new decision."""
        rules = self._rules
        self.solves += len(prices) * (int(rules.calls_solver) + int(rules.wish is not None))
        rival = rules.rival(prices)
        decisions = rival.decisions.numpy()
        if rival.failures or (rules.calls_solver and rules.problem.audit(decisions)):
            return Judged(False, False, None)
        # To judge a wish its best plan is needed.
        holds = rules.judge(prices, rival.decisions, shortfall=rival.shortfall).holds
        if not holds.all():
            refused = decisions[~holds.numpy()]
            new = (one for one in refused if branched and self.is_new(one, branched))
            return Judged(False, False, next(new, refused[0]))
        strict = TOLERANCE - self._model.rounding
        sure = rules.judge(prices, rival.decisions, strict, rival.shortfall).holds.all()
        return Judged(True, bool(sure), decisions[0])
