"""The contract of a search."""

from __future__ import annotations

import unittest
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from cfopt.engine.progress import Points
from cfopt.engine.rules import Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.exact.verify import verify
from cfopt.explaining.explain import explain
from cfopt.pipeline import Pipeline
from cfopt.question import Absolute, Criterion, Epsilon, Relative
from cfopt.question.proximity import L2
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status
from cfopt.search.base import Search
from cfopt.testing.draws import normal
from cfopt.testing.inexact import InexactOracle
from cfopt.testing.search_cases import (
    RefusalError,
    cases,
    grid,
    least_l1,
    least_loss,
    truly_holds,
)

_ROWS = 12
#: Some of them, which are explained alone as well.
_ALONE = (0, 5, 11)
#: How many of them are explained with inexact solvers.
_FEW = 4
#: The fraction of tasks of any kind that need to be answered; local searches stop early at times.
_LEAST = 0.2


class SearchContract(ABC):
    """What every search must do: return each row once, claim only what holds, and come near.

    Arguments:
        nearness: how many times as far as the nearest answer one may be, in the median, under a
            proximity whose nearest answers change one feature; inf for a search that takes whatever
            it finds. Answers that minimise L2 instead are about 1.5 times as far.
    """

    nearness: float = 1.2

    @abstractmethod
    def search(self) -> Search:
        """The search, with settings that suit a 3x3 grid, a linear predictor and 4 features."""

    def pipeline(self) -> Pipeline:
        """A linear predictor in float64 on a small grid; costs rise with every feature."""
        return grid()

    def contexts(self) -> Tensor:
        """Contexts to explain, `(B, 4)`."""
        return normal(_ROWS, 4, seed=4)

    def criteria(self, pipeline: Pipeline) -> list[Criterion]:
        """The questions to ask; every alternative is best in some context."""
        wanted = pipeline.decide(normal(_ROWS, 4, seed=5))
        return [Relative(wanted), Absolute(wanted), Epsilon(0.2)]

    def test_every_row_is_handed_over_once_and_claims_are_confirmed_by_a_fresh_solve(self) -> None:
        pipeline, contexts = self.pipeline(), self.contexts()
        before = contexts.clone()
        for criterion in self.criteria(pipeline):
            task = self._task(pipeline, contexts, criterion)
            reports = list(self.search().steps(task))
            finished = [report.finished for report in reports if report.finished is not None]
            assert reports[-1].running == 0
            rows = torch.cat([points.rows for points in finished])
            assert sorted(rows.tolist()) == list(range(len(contexts)))
            points = Points.gather(finished)
            assert points.x.isfinite().all()
            assert (points.steps >= 0).all()
            assert (points.solves >= 0).all()
            assert verify(task, points.x).valid[points.found].all()
            assert points.found.any()
        assert torch.equal(contexts, before), "the task is to be left as it was"
        assert isinstance(pipeline.predictor, nn.Module)
        assert all(parameter.grad is None for parameter in pipeline.predictor.parameters())

    def test_half_of_the_rows_are_answered_and_every_answer_holds(self) -> None:
        pipeline, contexts = self.pipeline(), self.contexts()
        for criterion in self.criteria(pipeline):
            explanation = explain(contexts, pipeline, criterion, search=self.search())
            assert explanation.valid.double().mean() >= 0.5
            e = explanation[explanation.valid]
            # By brute force over all paths, not by the solver that the search used.
            costs = pipeline.costs(e.x)
            assert truly_holds(pipeline.problem, costs, e.criterion, e.factual).all()

    def test_a_batch_gives_what_its_rows_give(self) -> None:
        pipeline, contexts = self.pipeline(), self.contexts()
        for criterion in self.criteria(pipeline):
            together = explain(contexts, pipeline, criterion, search=self.search())
            bound = criterion.bind(len(contexts), pipeline.decide(contexts))
            for row in _ALONE:
                only = torch.tensor([row])
                alone = explain(contexts[only], pipeline, bound[only], search=self.search())
                assert alone.status[0] == together.status[row]
                assert torch.allclose(alone.x, together.x[only], rtol=0, atol=1e-6)

    def test_no_claim_is_false_where_answers_are_off_by_1e_8(self) -> None:
        self._claims_hold(noise=1e-8)
        self._claims_hold(noise=1e-8, declared=False)

    def test_no_claim_is_false_where_answers_are_off_by_1e_6(self) -> None:
        self._claims_hold(noise=1e-6)
        self._claims_hold(noise=1e-6, declared=False)

    def test_no_claim_is_false_where_the_solver_stops_at_a_gap_of_1e_4(self) -> None:
        self._claims_hold(gap=1e-4)

    def test_limits_are_kept(self) -> None:
        self._serves("limits")

    def test_whole_numbers_stay_whole(self) -> None:
        self._serves("whole numbers")

    def test_a_maximising_problem_is_explained(self) -> None:
        self._serves("a maximising problem")

    def test_l1_is_minimised_where_it_is_asked_for(self) -> None:
        self._serves("L1")
        case = cases()["L1"]
        relative, *_ = case.criteria()
        try:
            e, _ = case.explain(relative, self.search())
        except RefusalError as reason:
            raise unittest.SkipTest(str(reason)) from reason
        least = least_l1(case, e)
        ratio = (e.loss / least)[e.valid & (least > 0)].median()
        assert ratio <= self.nearness, (
            f"{type(self.search()).__name__}, L1: answers are {ratio:.3g} times as far as the "
            f"nearest, {self.nearness:g} is allowed. Does the search minimise task.space.loss?"
        )

    def test_a_margin_is_kept(self) -> None:
        self._serves("a margin")

    def test_codes_are_searched_where_there_is_a_generative_model(self) -> None:
        self._serves("codes")

    def _serves(self, name: str) -> None:
        """Answer what can be answered, or refuse; judged by brute force over all decisions."""
        case, refused = cases()[name], []
        answered = answerable = 0
        for criterion in case.criteria():
            about = f"{type(self.search()).__name__}, {name}, {type(criterion).__name__}"
            try:
                e, watched = case.explain(criterion, self.search())
            except RefusalError as reason:
                refused.append(f"{about}: {reason}")
                continue
            task = watched.task
            assert task is not None, about
            for claim in watched.claims:
                rows = claim.rows[claim.found]
                with torch.no_grad():
                    x = task.space.context(claim.x[claim.found])
                allowed, rules = task.space[rows].allows(x), task.rules[rows]
                assert allowed.all(), f"{about}: a claim leaves task.space.domain"
                asked = (task.pipeline.costs(x), rules.criterion, rules.factual, rules.margin)
                assert truly_holds(rules.problem, *asked).all(), f"{about}: a claim is false"
            rows = (case.contexts[:, None] == task.space.origin[None]).all(2).int().argmax(0)
            known = least_loss(
                task, case.samples[:, rows], task.rules.problem, task.rules.criterion
            )
            settled = (Status.ALREADY_VALID, Status.REJECTED)
            e = e[[row for row, status in enumerate(e.status) if status not in settled]]
            possible = known.isfinite()
            assert possible.any(), about
            answered += int(e.valid[possible].sum())
            answerable += int(possible.sum())
            _check_proofs(e, known, 1e-5, about)
        if not answerable:
            raise unittest.SkipTest("; ".join(refused))
        assert answered >= _LEAST * answerable, (
            f"{type(self.search()).__name__}, {name}: {answered} of {answerable} rows are answered "
            f"for which random points show answers; at least {_LEAST:.0%} are needed. Does the "
            "search keep to the domain and the codes of task.space, and to task.rules?"
        )

    def _claims_hold(self, noise: float = 0.0, gap: float = 0.0, declared: bool = True) -> None:
        """Judge every claim about an inexact solver's answers by the list of exact decisions."""
        exact, contexts = self.pipeline(), self.contexts()[:_FEW]
        # Noise that nobody declares moves a bound as it moves values, beside what they differ by.
        part = 1e-5 if declared else 1e-5 + 1e3 * noise
        judged = 0
        for listed in (False, True):
            problem = InexactOracle(
                exact.problem, noise=noise, gap=gap, declared=declared, listed=listed
            )
            pipeline = Pipeline(exact.predictor, problem)
            factual = pipeline.decide(self.contexts())
            for whole in self.criteria(pipeline):
                criterion = whole.bind(len(factual), factual)[torch.arange(_FEW)]
                task = self._task(pipeline, contexts, criterion)
                if self.search().refusal(task):
                    continue
                judged += 1
                e = explain(contexts, pipeline, criterion, search=self.search())
                about = f"{problem}, {type(criterion).__name__}: {e.message}"
                asked = (pipeline.costs(e.x), e.criterion, e.factual)
                assert truly_holds(exact.problem, *asked, noise=noise)[e.valid].all(), about
                # From the exact problem, and from wherever the alternative may be best.
                meant = e.criterion
                if isinstance(meant, Absolute):  # the decision that an inexact one stands for
                    wanted = problem.exact_decisions(meant.alternative.numpy())
                    meant = Absolute(torch.from_numpy(wanted))
                points = [one.expand(_FEW, -1) for one in normal(_ROWS, 4, seed=5)]
                if not isinstance(criterion, Relative):
                    points.append(explain(contexts, exact, meant).x)
                _check_proofs(e, least_loss(task, points, exact.problem, meant), part, about)
            if judged:  # a list is given only to searches that need one
                break
        assert judged

    def _task(self, pipeline: Pipeline, contexts: Tensor, criterion: Criterion) -> Task:
        factual = pipeline.decide(contexts)
        rules = Rules(pipeline.problem, factual, criterion.bind(len(contexts), factual))
        return Task(rules, Space(contexts, L2()), pipeline.predictor)


def _check_proofs(e: Explanation, known: Tensor, part: float, about: str) -> None:
    """No bound is above a known loss `(B,)`, by more than a fraction; nor is a row impossible."""
    assert not (e.bound > known * (1 + part) + 1e-9).any(), f"{about}: a bound is false"
    for status, loss in zip(e.status, known.tolist(), strict=True):
        assert status is not Status.PROVED_INFEASIBLE or loss == torch.inf, about
