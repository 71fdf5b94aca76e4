"""Bad input gets a clear error, or spoils its own row and no other."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.pipelines import another, normal, random_linear
from torch import nn

import cfopt
from cfopt.engine.progress import Progress
from cfopt.errors import InputError, PredictorError
from cfopt.exact.affine_proof import CutProof
from cfopt.exact.affine_task import AffineTask
from cfopt.problems import GridShortestPath, Oracle
from cfopt.search.fallback import Fallback

SEARCH = cfopt.MDMM(step=0.05, max_steps=600)

pytestmark = pytest.mark.slow


def _ask(pipeline: cfopt.Pipeline, x0: object, criterion: object = None, **more: object) -> object:
    criterion = cfopt.Epsilon(0.1) if criterion is None else criterion
    return cfopt.explain(x0, pipeline, criterion, search=SEARCH, **more)


@pytest.mark.parametrize(
    ("x0", "need"),
    [
        (torch.zeros(0, 4, dtype=torch.float64), "at least one context"),
        (torch.zeros(0, dtype=torch.float64), "at least one context"),
        (torch.zeros(1, 1, 1, 1, 4, dtype=torch.float64), "at least one context"),
        (torch.tensor(1.0, dtype=torch.float64), "at least one context"),
        ("a context", "tensor, array or DataFrame"),
        (None, "at least one context|tensor, array or DataFrame"),
        (torch.zeros(2, 4), "float32 on cpu"),
    ],
)
def test_contexts_of_the_wrong_kind_are_refused(
    grid: cfopt.Pipeline, x0: object, need: str
) -> None:
    with pytest.raises(InputError, match=need):
        _ask(grid, x0)


def test_contexts_of_the_wrong_width_are_refused(grid: cfopt.Pipeline) -> None:
    with pytest.raises(PredictorError, match=r"contexts of shape \(3, 5\)"):
        _ask(grid, normal(3, 5))


def test_a_predictor_of_the_wrong_width_is_refused() -> None:
    pipeline = cfopt.Pipeline(random_linear(4, 7), GridShortestPath(3, 3))
    with pytest.raises(PredictorError, match=r"costs of shape \(3, 12\).*got \(3, 7\)"):
        _ask(pipeline, normal(3, 4))


def test_a_predictor_that_returns_an_array_is_asked_for_its_shape_too() -> None:
    pipeline = cfopt.Pipeline(lambda x: x.detach().numpy(), GridShortestPath(3, 3))
    with pytest.raises(PredictorError, match=r"costs of shape \(3, 12\).*got \(3, 4\)"):
        _ask(pipeline, normal(3, 4))


def _through_a_frozen_extractor(predictor: object) -> object:
    """The output requires a gradient, but not with respect to the context."""

    def predict(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            features = 1 * x
        return predictor(features)

    return predict


@pytest.mark.parametrize(
    "cut",
    [
        lambda predictor: lambda x: predictor(x).detach(),
        lambda predictor: lambda x: torch.tensor(predictor(x).tolist()),
        _through_a_frozen_extractor,
    ],
)
@pytest.mark.parametrize(
    "search", [cfopt.MDMM(), cfopt.Sequential(), cfopt.Tangents()], ids=lambda s: type(s).__name__
)
def test_searches_that_follow_gradients_refuse_a_predictor_without(
    cut, search: cfopt.Search, grid: cfopt.Pipeline
) -> None:
    pipeline = cfopt.Pipeline(cut(grid.predictor), grid.problem)
    with pytest.raises(InputError, match="no gradient; use DerivativeFree"):
        cfopt.explain(normal(3, 4), pipeline, cfopt.Epsilon(0.1), search=search)


@pytest.mark.parametrize(
    "argument",
    [
        {"search": "auto"},
        {"search": cfopt.MDMM},
        {"proximity": "l2"},
        {"proximity": cfopt.L2},
        {"features": ["a", "b", "c", "d"]},
        {"margin": "0.1"},
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(argument: dict, grid: cfopt.Pipeline) -> None:
    with pytest.raises(InputError, match="need"):
        cfopt.explain(normal(3, 4), grid, cfopt.Epsilon(0.1), **argument)


def test_numbers_of_numpy_are_numbers(grid: cfopt.Pipeline) -> None:
    epsilon, margin = cfopt.Epsilon(np.float32(0.5)), np.float32(0.25)
    e = cfopt.explain(normal(1, 4), grid, epsilon, search=cfopt.MDMM(max_steps=2), margin=margin)
    assert cfopt.Explanation.from_json(e.to_json()).margin == 0.25


def test_a_search_that_forgets_rows_is_found_out(grid: cfopt.Pipeline) -> None:
    class Forgetful(cfopt.Search):
        def steps(self, task: cfopt.Task):
            yield from list(cfopt.MDMM(max_steps=2).steps(task))[:-1]

    with pytest.raises(cfopt.CfoptError, match="each of the 3 rows once"):
        cfopt.explain(normal(3, 4), grid, cfopt.Epsilon(0.1), search=Forgetful())


def test_what_is_no_pipeline_criterion_or_margin_is_refused(grid: cfopt.Pipeline) -> None:
    with pytest.raises(InputError, match="needs a Pipeline"):
        _ask(grid.predictor, normal(3, 4))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs a criterion"):
        _ask(grid, normal(3, 4), 0.5)
    for margin in (-0.1, float("nan")):
        with pytest.raises(InputError, match="margin"):
            _ask(grid, normal(3, 4), margin=margin)
    with pytest.raises(InputError, match="needs a predictor"):
        cfopt.Pipeline(3, grid.problem)  # type: ignore[arg-type]


def test_the_wrong_number_of_alternatives_is_refused(grid: cfopt.Pipeline) -> None:
    two = grid.decide(normal(2, 4))
    with pytest.raises(InputError, match="one alternative for each of the 3 contexts"):
        _ask(grid, normal(3, 4), cfopt.Absolute(two))
    with pytest.raises(InputError, match=r"shape \(3, 12\)"):
        _ask(grid, normal(3, 4), cfopt.Absolute(torch.zeros(5)))


def test_features_that_do_not_fit_are_refused(grid: cfopt.Pipeline) -> None:
    with pytest.raises(InputError, match="2 names"):
        _ask(grid, normal(3, 4), features=cfopt.Features(["a", "b"]))
    with pytest.raises(InputError, match="occurs twice"):
        cfopt.Features(["a", "a"])
    with pytest.raises(InputError, match="as many scales as names"):
        cfopt.Features(["a", "b"], [1.0])
    with pytest.raises(InputError, match="scales have"):
        _ask(grid, normal(3, 4), proximity=cfopt.L1([1.0, 2.0]))


def test_a_dataframe_with_text_or_other_names_is_refused(grid: cfopt.Pipeline) -> None:
    frame = pd.DataFrame(normal(3, 4).numpy(), columns=["a", "b", "c", "d"])
    with pytest.raises(InputError, match="Column 'c'"):
        _ask(grid, frame.assign(c=["x", "y", "z"]))
    with pytest.raises(InputError, match="disagree"):
        _ask(grid, frame, features=cfopt.Features(["a", "b", "c", "e"]))


def _one_spoilt(e: cfopt.Explanation, clean: cfopt.Explanation, row: int, why: str) -> None:
    """Row `row` is rejected for the given reason, and all others end as in a clean run."""
    assert e.status[row] == "rejected"
    assert why in e.message[row]
    assert not e.valid[row]
    assert e.loss[row].isnan()
    assert e.distance[row].isnan()
    others = [i for i in range(len(e)) if i != row]
    assert [e.status[i] for i in others] == [clean.status[i] for i in others]
    assert torch.allclose(e.x[others], clean.x[others], atol=1e-9)
    assert e.valid[others].sum() >= 0.8 * len(others)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_context_that_is_not_finite_is_rejected_alone(value: float, grid: cfopt.Pipeline) -> None:
    x0, wanted = normal(100, 4), cfopt.Relative(grid.decide(normal(100, 4, seed=1)))
    clean = _ask(grid, x0, wanted)
    x0 = x0.clone()
    x0[41, 2] = value
    _one_spoilt(_ask(grid, x0, wanted), clean, 41, "not finite")


def test_an_alternative_that_can_never_be_returned_is_rejected_alone(
    grid: cfopt.Pipeline,
) -> None:
    x0, wanted = normal(100, 4), grid.decide(normal(100, 4, seed=1))
    clean = _ask(grid, x0, cfopt.Absolute(wanted))
    wanted = wanted.clone()
    wanted[7, wanted[7].nonzero()[0]] = 0
    e = _ask(grid, x0, cfopt.Absolute(wanted))
    _one_spoilt(e, clean, 7, "Absolute needs a feasible alternative; this one is not a path")
    assert "Pass a decision that the problem can return" in e.message[7]


def test_a_knapsack_says_by_how_much_an_alternative_is_too_heavy(knapsack: cfopt.Pipeline) -> None:
    e = _ask(knapsack, normal(2, 3), cfopt.Absolute(torch.ones(6)))
    assert e.status == ("rejected", "rejected")
    assert "breaks 2 constraints of the knapsack (largest: 16 over)" in e.message[0]


def test_a_context_for_which_the_predictor_fails_is_rejected_alone(grid: cfopt.Pipeline) -> None:
    def root(x: torch.Tensor) -> torch.Tensor:
        return grid.predictor(x) + 0 * (x[:, :1] + 4).sqrt()

    pipeline = cfopt.Pipeline(root, grid.problem)
    x0, wanted = normal(30, 4), cfopt.Relative(grid.decide(normal(30, 4, seed=1)))
    clean = _ask(pipeline, x0, wanted)
    x0 = x0.clone()
    x0[3, 0] = -5.0
    _one_spoilt(_ask(pipeline, x0, wanted), clean, 3, "costs for this context are not finite")


def test_a_predictor_that_yields_nan_on_the_way_spoils_its_row_only(grid: cfopt.Pipeline) -> None:
    """The last feature, which costs nothing, marks the row for which small moves are fatal."""
    marked = 4

    def fragile(x: torch.Tensor) -> torch.Tensor:
        broken = (x[:, 4] > 0.5) & (x[:, :4] != x0[marked, :4]).any(1)
        return torch.where(broken[:, None], torch.nan, grid.predictor(x[:, :4]))

    pipeline = cfopt.Pipeline(fragile, grid.problem)
    x0 = torch.cat([normal(30, 4), torch.zeros(30, 1)], dim=1)
    wanted = cfopt.Absolute(another(grid, x0[:, :4]))
    clean = _ask(pipeline, x0, wanted)
    x0 = x0.clone()
    x0[marked, 4] = 1.0
    e = _ask(pipeline, x0, wanted)
    assert e.status[marked] == "best effort"
    assert "not finite" in e.message[marked]
    assert torch.equal(e.x[marked], x0[marked])
    others = [i for i in range(30) if i != marked]
    assert torch.allclose(e.x[others], clean.x[others], atol=1e-9)


@dataclass(frozen=True)
class _Failing(cfopt.Search):
    """A search in which something raises an exception about the row that begins at a context."""

    at: torch.Tensor
    what: BaseException
    late: bool = False  # when its proof is checked

    def steps(self, task: cfopt.Task) -> Iterator[Progress]:
        bad = (task.space.origin == self.at).all(1)
        for progress in cfopt.CuttingPlane().steps(task):
            done = progress.finished
            if done is not None and bad[done.rows].any():
                if not self.late:
                    good = done[(~bad[done.rows]).nonzero().flatten()]
                    yield replace(progress, finished=good)
                    raise self.what
                proofs = zip(done.certificates, bad[done.rows].tolist(), strict=True)
                changed = tuple(
                    _Unreadable(one.cuts, one.tree, what=self.what) if is_bad else one
                    for one, is_bad in proofs
                )
                progress = replace(progress, finished=replace(done, certificates=changed))
            yield progress


@dataclass(frozen=True)
class _Unreadable(CutProof):
    """A proof whose check raises an exception."""

    what: BaseException = field(kw_only=True)

    @classmethod
    def bounds(cls, model: AffineTask, proofs: Mapping[int, Any]) -> dict[int, float]:
        raise next(iter(proofs.values())).what


@pytest.mark.failing_rows
@pytest.mark.parametrize("late", [False, True])
def test_an_exception_about_one_row_takes_no_other_with_it(
    late: bool, grid: cfopt.Pipeline
) -> None:
    x0 = normal(30, 4)
    wanted = cfopt.Absolute(another(grid, x0))
    clean = cfopt.explain(x0, grid, wanted, search=cfopt.CuttingPlane())
    marked = int(clean.valid.nonzero()[3])
    search = _Failing(x0[marked], ZeroDivisionError("by nothing"), late)
    seen: list[int] = []
    e = cfopt.explain(
        x0,
        grid,
        wanted,
        search=search,
        on_progress=lambda p: seen.extend([] if p.finished is None else p.finished.rows.tolist()),
    )
    assert e.status[marked] == "best effort"
    assert "raised ZeroDivisionError: by nothing" in e.message[marked]
    assert torch.equal(e.x[marked], x0[marked])
    assert e.bound[marked].isnan()
    others = [row for row in range(30) if row != marked]
    assert [e.status[row] for row in others] == [clean.status[row] for row in others]
    assert torch.allclose(e.x[others], clean.x[others], atol=1e-9)
    assert torch.allclose(e.bound[others], clean.bound[others], rtol=1e-9, equal_nan=True)
    assert sorted(seen) == [row for row in range(30) if clean.status[row] != "already valid"]


@pytest.mark.failing_rows
def test_the_next_search_answers_what_one_has_failed_about(grid: cfopt.Pipeline) -> None:
    x0 = normal(5, 4)
    wanted = cfopt.Absolute(another(grid, x0))
    clean = cfopt.explain(x0, grid, wanted, search=cfopt.CuttingPlane())
    failing = _Failing(x0[2], ZeroDivisionError("by nothing"))
    search = Fallback((failing, cfopt.CuttingPlane()))
    e = cfopt.explain(x0, grid, wanted, search=search)
    assert e.status == clean.status
    assert torch.allclose(e.x, clean.x, atol=1e-9)


@pytest.mark.failing_rows
@pytest.mark.parametrize("what", [KeyboardInterrupt(), SystemExit(1), InputError("needs more")])
def test_an_end_from_outside_and_misuse_are_no_rows_failure(
    what: BaseException, grid: cfopt.Pipeline
) -> None:
    x0 = normal(5, 4)
    wanted = cfopt.Absolute(another(grid, x0))
    for late in (False, True):
        with pytest.raises(type(what)):
            cfopt.explain(x0, grid, wanted, search=_Failing(x0[2], what, late))

    def stop(progress: Progress) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        cfopt.explain(x0, grid, wanted, on_progress=stop)


class _Noisy(nn.Module):
    """Dropout and batch normalisation, both fatal in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 12)
        ).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_a_module_left_in_training_mode_is_explained_in_eval_mode_and_given_back() -> None:
    torch.manual_seed(0)
    module = _Noisy()
    module.layers[1].eval()  # a mixture of modes comes back as it was
    modes = [part.training for part in module.modules()]
    statistics = module.layers[1].running_mean.clone()
    pipeline = cfopt.Pipeline(module, GridShortestPath(3, 3))
    wanted = pipeline.decide(normal(6, 4, seed=1))
    e = _ask(pipeline, normal(6, 4), cfopt.Relative(wanted))
    assert [part.training for part in module.modules()] == modes
    assert torch.equal(module.layers[1].running_mean, statistics)
    module.eval()
    f = _ask(pipeline, normal(6, 4), cfopt.Relative(wanted))
    assert torch.equal(e.x, f.x)


def test_modes_come_back_even_when_explaining_fails() -> None:
    module = _Noisy()
    with pytest.raises(PredictorError):
        _ask(cfopt.Pipeline(module, GridShortestPath(2, 2)), normal(6, 4))
    assert module.training


@pytest.mark.parametrize("seed", range(10))
def test_a_little_hidden_dropout_is_found_out_too(seed: int) -> None:
    torch.manual_seed(seed)
    dropout, linear = nn.Dropout(0.1), random_linear(4, 12)
    pipeline = cfopt.Pipeline(lambda x: linear(dropout(x)), GridShortestPath(3, 3))
    x0 = normal(50, 4)
    x0[0] = torch.nan
    with pytest.raises(PredictorError, match="training mode"):
        _ask(pipeline, x0)


@pytest.mark.parametrize("keep", ["dropout", "batch normalisation"])
def test_a_function_that_hides_a_module_in_training_mode_is_found_out(keep: str) -> None:
    torch.manual_seed(0)
    module = _Noisy()
    module.layers[1 if keep == "dropout" else 2].eval()
    pipeline = cfopt.Pipeline(lambda x: module(x), GridShortestPath(3, 3))
    with pytest.raises(PredictorError, match=r"training mode|one context alone"):
        _ask(pipeline, normal(6, 4))


def _oracle(grid: GridShortestPath, trap) -> Oracle:
    """A solver that goes wrong wherever the first cost is far from where it usually is."""

    def solve(costs: np.ndarray) -> object:
        return trap(costs) if costs[0] > 50 else grid.optimise(costs[None])[0]

    return Oracle(solve, 12, is_feasible=lambda y: not grid.faults(y[None])[0], time_limit=0.5)


def _raise(costs: np.ndarray) -> object:
    raise RuntimeError("licence expired")


def _hang(costs: np.ndarray) -> object:
    _hanging.set()
    _never.wait()
    return costs


_hanging, _never = threading.Event(), threading.Event()


class _Patient(threading.Thread):
    """A thread that is waited for as long as it may still answer, however busy the machine is."""

    def join(self, timeout: float | None = None) -> None:
        while self.is_alive() and not _hanging.is_set():
            super().join(0.01)
        _hanging.clear()


@pytest.mark.parametrize(
    ("trap", "why"),
    [
        (_raise, "RuntimeError: licence expired"),
        (_hang, "no answer within 0.5 seconds"),
        (lambda costs: costs[:3], "returned shape (3,)"),
        (lambda costs: costs * np.nan, "not finite"),
        (lambda costs: "the shortest one", "no array of numbers"),
        (lambda costs: None, "not finite|returned shape|no array of numbers"),
    ],
)
def test_an_oracle_that_fails_at_a_context_rejects_that_row_only(
    trap, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "Thread", _Patient)
    grid = GridShortestPath(3, 3)
    predictor = random_linear(4, 12, bias=5.0)
    pipeline = cfopt.Pipeline(predictor, _oracle(grid, trap))
    x0 = normal(12, 4)
    wanted = cfopt.Relative(cfopt.Pipeline(predictor, grid).decide(normal(12, 4, seed=1)))
    clean = _ask(pipeline, x0, wanted)
    x0 = x0.clone()
    x0[5] = 100 * predictor.weight.detach()[0]
    e = _ask(pipeline, x0, wanted)
    assert any(part in e.message[5] for part in why.split("|"))
    _one_spoilt(e, clean, 5, "the factual decision is unknown")


def test_an_oracle_that_fails_on_the_way_ends_its_row_with_the_best_so_far() -> None:
    grid = GridShortestPath(3, 3)
    calls = 0

    def tired(costs: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if 30 < calls < 60:
            raise RuntimeError("too many requests")
        return grid.optimise(costs[None])[0]

    problem = Oracle(tired, 12, is_feasible=lambda y: True)
    predictor = random_linear(4, 12, bias=5.0)
    x0 = normal(2, 4)
    wanted = another(cfopt.Pipeline(predictor, grid), x0)
    e = _ask(cfopt.Pipeline(predictor, problem), x0, cfopt.Absolute(wanted))
    assert e.status == ("best effort", "best effort")
    assert all("too many requests" in message for message in e.message)
    assert (e.steps < 60).all()


def test_an_oracle_that_talks_nonsense_makes_nothing_valid() -> None:
    """Its answer is not a path and costs more than the alternative: h < 0, and yet no proof."""
    grid = GridShortestPath(3, 3)
    nonsense = np.full(12, 0.6)
    x0, predictor = normal(4, 4), random_linear(4, 12, bias=5.0)
    wanted = cfopt.Absolute(grid.solve(normal(4, 12, seed=1)))
    blind = Oracle(lambda c: nonsense, 12, is_feasible=lambda y: True)
    e = _ask(cfopt.Pipeline(predictor, blind), x0, wanted)
    assert not e.valid.any()
    assert "worse than a decision known to be feasible" in e.message[0]
    tested = Oracle(lambda c: nonsense, 12, is_feasible=lambda y: not grid.faults(y[None])[0])
    e = _ask(cfopt.Pipeline(predictor, tested), x0, wanted)
    assert set(e.status) == {"rejected"}
    assert "the solver's answer is refused by is_feasible" in e.message[0]


def test_a_test_of_feasibility_that_raises_spoils_its_rows_only(grid: cfopt.Pipeline) -> None:
    def picky(y: np.ndarray) -> bool:
        if y[0] == 1:
            raise KeyError("no such street")
        return True

    problem = Oracle(lambda c: grid.problem.optimise(c[None])[0], 12, is_feasible=picky)
    decisions = grid.problem.decisions()
    faults = problem.explain_faults(decisions)
    assert ["no such street" in fault for fault in faults] == (decisions[:, 0] == 1).tolist()
    assert [fault == "" for fault in faults] == (decisions[:, 0] == 0).tolist()


def test_a_failing_row_of_a_rowwise_solver_is_asked_once() -> None:
    calls = []

    def solve(costs: np.ndarray) -> np.ndarray:
        calls.append(costs[0])
        if costs[0] == 7:
            raise RuntimeError("no")
        return np.eye(3)[costs.argmin()]

    prices = torch.arange(30, dtype=torch.float64).reshape(10, 3) % 11
    prices[4, 0] = 7
    solved = Oracle(solve, 3).attempt(prices)
    assert 4 in solved.failures
    assert len(calls) == 10


def test_an_alternative_that_is_not_binary_needs_the_users_own_test() -> None:
    problem = Oracle(lambda c: np.eye(3)[c.argmin()], 3)
    pipeline = cfopt.Pipeline(random_linear(2, 3), problem)
    e = _ask(pipeline, normal(2, 2), cfopt.Relative(torch.tensor([0.5, 0.5, 0.0])))
    assert set(e.status) == {"rejected"}
    assert "not binary" in e.message[0]


def test_an_oracle_finds_out_by_trying_what_it_would_never_return() -> None:
    problem = Oracle(lambda c: np.eye(3)[c.argmax()], 3, "max")
    tried = torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    assert problem.is_feasible(tried).tolist() == [True, False]
    assert "never returned" in problem.explain_faults(tried)[1]


def test_a_margin_against_itself_is_rejected(grid: cfopt.Pipeline) -> None:
    x0 = normal(3, 4)
    e = _ask(grid, x0, cfopt.Relative(grid.decide(x0)), margin=0.1)
    assert set(e.status) == {"rejected"}
    assert "needs to differ" in e.message[0]


@pytest.mark.parametrize(
    "problem",
    [
        cfopt.problems.MILP([[1.0, 1.0, 1.0, 1.0]], 1, 1, upper=1),
        cfopt.problems.MILP([[1.0, 1.0, 1.0, 1.0]], 1, 5, upper=5, integer=True),
    ],
)
def test_a_margin_needs_binary_or_listed_decisions(problem: cfopt.Problem) -> None:
    pipeline = cfopt.Pipeline(random_linear(2, 4, bias=5.0), problem)
    x0 = normal(4, 2)
    with pytest.raises(InputError, match="margin"):
        _ask(pipeline, x0, cfopt.Absolute(pipeline.decide(x0)), margin=0.1)
    seen = []
    with pytest.raises(InputError, match="margin"):  # before any work is done
        _ask(pipeline, x0, cfopt.Absolute(pipeline.decide(x0)), margin=0.1, on_progress=seen.append)
    assert not seen


def test_an_oracle_that_is_said_to_be_binary_takes_a_margin() -> None:
    problem = Oracle(lambda c: np.eye(3)[c.argmin()], 3, binary=True)
    pipeline = cfopt.Pipeline(lambda x: 1.0 * x, problem)
    x0 = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    wanted = cfopt.Absolute([0.0, 1.0, 0.0])
    e = cfopt.explain(x0, pipeline, wanted, search=cfopt.MDMM(step=0.05), margin=0.1)
    assert e.valid.all()
    assert 1.1 * e.x[0, 1] <= e.x[0, 0] + 1e-4


def test_a_finite_set_needs_a_table() -> None:
    for given in ([1.0, 2.0], [[]], [[float("nan")]], [[1.0, 2.0], [1.0]]):
        with pytest.raises(InputError, match="decisions"):
            cfopt.problems.Finite(given)


def test_costs_of_the_wrong_width_are_refused() -> None:
    partial = cfopt.problems.MILP(
        [[1.0, 1.0, 1.0]], 1, 1, cost_columns=[0, 1], fixed_costs=[0, 0, 1]
    )
    for problem in (GridShortestPath(3, 3), partial):
        with pytest.raises(InputError, match="needs costs of shape"):
            problem.solve(torch.zeros(2, 11))
