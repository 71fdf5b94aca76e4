"""explain() and the Explanation that it returns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from tests.pipelines import another, normal
from torch import Tensor, nn

import cfopt
from cfopt import metrics
from cfopt.errors import InputError
from cfopt.exact import verify
from cfopt.exact.affine import AffineMap
from cfopt.problems import TerrainShortestPath

SEARCH = cfopt.MDMM(step=0.05, max_steps=300)


@pytest.fixture
def questions(grid: cfopt.Pipeline) -> list[cfopt.Criterion]:
    wanted = grid.decide(normal(6, 4, seed=1))
    return [cfopt.Relative(wanted), cfopt.Absolute(wanted), cfopt.Epsilon(0.05)]


@pytest.fixture
def e(grid: cfopt.Pipeline) -> cfopt.Explanation:
    """Rows of every status that answers without robustness can have."""
    x0 = normal(8, 4)[:6].clone()
    wanted = another(grid, x0)
    wanted[1] = grid.decide(x0)[1]
    wanted[3] = 1.0
    x0[4, 0] = torch.nan
    search = cfopt.CuttingPlane(max_rounds=2)
    features = cfopt.Features(lower=-2.5, upper=2.5, immutable=[1])
    e = cfopt.explain(x0, grid, cfopt.Absolute(wanted), search=search, features=features)
    assert set(e.status) == set(cfopt.Status) - {cfopt.Status.SAMPLED}
    return e


def _same(a: cfopt.Explanation, b: cfopt.Explanation) -> None:
    assert a.status == b.status
    assert a.message == b.message
    assert a.method == b.method
    assert a.features == b.features
    for left, right in zip(a.clash, b.clash, strict=True):
        assert (left is None) == (right is None)
        if left is not None and right is not None:
            assert (left.decisions == right.decisions).all()
            assert (left.limits, left.locked, left.radius) == (
                right.limits,
                right.locked,
                right.radius,
            )
    assert a.labels == b.labels
    for name in (
        "x0",
        "x",
        "loss",
        "bound",
        "gap",
        "optimal",
        "violation",
        "tie",
        "steps",
        "solves",
        "passes",
        "factual",
        "decision",
        "costs_before",
        "costs",
        "alternative",
        "valid",
        "distance",
    ):
        left, right = getattr(a, name), getattr(b, name)
        assert left.dtype == right.dtype, name
        assert torch.equal(left.nan_to_num(-9, -8, -7), right.nan_to_num(-9, -8, -7)), name


def test_the_shapes_are_those_of_the_batch(grid: cfopt.Pipeline, questions: list) -> None:
    for criterion in questions:
        e = cfopt.explain(normal(6, 4), grid, criterion, search=SEARCH)
        assert e.x.shape == (6, 4)
        assert e.valid.shape == e.distance.shape == e.steps.shape == e.tie.shape == (6,)
        assert e.decision.shape == (6, 12)
        assert len(e) == 6


def test_one_context_is_a_batch_of_one(grid: cfopt.Pipeline, questions: list) -> None:
    x0 = normal(6, 4)
    for criterion in questions:
        batch = cfopt.explain(x0, grid, criterion, search=SEARCH)
        one = (
            criterion
            if isinstance(criterion, cfopt.Epsilon)
            else type(criterion)(criterion.alternative[0])
        )
        alone = cfopt.explain(x0[0], grid, one, search=SEARCH)
        assert alone.x.shape == (1, 4)
        assert torch.allclose(alone.x[0], batch.x[0], atol=1e-9)


@pytest.mark.slow
def test_arrays_lists_and_dataframes_give_what_tensors_give(
    grid: cfopt.Pipeline, questions: list
) -> None:
    x0 = normal(6, 4)
    frame = pd.DataFrame(x0.numpy(), columns=["rain", "wind", "load", "hour"], index=list("abcdef"))
    for criterion in questions:
        expected = cfopt.explain(x0, grid, criterion, search=SEARCH)
        for given in (x0.numpy(), x0.tolist(), frame):
            assert torch.equal(cfopt.explain(given, grid, criterion, search=SEARCH).x, expected.x)
    e = cfopt.explain(frame, grid, questions[0], search=SEARCH)
    assert e.labels == tuple("abcdef")
    assert set(e.table()["feature"]) <= {"rain", "wind", "load", "hour"}
    assert list(e.to_dataframe().index) == list("abcdef")
    assert "wind after" in e.to_dataframe().columns


def test_whole_numbers_become_floats(grid: cfopt.Pipeline) -> None:
    e = cfopt.explain(torch.ones(2, 4, dtype=torch.long), grid, cfopt.Epsilon(0.05), search=SEARCH)
    assert e.x.dtype == torch.float64


def test_the_decision_is_that_of_the_pipeline_and_valid_means_what_it_says(
    grid: cfopt.Pipeline, questions: list
) -> None:
    listed = grid.problem.decisions()
    for criterion in questions:
        e = cfopt.explain(normal(6, 4), grid, criterion, search=SEARCH)
        assert torch.equal(e.decision, grid.decide(e.x))
        assert torch.allclose(e.costs, grid.costs(e.x).detach())
        assert torch.allclose(e.costs_before, grid.costs(e.x0).detach())
        assert torch.equal(e.factual, grid.decide(e.x0))
        values = e.costs @ listed.T
        if isinstance(criterion, cfopt.Absolute):
            own = (e.costs * e.alternative).sum(1)
            assert torch.equal(e.valid, own <= values.min(1).values + 1e-5)


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float64, 1e-12), (torch.float32, 4.8e-7)])
def test_the_tolerance_is_the_one_that_is_documented(dtype, rounding) -> None:
    # The plan e_0 costs `excess` more than the best one, e_1; a third price is large.
    granted = 1e-6 * 2 + rounding * 50 * 2
    rows = [[1 + share * granted, 1.0, 50.0] for share in (0.95, 1.05)]
    x0 = torch.tensor(rows, dtype=torch.float64).to(dtype)
    pipeline = cfopt.Pipeline(torch.nn.Identity(), cfopt.problems.Finite(torch.eye(3)))
    e = cfopt.explain(x0, pipeline, cfopt.Absolute([1.0, 0, 0]))
    assert list(e.status) == ["already valid", "valid"]


def test_where_the_context_already_explains_nothing_changes(grid: cfopt.Pipeline) -> None:
    x0 = normal(6, 4)
    e = cfopt.explain(x0, grid, cfopt.Absolute(grid.decide(x0)), search=SEARCH)
    assert set(e.status) == {"already valid"}
    assert "the alternative is the factual decision" in e.message[0]
    assert torch.equal(e.x, x0)
    assert e.steps.tolist() == [0] * 6
    assert e.valid.all()
    assert "0 contexts" not in e.summary()


def test_a_best_effort_says_by_how_much_it_misses(grid: cfopt.Pipeline) -> None:
    x0, wanted = normal(6, 4), grid.decide(normal(6, 4, seed=1))
    e = cfopt.explain(x0, grid, cfopt.Absolute(wanted), search=cfopt.MDMM(step=0.01, max_steps=3))
    rows = [i for i, status in enumerate(e.status) if status == "best effort"]
    assert rows
    costs = grid.costs(e.x).detach()
    lacking = (costs * wanted).sum(1) - (costs @ grid.problem.decisions().T).min(1).values
    for row in rows:
        assert float(e.violation[row]) == pytest.approx(float(lacking[row]), rel=1e-9)
        assert f"costs {float(lacking[row]):.3g} more than the best decision" in e.message[row]
        start = (grid.costs(x0)[row] @ (wanted[row] - grid.decide(x0)[row])).item()
        assert float(e.violation[row]) <= start + 1e-9


def test_what_a_search_claims_is_not_believed(grid: cfopt.Pipeline) -> None:
    """A search that calls the origin valid: verification finds out."""

    class Liar(cfopt.Search):
        def steps(self, task: cfopt.Task):
            count = len(task)
            rows, ones = torch.arange(count), torch.ones(count, dtype=torch.long)
            claim = cfopt.Points(rows, task.space.origin, ones.bool(), ones, ones, ones)
            yield cfopt.Progress(1, 0, count, claim)

    wanted = grid.decide(normal(6, 4, seed=1))
    e = cfopt.explain(normal(6, 4), grid, cfopt.Absolute(wanted), search=Liar())
    assert set(e.status) <= {"best effort", "already valid"}
    assert "best effort" in e.status


def test_a_margin_makes_the_pipeline_itself_return_the_alternative(grid: cfopt.Pipeline) -> None:
    x0, wanted = normal(20, 4), grid.decide(normal(20, 4, seed=1))
    tied = cfopt.explain(x0, grid, cfopt.Absolute(wanted), search=SEARCH)
    assert (grid.decide(tied.x) != wanted).any(), "without a margin some rows tie"
    assert torch.equal(tied.tie, tied.valid & (grid.decide(tied.x) != wanted).any(1))
    e = cfopt.explain(x0, grid, cfopt.Absolute(wanted), search=SEARCH, margin=0.02)
    assert e.valid.all()
    assert not e.tie.any()
    assert torch.equal(grid.decide(e.x), wanted)
    values = (e.costs @ grid.problem.decisions().T).sort(1).values
    assert (values[:, 0] + 0.02 * values[:, 0].abs() <= values[:, 1] + 1e-4).all()


def test_a_relative_margin_is_kept(grid: cfopt.Pipeline) -> None:
    x0, wanted = normal(20, 4), grid.decide(normal(20, 4, seed=1))
    keep = (wanted != grid.decide(x0)).any(1)
    x0, wanted = x0[keep], wanted[keep]
    e = cfopt.explain(x0, grid, cfopt.Relative(wanted), search=SEARCH, margin=0.05)
    new, old = (e.costs * wanted).sum(1), (e.costs * e.factual).sum(1)
    assert e.valid.all()
    assert (new + 0.05 * new.abs() <= old + 1e-4).all()
    assert not e.tie.any()


def test_progress_is_reported_as_rows_finish(grid: cfopt.Pipeline, questions: list) -> None:
    seen: list[cfopt.Progress] = []
    cfopt.explain(normal(6, 4), grid, questions[0], search=SEARCH, on_progress=seen.append)
    assert seen[-1].running == 0
    assert [p.step for p in seen] == sorted(p.step for p in seen)


def test_rows_can_be_picked_in_every_usual_way(e: cfopt.Explanation) -> None:
    _same(e[:], e)
    assert len(e[3]) == 1
    assert e[-1].status == (e.status[5],)
    assert len(e[e.valid]) == int(e.valid.sum())
    assert torch.equal(e[[2, 0]].x0.nan_to_num(), e.x0[[2, 0]].nan_to_num())
    assert torch.equal(e[1:3].alternative, e.alternative[1:3])
    with pytest.raises(IndexError, match="6 rows"):
        e[6]


def test_it_keeps_its_own_copy_of_the_contexts(grid: cfopt.Pipeline) -> None:
    x0 = normal(2, 4)
    e = cfopt.explain(x0, grid, cfopt.Epsilon(0.1), search=cfopt.MDMM(max_steps=2))
    x0.zero_()
    assert torch.equal(e.x0, normal(2, 4))


def test_it_is_frozen(e: cfopt.Explanation) -> None:
    with pytest.raises(AttributeError):
        e.x = e.x0  # type: ignore[misc]


def test_json_gives_everything_back_and_has_no_nan(e: cfopt.Explanation, tmp_path: Path) -> None:
    text = e.to_json(tmp_path / "why.json")
    assert "NaN" not in text
    assert "Infinity" not in text
    assert (tmp_path / "why.json").read_text() == text
    assert json.loads(text)["rows"][4]["x0"][0] is None
    for source in (text, tmp_path / "why.json", str(tmp_path / "why.json")):
        back = cfopt.Explanation.from_json(source, problem=e.problem)
        _same(back, e)
        assert type(back.criterion) is type(e.criterion)
        assert back.summary() == e.summary()


def test_json_keeps_epsilon_names_scales_and_float32(grid: cfopt.Pipeline) -> None:
    pipeline = cfopt.Pipeline(torch.nn.Linear(2, 12), grid.problem)
    features = cfopt.Features(["a", "b"], [1.0, 3.0])
    e = cfopt.explain(
        torch.randn(2, 2),
        pipeline,
        cfopt.Epsilon(0.3),
        features=features,
        margin=0.01,
        search=cfopt.MDMM(max_steps=5),
    )
    back = cfopt.Explanation.from_json(e.to_json())
    _same(back, e)
    assert back.criterion == e.criterion
    assert back.features == features
    assert back.margin == 0.01
    assert back.x.dtype == torch.float32


@pytest.mark.parametrize(
    "text", ["{}", '{"format": "other"}', "{no json", '{"format": "cfopt explanation 1"}']
)
def test_json_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        cfopt.Explanation.from_json(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [("dtype", "int32"), ("margin", None), ("shapes", {}), ("rows", 3), ("criterion", {})],
)
def test_damaged_json_is_refused(e: cfopt.Explanation, key: str, value: object) -> None:
    content = json.loads(e.to_json()) | {key: value}
    with pytest.raises(InputError, match="damaged"):
        cfopt.Explanation.from_json(json.dumps(content))


def test_the_table_has_what_changed_the_largest_first(grid: cfopt.Pipeline) -> None:
    x0, wanted = normal(1, 4), grid.decide(normal(6, 4, seed=1))[2]
    e = cfopt.explain(
        x0,
        grid,
        cfopt.Relative(wanted),
        search=SEARCH,
        features=cfopt.Features(["a", "b", "c", "d"]),
    )
    table = e.table()
    assert list(table.columns) == ["feature", "before", "after", "change"]
    assert table["change"].abs().is_monotonic_decreasing
    change = dict(zip("abcd", (e.x - e.x0)[0].tolist(), strict=True))
    for feature, before, after, delta in table.itertuples(index=False):
        assert delta == pytest.approx(change[feature])
        assert after - before == pytest.approx(delta)
    still = cfopt.explain(x0, grid, cfopt.Absolute(grid.decide(x0)), search=SEARCH)
    assert still.table().empty


def test_a_table_of_several_rows_says_which(e: cfopt.Explanation) -> None:
    assert list(e.table().columns) == ["row", "feature", "before", "after", "change"]


def test_the_summary_counts_and_names_what_failed(e: cfopt.Explanation) -> None:
    text = e.summary()
    assert "6 contexts" in text
    assert "2 rejected" in text
    assert "row 3: Absolute needs a feasible alternative" in text
    assert "Rejected: the context has values that are not finite." in e[4].summary()


def test_metrics_are_what_they_say(grid: cfopt.Pipeline, e: cfopt.Explanation) -> None:
    two = e[[0, 5]]
    moved = replace(two, x=two.x0 + torch.tensor([[3.0, -4.0, 0.0, 1e-9], [0.0, 0.0, 0.0, 2.0]]))
    assert metrics.proximity_l2(moved).tolist() == pytest.approx([5.0, 2.0])
    assert metrics.proximity_l1(moved).tolist() == pytest.approx([7.0, 2.0])
    assert metrics.sparsity(moved).tolist() == [2, 1]
    assert (
        metrics.validity(replace(two, status=(cfopt.Status.VALID, cfopt.Status.BEST_EFFORT))) == 0.5
    )
    costs, decisions = grid.costs(normal(5, 4)).detach(), grid.decide(normal(5, 4, seed=2))
    values = costs @ grid.problem.decisions().T
    best = values.min(1).values
    expected = ((costs * decisions).sum(1) - best) / best.abs()
    assert torch.allclose(metrics.relative_regret(grid.problem, decisions, costs), expected)
    assert torch.allclose(grid.regret(normal(5, 4), decisions), expected)


def test_answers_under_l1_are_nearer_in_l1(grid: cfopt.Pipeline) -> None:
    x0, wanted = normal(20, 4), cfopt.Relative(grid.decide(normal(20, 4, seed=1)))
    l1 = cfopt.explain(x0, grid, wanted, search=cfopt.MDMM(step=0.005), proximity=cfopt.L1())
    l2 = cfopt.explain(x0, grid, wanted, search=cfopt.MDMM(step=0.005), proximity=cfopt.L2())
    both = l1.valid & l2.valid & (l2.distance > 0)
    assert both.sum() >= 10
    assert metrics.proximity_l1(l1)[both].mean() < metrics.proximity_l1(l2)[both].mean()


@pytest.mark.slow
def test_contexts_may_be_images() -> None:
    problem = cfopt.problems.TerrainShortestPath(3, 3, neighbours=4)
    torch.manual_seed(0)
    predictor = torch.nn.Sequential(
        torch.nn.Conv2d(2, 1, 1), torch.nn.Flatten(), torch.nn.Softplus()
    ).double()
    pipeline = cfopt.Pipeline(predictor, problem)
    x0 = normal(4, 2, 3, 3)
    wanted = problem.solve(normal(4, 9, seed=1).abs())
    e = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), search=cfopt.MDMM(step=0.3))
    assert e.x.shape == (4, 2, 3, 3)
    assert e.valid.all()
    one = cfopt.explain(x0[0], pipeline, cfopt.Relative(wanted[0]), search=cfopt.MDMM(step=0.3))
    assert torch.allclose(one.x[0], e.x[0], atol=1e-9)
    assert len(e.table()) > 0


def test_an_empty_selection_can_be_read_like_any_other(e: cfopt.Explanation) -> None:
    none = e[torch.zeros(len(e), dtype=torch.bool)]
    assert len(none) == 0
    assert none.valid.dtype == torch.bool
    assert none.table().empty
    assert none.to_dataframe().empty
    assert "0 contexts" in none.summary()
    back = cfopt.Explanation.from_json(none.to_json())
    _same(back, none)
    assert back.x.shape == (0, 4)


def test_the_index_of_a_dataframe_comes_back(grid: cfopt.Pipeline) -> None:
    search = cfopt.MDMM(max_steps=2)
    frame = pd.DataFrame(normal(3, 4).numpy(), columns=list("abcd"), index=[10, 20, 10])
    e = cfopt.explain(frame, grid, cfopt.Epsilon(0.1), search=search)
    table = e.to_dataframe()
    assert list(table.index) == [10, 20, 10]
    assert table["b before"].tolist() == frame["b"].tolist()
    one = cfopt.explain(frame.iloc[1], grid, cfopt.Epsilon(0.1), search=search)
    assert one.labels == (20,)
    assert cfopt.Explanation.from_json(e.to_json()).labels == (10, 20, 10)
    assert torch.equal(one.x0, e.x0[1:2])
    mixed = frame.assign(a=[True, False, True])
    assert cfopt.explain(mixed.iloc[0], grid, cfopt.Epsilon(0.1), search=search).x0[0, 0] == 1.0


def test_it_keeps_its_own_copy_of_the_alternative(grid: cfopt.Pipeline) -> None:
    wanted = grid.decide(normal(2, 4, seed=1))
    search = cfopt.MDMM(max_steps=2)
    e = cfopt.explain(normal(2, 4), grid, cfopt.Absolute(wanted), search=search)
    wanted.zero_()
    assert (e.alternative.sum(1) == 4).all()


def test_a_missed_margin_is_named_as_such(grid: cfopt.Pipeline) -> None:
    x0 = normal(2, 4)
    search = cfopt.MDMM(step=1e-6, max_steps=2)
    e = cfopt.explain(x0, grid, cfopt.Absolute(grid.decide(x0)), search=search, margin=0.9)
    assert set(e.status) == {"best effort"}
    assert "short of holding with a margin of 90%" in e.message[0]


def test_an_empty_knapsack_is_wrong_as_soon_as_an_item_is_worth_something() -> None:
    problem = cfopt.problems.Knapsack([[1.0, 1.0]], [1.0])
    same = torch.nn.Linear(2, 2, bias=False).double()
    same.load_state_dict({"weight": torch.eye(2)})
    x0 = torch.tensor([[-1.0, -2.0]], dtype=torch.float64)
    e = cfopt.explain(x0, cfopt.Pipeline(same, problem), cfopt.Epsilon(0.5))
    assert e.optimal.all()
    assert torch.equal(e.decision, torch.tensor([[1.0, 0.0]]).double())
    assert torch.allclose(e.x, torch.tensor([[0.0, -2.0]]).double(), atol=1e-6)


def test_a_decision_that_never_costs_anything_is_off_by_its_whole_value_at_the_most() -> None:
    problem = cfopt.problems.Knapsack([[1.0, 1.0]], [1.0])
    pipeline = cfopt.Pipeline(lambda x: 1.0 * x, problem)
    x0 = torch.tensor([[-1.0, -2.0]], dtype=torch.float64)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(1.5), search=SEARCH)
    assert e.status == ("rejected",)
    assert "Epsilon needs at most 1 here" in e.message[0]


def test_a_problem_may_say_its_sense_as_a_word() -> None:
    class Choice(cfopt.problems.Finite):
        def __init__(self) -> None:
            super().__init__(torch.eye(3))
            self.sense = "min"  # type: ignore[assignment]

    pipeline = cfopt.Pipeline(lambda x: 1.0 * x, Choice())
    x0 = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    e = cfopt.explain(x0, pipeline, cfopt.Relative([0.0, 1.0, 0.0]), search=cfopt.MDMM(step=0.1))
    assert e.status == ("valid",)
    assert torch.allclose(e.x, torch.tensor([[1.5, 1.5, 3.0]], dtype=torch.float64), atol=1e-4)


def test_inference_mode_is_no_obstacle(grid: cfopt.Pipeline) -> None:
    wanted = grid.decide(normal(2, 4, seed=1))
    expected = cfopt.explain(normal(2, 4), grid, cfopt.Relative(wanted), search=SEARCH)
    with torch.inference_mode():
        e = cfopt.explain(normal(2, 4), grid, cfopt.Relative(wanted), search=SEARCH)
    assert torch.equal(e.x, expected.x)


def test_a_predictor_is_read_off_once_and_an_answer_verified_once(
    grid: cfopt.Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, verified = AffineMap._by_probes, verify._verified
    done: list[str] = []

    def reading(*given):
        done.append("read")
        return read(*given)

    def verifying(*given):
        done.append("verified")
        return verified(*given)

    monkeypatch.setattr(AffineMap, "_by_probes", reading)
    monkeypatch.setattr(verify, "_verified", verifying)
    x0 = normal(1, 4)
    e = cfopt.explain(x0, grid, cfopt.Absolute(another(grid, x0)))
    assert e.optimal.all()
    assert e.radii is not None
    # The context itself, and the answer to it.
    assert sorted(done) == ["read", "verified", "verified"]


class CellBrightness(nn.Module):
    """A cell of one pixel costs as much as it is bright."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.1 + x.mean(1).flatten(1)


def test_a_summary_says_how_much_of_an_image_changes_rather_than_which_pixels() -> None:
    pipeline = cfopt.Pipeline(CellBrightness(), TerrainShortestPath(5, 5))
    x = torch.rand((1, 3, 5, 5), generator=torch.Generator().manual_seed(0))
    e = cfopt.explain(x, pipeline, cfopt.Absolute(pipeline.decide(x)), margin=0.2)
    change = (e.x - x).abs().amax(1)
    share = 4 * int((change > 0.05).sum())
    assert e.valid
    assert 0 < share < 100
    assert e.summary().splitlines()[-1] == (
        f"  {share}% of the pixels change by more than 5% of a colour's range, none by more than "
        f"{100 * float(change.max()):.3g}%"
    )
    bytes_like = cfopt.explain(
        255 * x, pipeline, cfopt.Absolute(pipeline.decide(255 * x)), margin=0.2
    )
    assert "%" not in bytes_like.summary().splitlines()[-1]
