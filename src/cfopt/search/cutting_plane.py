"""The nearest explanation of an affine pipeline, with a proof, for any problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array
from cfopt.clock import is_over, part_of
from cfopt.engine.progress import Points, Progress
from cfopt.engine.rules import TOLERANCE, Rules
from cfopt.engine.task import Task
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.certificate import Cut
from cfopt.exact.worst_case import WorstCases
from cfopt.names import counted
from cfopt.problems.solved import Solved, same_decision
from cfopt.question.quantifier import Quantifier
from cfopt.search.base import Search, check_whole
from cfopt.search.cuts import EASE, INSIDE, CutRow

#: A decision is worth a cut if it beats the plan by more than this fraction of
#: `sum_j |price_j d_j|`: far below what counts as valid, so that the answer is the
#: optimum to as many digits.
_WORTH_A_CUT = 1e-10
#: Where to look for a valid context when stopped early: this many times the last master's change.
_BEYOND = (1.0, 1.02, 1.1, 1.3, 1.7, 2.5, 4.0)
#: The fraction of the time after which a row is stopped early, so that there is some left for that.
_ROUNDS = 0.75
#: Prices that are this many times smaller than what they are sums of have lost as many digits.
_CANCELLED = 4.0
#: How many rows are handed over at once, which costs little more than one: at least so many, and
#: this fraction of all.
_TOGETHER, _SHARE = 25, 0.25


@registry.searches.register
@dataclass(frozen=True)
class CuttingPlane(Search):
    """Keeps the decisions seen so far as cuts, and asks the solver for more.

    The master is the nearest allowed x with `<phi(x), d_k> <= 0` for every cut k; the solver says
    which decision is best there. If that one violates the criterion, it becomes a cut; else x is
    the closest explanation possible. A master without a solution proves that there is none. Any
    feasible decision makes a valid cut, so that bounds and proofs do not depend on the solver's
    gap.

    One round is a batched solve for all rows still running.

    Arguments:
        max_rounds: rounds after which a row is given up, with the bound that it has reached.
    """

    heeds_variation: ClassVar[bool] = True
    max_rounds: int = 1000
    counts_changes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole(self, max_rounds=1)

    def refusal(self, task: Task) -> str:
        """Needs an affine predictor, and a criterion about the factual or every decision."""
        reason = AffineTask.refusal(task)
        multiples = task.rules.criterion.multiples
        if reason or Quantifier.SOME not in multiples:
            return reason
        if Quantifier.EVERY in multiples and _may_do_nothing(task):
            # Then v <= 0 always, and what some decision must do follows from what every one must.
            return ""
        return (
            "its criterion asks for some decision, not for every one; use Enumeration() or Auto()"
        )

    def steps(self, task: Task) -> Iterator[Progress]:
        """Rounds of master and solver until every row is settled, or time is up."""
        self.check(task)
        deadline = task.rules.problem.deadline
        run, end = _Run(task, deadline), part_of(deadline, _ROUNDS)
        done: list[Points] = []
        together = max(_TOGETHER, round(_SHARE * len(task)))
        for k in range(1, self.max_rounds + 1):
            finished = run.advance(k, last=is_over(end) or k == self.max_rounds)
            done += [] if finished is None else [finished]
            held = sum(len(part) for part in done)
            if held < together and run.rows:
                yield Progress(k, len(run.rows) + held, len(task))
                continue
            yield Progress(k, len(run.rows), len(task), Points.gather(done))
            done = []
            if not run.rows:
                return


class _Run:
    """The rows still running, each with its master."""

    def __init__(self, task: Task, deadline: float) -> None:
        self.model, self.predict, self.deadline = AffineTask(task), task.pipeline.predict, deadline
        self.worst = None if task.variation is None else WorstCases(self.model)
        problem = task.rules.problem
        # While a solution within the gap still cuts, a proven optimum is not needed.
        exact = problem.exact() is problem
        self.proven = dict.fromkeys(range(len(task)), exact)
        self.quick = replace(self.model.rules, problem=problem)
        self.rows = list(range(len(task)))
        self.u: Array = np.zeros_like(self.model.origin)
        self.solves = np.zeros(len(task), dtype=np.int64)
        self.cuts = {row: CutRow(self.model, row, deadline) for row in self.rows}
        rules = self.model.rules
        factual = rules.factual.numpy()
        self.kind = Quantifier.EVERY if self.model.multiples(Quantifier.EVERY) else Quantifier.GIVEN
        # With a margin, what the alternative must beat are the other decisions only.
        own = same_decision(rules.pivot, rules.factual).numpy()
        skipped = own & (rules.margin > 0) & rules.criterion.contrasts
        asked = np.flatnonzero(~skipped)
        first = Cut.of_each(factual[asked], self.kind)
        begun = {row: [cut] for row, cut in zip(asked.tolist(), first, strict=True)}
        if task.known and self.kind is Quantifier.EVERY:
            for row, cuts in self.cuts.items():
                known = self._worth_a_cut(task.known[row], rules.pivot[row].numpy())
                every = [*begun.get(row, ()), *known]
                begun[row] = [*{cut.key: cut for cut in every}.values()]
                cuts.conclude()  # there is little left to collect in haste
        self._add({row: cuts for row, cuts in begun.items() if cuts})

    def _add(self, cuts: dict[int, list[Cut]]) -> None:
        """Let rows collect cuts."""
        if cuts:
            CutRow.add_each([self.cuts[row] for row in cuts], list(cuts.values()))

    def _worth_a_cut(self, known: Array, pivot: Array) -> list[Cut]:
        """Cuts of decisions that were worth one before; with a margin, not of the plan itself."""
        margin = self.model.rules.margin > 0
        return [Cut(one, self.kind) for one in known if not (margin and np.array_equal(one, pivot))]

    def advance(self, k: int, last: bool) -> Points | None:
        """Solve the masters, then ask the solver what they have missed."""
        ended: dict[int, str] = {}
        found: set[int] = set()
        eased: set[int] = set()
        changes: dict[int, Array] = {}
        for row in self.rows:
            if is_over(self.deadline):
                break
            change = self.cuts[row].propose()
            if change is not None:
                changes[row] = change
            elif (
                self.cuts[row].clashes and not self.cuts[row].infeasible and not self.cuts[row].ease
            ):
                # No more than verification grants stands in the way: ask for no more than that.
                self.cuts[row] = self.cuts[row].relaxed(EASE)
                eased.add(row)
            else:
                infeasible = self.cuts[row].infeasible
                self.u[row] = 0.0  # there is no better place than where it began
                ended[row] = "" if infeasible else "the master problem could not be solved"
        asked = list(changes)
        if asked:
            self.u[asked] = list(changes.values())
            self._ask(asked, ended, found)
            blurred = self._blurred(sorted(found))
            ended |= dict.fromkeys(blurred, "the contexts' own precision blurs the boundary")
            found -= set(blurred)
            found |= self._step_inside([row for row in asked if ended.get(row)])
        if last:
            rest = [row for row in self.rows if row not in ended]
            ended |= dict.fromkeys(
                rest, f"the time or the rounds ran out after {counted(k, 'round')}"
            )
            found |= self._look_beyond(rest)
        return self._finish(k, ended, found)

    def _ask(self, rows: list[int], ended: dict[int, str], found: set[int]) -> None:
        """Judge the masters' points by the solver; what it finds becomes a cut, or settles them."""
        for proven in (False, True):
            part = [row for row in rows if self.proven[row] is proven]
            if part:
                self._judge(self.model.rules if proven else self.quick, part, ended, found)

    def _rival(
        self, rules: Rules, rows: list[int], prices: list[Tensor]
    ) -> tuple[Solved, Tensor, Tensor]:
        """The decision that the criterion is measured against; whether it holds, and well enough.

        To within what is worth a cut, and to within what counts as valid. Prices are those of each
        predictor, `(R, m)`.
        """
        if self.worst is not None:
            worst = self.worst.of(rules, rows, prices)
            self.solves[rows] += int(worst.solved)
            return worst.rival, worst.holds(_WORTH_A_CUT), worst.holds(TOLERANCE / 2)
        self.solves[rows] += int(rules.calls_solver)
        rival = rules.rival(prices[0])
        terms = rules.terms(prices[0], rival.decisions)
        if rival.shortfall is None:
            good = terms.hold(TOLERANCE / 2) & rules.unseats(prices[0], rival.decisions)
            return rival, terms.hold(_WORTH_A_CUT), good
        good = rules.judge(prices[0], rival.decisions, TOLERANCE / 2, rival.shortfall).holds
        return rival, terms.hold(_WORTH_A_CUT), good

    def _judge(self, base: Rules, rows: list[int], ended: dict[int, str], found: set[int]) -> None:
        rules = base[torch.tensor(rows)]
        prices = [one.prices(rows, self.u[rows]) for one in self.model.models]
        rival, holds, good = self._rival(rules, rows, prices)
        decisions = rival.decisions.numpy()
        missed = (~holds).nonzero().flatten().tolist()
        rivals = dict(zip(missed, Cut.of_each(decisions[missed], self.kind), strict=True))
        bad = base.problem.audit(decisions) if rules.calls_solver else {}
        new: dict[int, list[Cut]] = {}
        verdicts = zip(rows, holds.tolist(), good.tolist(), strict=True)
        for i, (row, held, well) in enumerate(verdicts):
            if i in rival.failures:
                self._follow_ray(row, rival.failures[i], ended)
                continue
            if i in bad:
                ended[row] = bad[i]
                continue
            cuts, proven = self.cuts[row], self.proven[row]
            if not held:
                cut, known = rivals[i], cuts.knows(rivals[i])
                # Nothing new is the same again, or what a valid point meets but for the noise.
                held = proven and (known or (well and cuts.resembles(cut)))
                if not held and not known:
                    new[row] = [cut]
                    continue
            self.proven[row] = True
            if held and cuts.hasty:
                cuts.conclude()
            elif held and proven:
                ended[row] = "" if well else "the master's answer is not precise enough"
                found |= {row} if well else set()
        self._add(new)

    def _follow_ray(self, row: int, reason: str, ended: dict[int, str]) -> None:
        """Where the best value is unbounded no plan is best: the direction becomes a cut."""
        problem = self.model.rules.problem
        for model in self.model.models:
            prices = model.prices([row], self.u[[row]])[0].numpy()
            ray = problem.ray(problem.sense.sign * prices)
            cut = None if ray is None else Cut(ray, Quantifier.EVERY, ray=True)
            if cut is not None and not self.cuts[row].knows(cut):
                self.cuts[row].add(cut)
                return
        ended[row] = reason

    def _blurred(self, rows: list[int]) -> list[int]:
        """Of rows that hold in float64, those that do not in the contexts' and predictor's own.

        Only where prices are small beside what they are sums of can it make a difference that
        verification does not grant; only a solve can say.
        """
        if not rows or self.model.space.origin.dtype == torch.float64:
            return []
        prices = np.abs(self.model.prices(rows, self.u[rows]).numpy()).max(axis=1)
        small = self.model.sizes_at(rows, self.u[rows]).max(axis=1) > _CANCELLED * prices
        doubtful = [row for row, doubt in zip(rows, small.tolist(), strict=True) if doubt]
        return sorted(set(doubtful) - self._move(doubtful, self.u[doubtful]))

    def _deployed_prices(self, x: Tensor) -> Tensor:
        """The prices of contexts as the predictor gives them, in float64 on the host."""
        with torch.no_grad():
            return self.quick.turned(self.predict(x).to("cpu", torch.float64))

    def _look_beyond(self, rows: list[int]) -> set[int]:
        """For rows that are out of time: the nearest valid context a bit farther out, if any."""
        found: set[int] = set()
        for factor in _BEYOND:
            left = [row for row in rows if row not in found]
            found |= self._move(left, factor * self.u[left])
        return found

    def _step_inside(self, rows: list[int]) -> set[int]:
        """For rows on a boundary that cannot be resolved: the nearest point that keeps off it."""
        found: set[int] = set()
        for distance in INSIDE:
            left = [row for row in rows if row not in found and not is_over(self.deadline)]
            firm = {row: self.cuts[row].relaxed(-distance).solve() for row in left}
            reached = {row: change for row, change in firm.items() if change is not None}
            if reached:
                found |= self._move(list(reached), np.stack(list(reached.values())))
        return found

    def _move(self, rows: list[int], u: Array) -> set[int]:
        """Take changes for those of the rows for which they are valid, and say which."""
        if not rows:
            return set()
        rules = self.model.rules[torch.tensor(rows)]
        x = self.model.contexts(rows, u)
        flat = x.flatten(1).double().cpu().numpy()
        change = (flat - self.model.origin[rows]) / self.model.scale
        others = [one.prices(rows, change) for one in self.model.others]
        rival, _, good = self._rival(rules, rows, [self._deployed_prices(x), *others])
        good &= self.model.space[torch.tensor(rows)].allows(x).cpu()
        good[list(rival.failures)] = False
        moved = {rows[i]: change[i] for i in good.nonzero().flatten().tolist()}
        for row, place in moved.items():
            self.u[row] = place
        return set(moved)

    def _finish(self, k: int, ended: dict[int, str], found: set[int]) -> Points | None:
        """Take the rows that are done out of the batch."""
        if not ended:
            return None
        done = sorted(ended)
        self.rows = [row for row in self.rows if row not in ended]
        device = self.model.space.origin.device
        count = torch.tensor(done, dtype=torch.long, device=device)
        return Points(
            rows=count,
            x=self.model.contexts(done, self.u[done]),
            found=torch.tensor([row in found for row in done], dtype=torch.bool, device=device),
            steps=torch.full_like(count, k),
            solves=torch.from_numpy(self.solves[done]).to(device),
            passes=torch.zeros_like(count),
            notes=tuple("" if row in found else ended[row] for row in done),
            methods=("cutting planes",) * len(done),
            certificates=tuple(self.cuts[row].proof() for row in done),
        )


def _may_do_nothing(task: Task) -> bool:
    """Whether doing nothing is feasible, so that the best value is never above 0."""
    problem = task.rules.problem
    return not problem.explain_faults(torch.zeros((1, problem.num_columns)))[0]
