"""The search over cells of trees finds what brute force over all cells finds, and proves it."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")
pytest.importorskip("treelite")
xgboost = pytest.importorskip("xgboost")
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor  # noqa: E402
from sklearn.multioutput import MultiOutputRegressor  # noqa: E402
from sklearn.tree import DecisionTreeRegressor  # noqa: E402

import cfopt  # noqa: E402
from cfopt.engine.rules import Rules  # noqa: E402
from cfopt.engine.space import Space  # noqa: E402
from cfopt.engine.task import Task  # noqa: E402
from cfopt.exact.tree_proof import Branch, TreeProof  # noqa: E402
from cfopt.exact.tree_task import TreeTask  # noqa: E402
from cfopt.exact.verify import recheck  # noqa: E402
from cfopt.problems import Finite, GridShortestPath, Oracle  # noqa: E402
from cfopt.question.domain import Domain  # noqa: E402
from cfopt.result.status import Status  # noqa: E402
from cfopt.search import TreeCells  # noqa: E402
from cfopt.search.tree_row import TreeRow  # noqa: E402
from cfopt.trees.importers import read_ensemble  # noqa: E402
from cfopt.trees.plain_check import plainly_proved  # noqa: E402
from cfopt.trees.predictor import TreePredictor  # noqa: E402

GRID = GridShortestPath(3, 3)
BUNDLES = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0.0]])


def _data(p: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, p)).astype(np.float32).astype(np.float64)
    y = (x @ rng.binomial(1, 0.5, (p, n)) / 2 + 3) ** 2 / 3 * rng.uniform(0.8, 1.2, (120, n)) + 1
    return x, y


def _forest(p: int = 3, n: int = 12, seed: int = 0, **settings: Any) -> tuple[Any, np.ndarray]:
    x, y = _data(p, n, seed)
    chosen = {"n_estimators": 4, "max_depth": 3, "random_state": seed} | settings
    return RandomForestRegressor(**chosen).fit(x, y), x


def _choices(
    thresholds: np.ndarray, origin: float, dtype: Any, allowed: Any, whole: bool
) -> np.ndarray:
    """All values of a feature that can be the nearest of their cell."""
    if whole:
        return np.array(sorted({*(float(v) for v in range(-4, 5) if allowed(v)), origin}))
    edges = thresholds.astype(dtype)
    around = [np.nextafter(edges, dtype(s * np.inf)) for s in (-1, 1)]
    values = np.concatenate([edges, *around, [dtype(origin)]]).astype(np.float64)
    values = np.concatenate([values, allowed.ends])
    return np.unique([v for v in values if allowed(v)])


class Between:
    """What one feature may be."""

    def __init__(self, low: float = -np.inf, high: float = np.inf) -> None:
        self.low, self.high = low, high
        self.ends = [end for end in (low, high) if np.isfinite(end)]

    def __call__(self, value: float) -> bool:
        return self.low <= value <= self.high


def _brute_force(
    predict: Any,
    choices: list[np.ndarray],
    origin: np.ndarray,
    loss: Any,
    holds: Any,
    keep: Any = None,
) -> float:
    """The least loss of all combinations of values that meet the criterion."""
    contexts = np.array(list(itertools.product(*choices)))
    if keep is not None:
        contexts = contexts[keep(contexts)]
    good = holds(predict(contexts))
    return float(loss(contexts[good] - origin).min()) if good.any() else np.inf


def _holds(criterion: Any, factual: np.ndarray, decisions: np.ndarray, margin: float, sign: int):
    """The criterion by its definition, with a list of all decisions."""

    def judged(costs: np.ndarray) -> np.ndarray:
        prices = sign * costs
        values = prices @ decisions.T
        best, old = values.min(1), prices @ factual
        if isinstance(criterion, cfopt.Epsilon):
            off = best + criterion.epsilon * np.abs(best) + margin * np.abs(old) <= old + 1e-9
            return off & (best < old - 1e-9)
        wanted = criterion.alternative.numpy()[0]
        new = prices @ wanted
        if isinstance(criterion, cfopt.Relative):
            return new + margin * np.abs(new) <= old + 1e-9
        if margin > 0:
            best = values[:, (decisions != wanted).any(1)].min(1)
        return new + margin * np.abs(new) <= best + 1e-9

    return judged


def _compare(
    model: Any,
    contexts: np.ndarray,
    problem: Any = GRID,
    criteria: tuple[str, ...] = ("absolute", "relative", "epsilon"),
    dtype: Any = np.float64,
    proximity: Any = None,
    features: cfopt.Features | None = None,
    allowed: dict[int, Between] | None = None,
    whole: tuple[int, ...] = (),
    margin: float = 0.0,
    keep: Any = None,
    epsilon: float = 0.1,
    rows: int = 4,
    search: TreeCells | None = None,
) -> list[cfopt.Explanation]:
    """Explain some rows, and compare each with brute force."""
    ensemble = read_ensemble(model)
    pipeline = cfopt.Pipeline(TreePredictor(ensemble), problem)
    x = torch.from_numpy(contexts.astype(dtype))
    decided = pipeline.decide(x)
    listed = problem.decisions().numpy()
    units = np.ones(x.shape[1])
    if proximity is not None and proximity.scale is not None:
        units = np.asarray(proximity.scale, dtype=np.float64)
    order = {cfopt.L1: 1, cfopt.LInf: np.inf}.get(type(proximity), 2)
    done = []
    for row, kind in itertools.product(range(rows), criteria):
        wanted = decided[40 + row][None]
        criterion = {
            "absolute": cfopt.Absolute(wanted),
            "relative": cfopt.Relative(wanted),
            "epsilon": cfopt.Epsilon(epsilon),
        }[kind]
        e = cfopt.explain(
            x[row : row + 1], pipeline, criterion, search=search or TreeCells(),
            proximity=proximity, features=features, margin=margin,
        )  # fmt: skip
        if e.status[0] in (Status.ALREADY_VALID, Status.REJECTED):
            continue
        origin = x[row].double().numpy()
        choices = [
            _choices(t, origin[f], dtype, (allowed or {}).get(f, Between()), f in whole)
            for f, t in enumerate(ensemble.thresholds)
        ]
        least = _brute_force(
            ensemble.predict, choices, origin,
            lambda change: np.linalg.norm(change / units, order, 1) ** (2 if order == 2 else 1),
            _holds(criterion, decided[row].numpy(), listed, margin, problem.sense.sign), keep,
        )  # fmt: skip
        about = f"{kind}, row {row}: {e.message[0]}, brute force {least}"
        if least == np.inf:
            assert e.status[0] is Status.PROVED_INFEASIBLE, about
        else:
            part = 1e-6 if dtype is np.float64 else 1e-4
            assert e.valid[0], about
            assert abs(float(e.loss[0]) - least) <= part * least, about
            assert e.optimal[0], about
        done.append(e)
    assert done
    return done


def test_every_criterion_agrees_with_brute_force() -> None:
    for seed in range(2):
        _compare(*_forest(seed=seed))


def test_l1_and_scales_agree_with_brute_force() -> None:
    _compare(*_forest(seed=2), proximity=cfopt.L1())
    _compare(*_forest(seed=3), proximity=cfopt.L2(scale=[0.5, 2.0, 1.0]))


def test_the_largest_change_agrees_with_brute_force() -> None:
    _compare(*_forest(seed=2), proximity=cfopt.LInf())
    _compare(*_forest(seed=3), proximity=cfopt.LInf(scale=[0.5, 2.0, 1.0]), dtype=np.float32)
    model, x = _forest(seed=11)
    held = cfopt.Features(integer=[0, 2], lower=-4, upper=4)
    x = np.clip(x, -4, 4)
    x[:, [0, 2]] = x[:, [0, 2]].round()
    between = {f: Between(-4, 4) for f in range(3)}
    _compare(model, x, features=held, allowed=between, whole=(0, 2), proximity=cfopt.LInf())


def test_a_margin_agrees_with_brute_force() -> None:
    _compare(*_forest(seed=4), margin=0.02)


def test_a_regret_above_1_agrees_with_brute_force() -> None:
    _compare(*_forest(seed=4), criteria=("epsilon",), epsilon=1.2)
    _compare(*_forest(seed=4), criteria=("epsilon",), epsilon=0.5)


def test_contexts_in_float32_agree_with_brute_force() -> None:
    _compare(*_forest(seed=5), dtype=np.float32)


def test_a_maximising_problem_agrees_with_brute_force() -> None:
    problem = Finite(BUNDLES, sense="max")
    _compare(*_forest(n=4, seed=6), problem=problem)
    _compare(*_forest(n=4, seed=6), problem=problem, epsilon=1.5, criteria=("epsilon",))


def test_prices_of_both_signs_agree_with_brute_force() -> None:
    x, y = _data(3, 4, seed=7)
    model = RandomForestRegressor(4, max_depth=3, random_state=0).fit(x, y - y.mean(0))
    for epsilon in (0.3, 1.5):
        _compare(model, x, problem=Finite(BUNDLES), epsilon=epsilon)


@pytest.mark.long
def test_boosted_trees_of_one_target_each_agree_with_brute_force() -> None:
    x, y = _data(3, 12, seed=8)
    _compare(xgboost.XGBRegressor(n_estimators=3, max_depth=2, n_jobs=1).fit(x, y), x, rows=2)
    histograms = HistGradientBoostingRegressor(max_iter=2, max_depth=2)
    _compare(MultiOutputRegressor(histograms).fit(x, y), x, rows=2)


def test_limits_agree_with_brute_force() -> None:
    model, x = _forest(seed=9)
    features = cfopt.Features(lower={0: -0.5}, upper={0: 0.75}, immutable=[1])
    x = np.clip(x, -0.5, 0.75)
    for row in range(3):
        held = {0: Between(-0.5, 0.75), 1: Between(x[row, 1], x[row, 1])}
        shown = np.concatenate([x[row : row + 1], x[1:]])
        _compare(model, shown, features=features, allowed=held, rows=1)
    oneway = cfopt.Features(only_increase=[0], only_decrease=[2])
    for row in range(3):
        ways = {0: Between(low=x[row, 0]), 2: Between(high=x[row, 2])}
        shown = np.concatenate([x[row : row + 1], x[1:]])
        _compare(model, shown, features=oneway, allowed=ways, rows=1)


def test_what_cannot_change_is_proved_to_have_no_answer() -> None:
    model, x = _forest(seed=10)
    features = cfopt.Features(immutable=[0, 1], lower={2: -0.2}, upper={2: 0.2})
    x = x.copy()
    x[:, 2] = np.clip(x[:, 2], -0.2, 0.2)
    found = []
    for row in range(4):
        held = {f: Between(x[row, f], x[row, f]) for f in (0, 1)} | {2: Between(-0.2, 0.2)}
        shown = np.concatenate([x[row : row + 1], x[1:]])
        found += _compare(model, shown, features=features, allowed=held, rows=1)
    assert any(e.status[0] is Status.PROVED_INFEASIBLE for e in found)


def test_whole_numbers_agree_with_brute_force() -> None:
    model, x = _forest(seed=11)
    features = cfopt.Features(integer=[0, 2], lower=-4, upper=4)
    held = {f: Between(-4, 4) for f in range(3)}
    x = np.clip(x, -4, 4)
    x[:, [0, 2]] = x[:, [0, 2]].round()
    _compare(model, x, features=features, allowed=held, whole=(0, 2))


@pytest.mark.parametrize("proximity", [cfopt.L2(), cfopt.LInf(scale=[2.0, 1, 1, 0.5, 1])])
def test_one_hot_groups_agree_with_brute_force(proximity: Any) -> None:
    rng = np.random.default_rng(12)
    x, y = _data(5, 12, seed=12)
    x[:, :3] = np.eye(3)[rng.integers(3, size=len(x))]
    y = y * (1 + x[:, :3] @ rng.uniform(0, 1, (3, 12)))
    model = RandomForestRegressor(4, max_depth=4, random_state=0).fit(x, y)
    features = cfopt.Features(one_hot=[[0, 1, 2]])
    _compare(
        model, x, features=features, allowed={f: Between(0, 1) for f in range(3)},
        whole=(0, 1, 2), keep=lambda c: c[:, :3].sum(1) == 1, proximity=proximity,
    )  # fmt: skip


def _task(
    x: torch.Tensor, decided: torch.Tensor, pipeline: Any, criterion: Any, near: Any = None
) -> Task:
    rules = Rules(pipeline.problem, decided, criterion)
    return Task(rules, Space(x, near or cfopt.L2()), pipeline.predictor, differentiable=False)


def _proved() -> tuple[Task, TreeProof, float]:
    """A row whose proof has many boxes."""
    model, x = _forest(seed=13, n_estimators=12, max_depth=4)
    pipeline = cfopt.Pipeline(TreePredictor(read_ensemble(model)), GRID)
    contexts = torch.from_numpy(x)
    decided = pipeline.decide(contexts)
    for row in range(40):
        criterion = cfopt.Absolute(decided[50:51]).bind(1, decided[row : row + 1])
        task = _task(contexts[row : row + 1], decided[row : row + 1], pipeline, criterion)
        points = TreeCells().run(task)
        proof = points.certificates[0]
        assert isinstance(proof, TreeProof)
        if points.found[0] and len(proof.branches[-1].boxes) > 60:
            return task, proof, float(task.space.loss(points.x))
    raise AssertionError("No row has a proof with many boxes.")


def test_a_proof_is_confirmed_by_its_check() -> None:
    task, proof, loss = _proved()
    bound = float(recheck(task, [proof]).bound[0])
    assert loss * (1 - 1e-6) <= bound <= loss


def test_a_proof_that_was_tampered_with_is_rejected() -> None:
    task, proof, loss = _proved()
    branch = proof.branches[-1]
    boxes = branch.boxes
    closed = np.flatnonzero((boxes.feature < 0) & (boxes.reason >= 0))[::5]
    lowered = 0
    for node in closed:  # a box is said to be far away
        reason = boxes.reason.copy()
        reason[node] = -1
        lowered += _bound(task, proof, replace(boxes, reason=reason)) < loss * (1 - 1e-6)
    assert lowered > len(closed) / 2
    # A farther claim, thresholds that are moved, parts that are left out, and no cuts at all.
    assert float(recheck(task, [replace(proof, claim=1.5 * loss)]).bound[0]) <= loss
    inner = np.flatnonzero(boxes.feature >= 0)
    moved = boxes.threshold.copy()
    moved[inner] = moved[inner][::-1]
    assert _bound(task, proof, replace(boxes, threshold=moved)) < loss * (1 - 1e-6)
    skipped = boxes.left.copy()
    skipped[inner] = boxes.right[inner]
    assert _bound(task, proof, replace(boxes, left=skipped)) < loss * (1 - 1e-6)
    looped = boxes.left.copy()
    looped[inner[0]] = inner[0]
    assert _bound(task, proof, replace(boxes, left=looped)) == 0
    without = replace(proof, branches={-1: Branch((), boxes)})
    assert float(recheck(task, [without]).bound[0]) == 0

    asked = replace(branch, asked=tuple(range(-1, len(boxes) + 1)))  # most hold several cells
    assert float(recheck(task, [replace(proof, branches={-1: asked})]).bound[0]) <= loss


@pytest.mark.parametrize("proximity", [cfopt.L2(), cfopt.LInf()])
def test_a_proof_over_one_hot_groups_proves_no_more_than_is_true(proximity: Any) -> None:
    rng = np.random.default_rng(12)
    x, y = _data(5, 12, seed=12)
    x[:, :3] = np.eye(3)[rng.integers(3, size=len(x))]
    y = y * (1 + x[:, :3] @ rng.uniform(0, 1, (3, 12)))
    model = RandomForestRegressor(4, max_depth=4, random_state=0).fit(x, y)
    pipeline = cfopt.Pipeline(TreePredictor(read_ensemble(model)), GRID)
    contexts = torch.from_numpy(x)
    decided, proved = pipeline.decide(contexts), 0
    for row in range(30):
        own = contexts[row : row + 1]
        criterion = cfopt.Absolute(decided[50:51]).bind(1, decided[row : row + 1])
        task = _task(own, decided[row : row + 1], pipeline, criterion, proximity)
        domain = Domain.of(cfopt.Features(one_hot=[[0, 1, 2]]), own)
        task = replace(task, space=replace(task.space, domain=domain))
        points = TreeCells().run(task)
        proof = points.certificates[0]
        assert isinstance(proof, TreeProof)
        loss = float(task.space.loss(points.x)[0])
        if not points.found[0] or loss == 0 or proved == 4:
            continue
        proved += 1
        assert loss * (1 - 1e-6) <= float(recheck(task, [proof]).bound[0]) <= loss
        for claim in (1.5 * loss, np.inf):
            assert float(recheck(task, [replace(proof, claim=claim)]).bound[0]) <= loss
        without = Branch((), proof.branches[-1].boxes)
        nothing = replace(proof, claim=np.inf, branches={-1: without})
        assert float(recheck(task, [nothing]).bound[0]) == 0
    assert proved == 4


@pytest.mark.parametrize("reachable", [True, False])
def test_cells_that_are_nearly_valid_are_settled_by_asking_the_model(reachable: bool) -> None:
    # Costs of both signs up to 1,000 grant a cut 2e-3, while verification grants costs of 1 only
    # 2e-6: by its leaves alone no cell of the first three columns could be told to be invalid.
    x = np.array([(a, b) for a in range(5) for b in range(3)], dtype=float)
    excess = np.where(x[:, 0] < 3, 1e-4 * (1 + x.sum(1)), -0.5 if reachable else 0.5)
    costs = np.stack([1 + excess, np.ones(len(x))], axis=1)
    costs[x[:, 0] == 4] = 1000, -1000
    pipeline = cfopt.Pipeline(DecisionTreeRegressor().fit(x, costs), Finite(np.eye(2)))
    e = cfopt.explain(np.array([[0.0, 1.0]]), pipeline, cfopt.Absolute([1.0, 0.0]))
    if reachable:
        assert e.optimal.all()
        assert float(e.loss[0]) == pytest.approx(2.5**2)  # the fourth column begins at 2.5
    else:
        assert e.status[0] is Status.PROVED_INFEASIBLE


def _bound(task: Task, proof: TreeProof, boxes: Any) -> float:
    """What is left of a proof with other boxes, by both checks."""
    branch = Branch(proof.branches[-1].cuts, boxes)
    changed = replace(proof, branches={-1: branch})
    found = float(recheck(task, [changed]).bound[0])
    assert changed.bound(TreeTask(task), 0, plainly_proved) == pytest.approx(found, rel=1e-12)
    return found


@pytest.mark.parametrize("near", [cfopt.L2(), cfopt.LInf()])
@pytest.mark.parametrize("kind", ["forest", "a tree for each cost", "groups and whole numbers"])
def test_the_plain_check_proves_what_the_compiled_one_proves(kind: str, near: Any) -> None:
    x, y = _data(4, 12, seed=25)
    features = None
    if kind == "groups and whole numbers":
        x[:, 1:3] = np.eye(2)[(x[:, 1] > 0).astype(int)]
        x[:, 3] = np.round(x[:, 3])
        features = cfopt.Features(
            names=list("abcd"), one_hot=[["b", "c"]], integer=["d"], lower=[-1, 0, 0, -3]
        )
    model: Any = RandomForestRegressor(6, max_depth=4, random_state=0)
    if kind == "a tree for each cost":
        model = xgboost.XGBRegressor(n_estimators=2, max_depth=2, n_jobs=1)
    pipeline = cfopt.Pipeline(TreePredictor(read_ensemble(model.fit(x, y))), GRID)
    contexts = torch.from_numpy(x[x[:, 0] > -1])
    decided = pipeline.decide(contexts)
    found = 0
    for row, criterion in itertools.product(
        range(3), (cfopt.Absolute(decided[30:31]), cfopt.Epsilon(0.2))
    ):
        bound = criterion.bind(1, decided[row : row + 1])
        task = _task(contexts[row : row + 1], decided[row : row + 1], pipeline, bound, near)
        if features is not None:
            domain = cfopt.question.domain.Domain.of(features, task.space.origin)
            task = replace(task, space=replace(task.space, domain=domain))
        for progress in TreeCells().steps(task):
            for proof in progress.finished.certificates:
                tree_task = TreeTask(task)
                compiled = proof.bound(tree_task, 0)
                plain = proof.bound(tree_task, 0, plainly_proved)
                assert plain == pytest.approx(compiled, rel=1e-12)
                found += compiled > 0
    assert found > 3


def test_a_cut_of_a_decision_that_is_not_the_factual_one_proves_nothing_of_relative() -> None:
    task, proof, _ = _proved()
    asked = cfopt.Relative(task.rules.criterion.alternative)
    relative = replace(task, rules=replace(task.rules, criterion=asked))
    assert not float(recheck(relative, [proof]).bound[0]) > 0


def test_references_are_starts_and_threads_change_nothing() -> None:
    model, x = _forest(p=4, seed=14, n_estimators=10, max_depth=4)
    pipeline = cfopt.Pipeline(TreePredictor(read_ensemble(model)), GRID)
    contexts = torch.from_numpy(x)
    wanted = pipeline.decide(contexts)[60:66]
    plain = cfopt.explain(contexts[:6], pipeline, cfopt.Absolute(wanted), search=TreeCells())
    search = TreeCells(contexts=contexts, threads=2)
    other = cfopt.explain(contexts[:6], pipeline, cfopt.Absolute(wanted), search=search)
    assert plain.status == other.status
    assert torch.allclose(plain.loss, other.loss, rtol=1e-6, equal_nan=True)
    units = cfopt.Features(scale=[1.0] * 4)  # not those that the reference would give
    chosen = cfopt.explain(
        contexts[:6], pipeline, cfopt.Absolute(wanted), reference=contexts, features=units
    )
    assert torch.allclose(plain.loss, chosen.loss, rtol=1e-6, equal_nan=True)
    assert "cells of trees" in chosen.method


def test_answers_are_the_same_to_the_last_bit_whatever_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, x = _forest(p=4, seed=24, n_estimators=10, max_depth=4)
    pipeline = cfopt.Pipeline(model, GRID)
    contexts = torch.from_numpy(x)
    wanted = cfopt.Absolute(pipeline.decide(contexts)[60:80])
    monkeypatch.setattr("cfopt.search.tree_cells._QUICK", 0.0)
    used = set()
    judge = TreeRow.run

    def noted(self: TreeRow, *given: Any) -> Any:
        used.add(threading.get_ident())
        return judge(self, *given)

    monkeypatch.setattr(TreeRow, "run", noted)
    alone, several = (
        cfopt.explain(contexts[:20], pipeline, wanted, search=TreeCells(threads=n)) for n in (1, 4)
    )
    assert len(used) > 1
    assert torch.equal(alone.x, several.x)
    assert alone.message == several.message
    assert torch.equal(alone.solves, several.solves)
    assert torch.equal(alone.bound.nan_to_num(-1), several.bound.nan_to_num(-1))


def test_a_time_limit_ends_with_a_bound_that_holds() -> None:
    model, x = _forest(p=6, seed=15, n_estimators=30, max_depth=5)
    pipeline = cfopt.Pipeline(TreePredictor(read_ensemble(model)), GRID)
    contexts = torch.from_numpy(x)
    wanted = cfopt.Absolute(pipeline.decide(contexts)[60:61])
    rushed = TreeCells(contexts=contexts, seconds_a_row=1e-6)
    late = cfopt.explain(contexts[:1], pipeline, wanted, search=rushed)
    calm = cfopt.explain(contexts[:1], pipeline, wanted, search=TreeCells(contexts=contexts))
    assert calm.optimal[0]
    assert late.valid[0]  # a valid reference is an answer
    assert not float(late.bound[0]) > float(calm.loss[0]) * (1 + 1e-9)


def test_a_row_that_takes_long_reports_and_ends_when_nobody_waits_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, x = _forest(seed=15)
    pipeline, contexts = cfopt.Pipeline(model, GRID), torch.from_numpy(x)
    decided = pipeline.decide(contexts)
    other = next(k for k in range(1, len(x)) if (decided[k] != decided[0]).any())
    criterion = cfopt.Absolute(decided[other : other + 1]).bind(1, decided[:1])
    task = _task(contexts[:1], decided[:1], pipeline, criterion)
    ended = threading.Event()
    finish = TreeRow._finish

    def endless(self: TreeRow, *given: Any) -> Any:
        yield from finish(self, *given)
        while self._in_time(np.inf):
            ended.wait(0.01)
            yield
        ended.set()

    monkeypatch.setattr(TreeRow, "_finish", endless)
    monkeypatch.setattr("cfopt.search.tree_cells._PULSE", 0.01)
    steps = TreeCells(seconds_a_row=np.inf).steps(task)
    report = next(one for one in steps if one.moving is not None)
    assert report.finished is None
    assert report.running == 1
    assert task.space.loss(report.moving.at) > 0
    steps.close()
    assert ended.is_set()


def test_certify_proves_what_another_search_found_behind_trees() -> None:
    model, x = _forest(seed=16)
    pipeline = cfopt.Pipeline(model, GRID)
    wanted = cfopt.Absolute(pipeline.decide(x)[40:44])
    exact = cfopt.explain(x[:4], pipeline, wanted)
    first = cfopt.search.DerivativeFree()
    known: dict[str, Any] = {"reference": x, "features": cfopt.Features(scale=[1.0] * 3)}
    found = cfopt.explain(x[:4], pipeline, wanted, search=first, **known)
    assert exact.optimal.all()
    for limit in (None, 1e-9):
        search = cfopt.Certify(first, seconds=limit)
        e = cfopt.explain(x[:4], pipeline, wanted, search=search, **known)
        assert e.valid.all()
        assert (e.loss <= found.loss * (1 + 1e-9)).all()
        assert (e.bound <= exact.loss * (1 + 1e-9)).all()
        if limit is None:
            assert e.optimal.all()
            np.testing.assert_allclose(e.loss, exact.loss, rtol=1e-9)
            assert any("then cells of trees" in method for method in e.method)
    again = cfopt.explain(x[:4], pipeline, wanted, search=cfopt.Certify())
    assert again.optimal.all()
    assert not any("then" in method for method in again.method)


def test_what_is_not_served_is_refused() -> None:
    model, x = _forest(seed=16)
    pipeline = cfopt.Pipeline(TreePredictor(read_ensemble(model)), GRID)
    contexts = torch.from_numpy(x)
    listed = GRID.decisions().numpy()
    unbounded = cfopt.Pipeline(
        pipeline.predictor, Oracle(lambda c: listed[(listed @ c).argmin()], 12)
    )
    with pytest.raises(cfopt.InputError, match="cannot be listed, and entries of decisions"):
        cfopt.explain(contexts[:1], unbounded, cfopt.Epsilon(0.1), search=TreeCells())
    affine = cfopt.Pipeline(torch.nn.Linear(3, 12).double(), GRID)
    with pytest.raises(cfopt.InputError, match="not a tree ensemble"):
        cfopt.explain(contexts[:1], affine, cfopt.Epsilon(0.1), search=TreeCells())


@pytest.mark.parametrize("kind", ["forest", "xgboost", "one tree for all", "lightgbm"])
def test_a_model_goes_in_as_it_is_and_answers_hold_by_its_own_prediction(kind: str) -> None:
    x, y = _data(4, 12, seed=17)
    model = {
        "forest": lambda: RandomForestRegressor(10, max_depth=4, random_state=0),
        "xgboost": lambda: xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1),
        "one tree for all": lambda: xgboost.XGBRegressor(
            n_estimators=9, max_depth=3, multi_strategy="multi_output_tree", tree_method="hist"
        ),
        "lightgbm": lambda: MultiOutputRegressor(
            pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=4, verbose=-1)
        ),
    }[kind]()
    model.fit(x, y)
    pipeline = cfopt.Pipeline(model, GRID)
    wanted = pipeline.decide(x).flip(0)
    e = cfopt.explain(x[:40], pipeline, cfopt.Relative(wanted[:40]))
    assert "cells of trees" in e.method
    moved = e[[row for row, status in enumerate(e.status) if status is Status.VALID]]
    assert len(moved) > 10
    assert moved.optimal.all()
    costs = np.asarray(model.predict(moved.x.numpy()), dtype=np.float64)
    new, old = ((costs * side.numpy()).sum(1) for side in (moved.alternative, moved.factual))
    assert (new <= old + 2e-6 * np.abs(costs).sum(1)).all()


def test_cuts_hold_wherever_verification_says_valid() -> None:
    model, x = _forest(seed=18)
    pipeline = cfopt.Pipeline(TreePredictor(read_ensemble(model)), GRID)
    contexts = torch.from_numpy(x)
    decided = pipeline.decide(contexts)
    criterion = cfopt.Absolute(decided[30:31]).bind(1, decided[:1])
    tree_task = TreeTask(_task(contexts[:1], decided[:1], pipeline, criterion))
    every = cfopt.question.quantifier.Quantifier.EVERY
    listed = GRID.decisions().numpy()
    weights, limits, _ = tree_task.cuts(0, every, listed)
    costs = model.predict(x)
    valid = (costs @ decided[30].numpy()) <= (costs @ listed.T).min(1) + 1e-9
    assert valid.any()
    sums = (costs - tree_task.ensemble.base) @ weights.T
    assert (sums[valid] <= limits + 1e-9).all()
    assert (sums[~valid] > limits + 1e-9).any(1).all()
