"""Edits against every set of edits, and against the pixels that they may change."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.pipelines import normal
from torch import Tensor, nn

import cfopt
from cfopt.errors import InputError
from cfopt.problems import GridShortestPath, TerrainShortestPath
from cfopt.search import Edits, Vocabulary


class Brightness(nn.Module):
    """A cell costs as much as it is bright: 4 x 4 cells of 4 pixels."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.1 + nn.functional.avg_pool2d(x, 4).mean(1).flatten(1)


@pytest.fixture(scope="module")
def maps() -> tuple[cfopt.Pipeline, Tensor]:
    generator = torch.Generator().manual_seed(0)
    cells = torch.rand((30, 1, 4, 4), generator=generator).expand(-1, 3, -1, -1)
    images = cells.repeat_interleave(4, 2).repeat_interleave(4, 3).contiguous()
    return cfopt.Pipeline(Brightness(), TerrainShortestPath(4, 4)), images


@pytest.mark.parametrize("kind", ["absolute", "relative", "epsilon"])
def test_maps_are_answered_by_whole_cells_of_known_maps(
    maps: tuple[cfopt.Pipeline, Tensor], kind: str
) -> None:
    pipeline, x = maps
    wanted = pipeline.decide(x[6:10])
    asked = {
        "absolute": cfopt.Absolute(wanted),
        "relative": cfopt.Relative(wanted),
        "epsilon": cfopt.Epsilon(0.2),
    }[kind]
    e = cfopt.explain(x[:4], pipeline, asked, search=Edits(blend=0), reference=x[10:])
    assert e.valid.all()
    known = Vocabulary.of_cells(x[10:], 4, 4, 8).contexts
    for row in range(4):
        before, after = (part[row].reshape(3, 4, 4, 4, 4) for part in (e.x0, e.x))
        for i, j in itertools.product(range(4), range(4)):
            cell = after[:, i, :, j]
            sources = [before[:, i, :, j], *known.reshape(-1, 3, 4, 4, 4, 4)[:, :, i, :, j]]
            assert any(torch.equal(cell, source) for source in sources)


def test_blended_borders_change_no_pixel_further_away(
    maps: tuple[cfopt.Pipeline, Tensor],
) -> None:
    pipeline, x = maps
    wanted = pipeline.decide(x[6:10])
    e = cfopt.explain(
        x[:4], pipeline, cfopt.Relative(wanted), search=Edits(blend=2), reference=x[10:]
    )
    assert e.valid.all()
    asked = [row for row in range(4) if e.steps[row] > 0]
    assert asked
    for row in asked:
        moved = ((e.x - e.x0)[row].abs().amax(0) > 1e-7).reshape(4, 4, 4, 4)
        named = e.method[row].removeprefix("edits: ").replace(" and ", ", ").split(", ")
        names = pipeline.problem.scene().names
        inner = moved[:, 1:3, :, 1:3].any(3).any(1).flatten()
        assert {names[k] for k in inner.nonzero().flatten().tolist()} == set(named)


def test_no_smaller_set_of_values_seen_is_enough_behind_an_affine_predictor() -> None:
    torch.manual_seed(3)
    problem = GridShortestPath(3, 3)
    pipeline = cfopt.Pipeline(nn.Linear(4, problem.num_costs).double(), problem)
    x, known = normal(12, 4, seed=4), normal(40, 4, seed=5)
    search = Edits(kinds=3)
    e = cfopt.explain(x[:6], pipeline, cfopt.Epsilon(0.2), search=search, reference=known)
    values = Vocabulary.of_values(known, torch.arange(4).numpy(), 3).contexts
    for row in range(6):
        choices = itertools.product(*([(x[row, j], *values[:, j]) for j in range(4)]))
        every = torch.tensor([[float(v) for v in one] for one in choices], dtype=torch.float64)
        costs = pipeline.predict(every).detach()
        best = problem.solve(costs)
        v = (costs * best).sum(1)
        ok = v + 0.2 * v.abs() <= (costs * e.factual[row]).sum(1)
        edits = (every != x[row]).sum(1)
        fewest = int(edits[ok].min()) if ok.any() else None
        assert bool(e.valid[row]) == (fewest is not None)
        if fewest is not None:
            assert int((e.x[row] != x[row]).sum()) <= fewest + 1
            assert all(
                float(e.x[row, j]) in {float(x[row, j]), *map(float, values[:, j])}
                for j in range(4)
            )


@pytest.mark.parametrize("kind", ["absolute", "relative", "epsilon", "far epsilon"])
def test_what_is_proved_about_fewer_edits_holds_for_every_set_of_edits(kind: str) -> None:
    torch.manual_seed(3)
    problem = GridShortestPath(3, 3)
    pipeline = cfopt.Pipeline(nn.Linear(5, problem.num_costs).double(), problem)
    x, known = normal(12, 5, seed=4), 0.7 * normal(40, 5, seed=5)
    wanted = problem.solve(normal(12, problem.num_costs, seed=6))
    asked = {
        "absolute": cfopt.Absolute(wanted),
        "relative": cfopt.Relative(wanted),
        "epsilon": cfopt.Epsilon(0.8),
        "far epsilon": cfopt.Epsilon(1.4),
    }[kind]
    e = cfopt.explain(x, pipeline, asked, search=Edits(kinds=2), reference=known)
    values = Vocabulary.of_values(known, torch.arange(5).numpy(), 2).contexts
    proved = {"fewest": 0, "none": 0}
    for row in range(12):
        choices = itertools.product(*([(x[row, j], *values[:, j]) for j in range(5)]))
        every = torch.tensor([[float(v) for v in one] for one in choices], dtype=torch.float64)
        costs = pipeline.predict(every).detach()
        v = (costs * problem.solve(costs)).sum(1)
        mine = (costs * wanted[row]).sum(1)
        ok = {
            "absolute": mine <= v + 1e-9,
            "relative": mine <= (costs * e.factual[row]).sum(1),
            "epsilon": v + 0.8 * v.abs() <= (costs * e.factual[row]).sum(1),
            "far epsilon": v + 1.4 * v.abs() <= (costs * e.factual[row]).sum(1),
        }[kind]
        edits = (every != x[row]).sum(1)
        fewest = int(edits[ok].min()) if ok.any() else None
        if "which is proved" in e.message[row]:
            assert fewest is None
            proved["none"] += 1
        elif "; no fewer are enough" in e.method[row]:
            assert int((e.x[row] != x[row]).sum()) == fewest
            proved["fewest"] += 1
        elif "; at least " in e.method[row]:
            assert fewest is not None
            assert int(e.method[row].split("at least ")[1].split()[0]) <= fewest
    assert proved["fewest"] >= 9


def test_that_no_edits_are_enough_is_proved_and_true() -> None:
    torch.manual_seed(3)
    problem = GridShortestPath(3, 3)
    pipeline = cfopt.Pipeline(nn.Linear(4, problem.num_costs).double(), problem)
    x, known = normal(12, 4, seed=4), 0.4 * normal(40, 4, seed=5)
    wanted = cfopt.Relative(problem.solve(normal(12, problem.num_costs, seed=6)))
    values = Vocabulary.of_values(known, torch.arange(4).numpy(), 2).contexts
    refused = []
    for most in (1, 4):
        features = cfopt.Features([*"abcd"], max_changes=most)
        e = cfopt.explain(
            x, pipeline, wanted, search=Edits(kinds=2), reference=known, features=features
        )
        for row in range(12):
            choices = itertools.product(*([(x[row, j], *values[:, j]) for j in range(4)]))
            every = torch.tensor([[float(v) for v in one] for one in choices], dtype=torch.float64)
            costs = pipeline.predict(every).detach()
            better = (costs * (e.alternative[row] - e.factual[row])).sum(1) <= 0
            enough = bool((better & ((every != x[row]).sum(1) <= most)).any())
            assert bool(e.valid[row]) == enough
            assert ("which is proved" in e.message[row]) == (not enough)
        refused.append(int((~e.valid).sum()))
    assert refused[0] > refused[1] > 0


def test_nothing_is_proved_of_edits_behind_a_network_or_with_blended_borders(
    maps: tuple[cfopt.Pipeline, Tensor],
) -> None:
    pipeline, x = maps
    declared = cfopt.Pipeline(cfopt.Affine(Brightness()), pipeline.problem)
    wanted = cfopt.Relative(pipeline.decide(x[6:10]))
    for one, search, says in (
        (pipeline, Edits(blend=0), False),
        (declared, Edits(blend=2), False),
        (declared, Edits(blend=0), True),
    ):
        e = cfopt.explain(x[:4], one, wanted, search=search, reference=x[10:])
        assert any(";" in words for words in e.method) == says


def test_columns_that_must_not_change_are_left_alone() -> None:
    torch.manual_seed(3)
    problem = GridShortestPath(3, 3)
    pipeline = cfopt.Pipeline(nn.Linear(4, problem.num_costs).double(), problem)
    x, known = normal(6, 4, seed=4), normal(40, 4, seed=5)
    features = cfopt.Features(["a", "b", "c", "d"], immutable=["a"], max_changes=2)
    e = cfopt.explain(
        x, pipeline, cfopt.Epsilon(0.1), search=Edits(), reference=known, features=features
    )
    assert e.valid.any()
    assert torch.equal(e.x[:, 0], x[:, 0])
    assert ((e.x != x).sum(1) <= 2).all()


def test_given_kinds_are_named(maps: tuple[cfopt.Pipeline, Tensor]) -> None:
    pipeline, x = maps
    flat = torch.stack([torch.full((3, 16, 16), 0.0), torch.full((3, 16, 16), 1.0)])
    search = Edits(Vocabulary(flat, ("road", "rock")), blend=0)
    e = cfopt.explain(x[:4], pipeline, cfopt.Absolute(pipeline.decide(x[6:10])), search=search)
    assert e.valid.all()
    assert any("road" in words or "rock" in words for words in e.method)


def test_what_is_missing_is_said(maps: tuple[cfopt.Pipeline, Tensor]) -> None:
    pipeline, x = maps
    with pytest.raises(InputError, match=r"known contexts: pass reference=\.\.\."):
        cfopt.explain(x[:1], pipeline, cfopt.Epsilon(0.1), search=Edits())
    with pytest.raises(InputError, match="a name for each of 2 kinds, got 1"):
        Vocabulary(torch.zeros(2, 3), ("one",))


def test_prices_that_cancel_prove_nothing_that_rounding_refutes() -> None:
    """Each edit alone is lost in rounding; both together are enough."""

    def costs(x: Tensor) -> Tensor:
        return torch.stack([torch.ones_like(x[:, 0]), ((x[:, 1] + x[:, 2]) + x[:, 0]) - 1e5], 1)

    problem = cfopt.problems.Finite(torch.eye(2))
    pipeline = cfopt.Pipeline(cfopt.Affine(costs), problem)
    x = torch.tensor([[100001.0078125, 0.0, 0.0]])
    known = torch.tensor([[100001.0078125, -0.0029, -0.0029]]).repeat(3, 1)
    both = torch.tensor([[100001.0078125, -0.0029, -0.0029]])
    assert costs(both)[0, 1] <= 1 < costs(x)[0, 1]
    wanted = cfopt.Relative(torch.tensor([[0.0, 1.0]]))
    e = cfopt.explain(x, pipeline, wanted, search=Edits(), reference=known)
    assert "proved" not in e.message[0]
    assert "needed" not in e.method[0]


def test_a_declared_predictor_that_is_not_affine_is_refused() -> None:
    def costs(x: Tensor) -> Tensor:
        return torch.stack([0.5 + 0 * x[:, 0], 1 - x[:, 0] * x[:, 1]], 1)

    pipeline = cfopt.Pipeline(cfopt.Affine(costs), cfopt.problems.Finite(torch.eye(2)))
    x, known = torch.full((1, 2), 0.2), torch.ones((3, 2))
    wanted = cfopt.Relative(torch.tensor([[0.0, 1.0]]))
    with pytest.raises(InputError, match="declared to be affine"):
        cfopt.explain(x, pipeline, wanted, search=Edits(), reference=known)


def test_an_edit_that_is_not_needed_is_taken_back_though_it_makes_nothing_nearer() -> None:
    """The first column alone is just enough; by the largest change the second one costs nothing."""
    linear = nn.Linear(2, 2).double()
    linear.weight.data.copy_(torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
    linear.bias.data.copy_(torch.tensor([1.0, 0.49999]))
    pipeline = cfopt.Pipeline(linear, cfopt.problems.Finite(torch.eye(2)))
    x, known = torch.tensor([[1.0, 0.5]]).double(), torch.tensor([[0.0, 0.4]]).double()
    wanted = cfopt.Relative(torch.tensor([[0.0, 1.0]]))
    e = cfopt.explain(x, pipeline, wanted, search=Edits(), reference=known, proximity=cfopt.LInf())
    assert e.valid.all()
    assert e.x.tolist() == [[0.0, 0.5]]
    assert "and" not in e.method[0].split(";")[0]


def test_a_known_value_that_rounding_puts_outside_of_a_bound_is_no_less_an_edit() -> None:
    problem = cfopt.problems.Finite(torch.eye(2))
    linear = nn.Linear(1, 2).double()
    linear.weight.data.copy_(torch.tensor([[0.0], [1.0]]))
    linear.bias.data.copy_(torch.tensor([0.5, 0.0]))
    x, known = torch.ones((1, 1)).double(), torch.full((3, 1), -1e-9).double()
    wanted = cfopt.Relative(torch.tensor([[0.0, 1.0]]))
    e = cfopt.explain(
        x,
        cfopt.Pipeline(linear, problem),
        wanted,
        search=Edits(),
        reference=known,
        features=cfopt.Features(["a"], lower=0.0),
    )
    assert e.valid.all()
    assert torch.equal(e.x, known[:1])


def test_known_contexts_of_which_none_is_finite_are_refused() -> None:
    problem = GridShortestPath(3, 3)
    pipeline = cfopt.Pipeline(nn.Linear(4, problem.num_costs).double(), problem)
    wanted = cfopt.Relative(problem.solve(normal(12, problem.num_costs, seed=6)))
    known = torch.full((3, 4), torch.nan).double()
    with pytest.raises(InputError, match="none of the known contexts is finite"):
        cfopt.explain(normal(12, 4, seed=1), pipeline, wanted, search=Edits(), reference=known)


def test_answers_that_have_to_stand_up_to_something_are_refused(
    maps: tuple[cfopt.Pipeline, Tensor],
) -> None:
    pipeline, x = maps
    wanted, ball = cfopt.Relative(pipeline.decide(x[6:8])), cfopt.Ball(0.05)
    with pytest.raises(InputError, match="leave out robust"):
        cfopt.explain(x[:2], pipeline, wanted, search=Edits(), reference=x[10:], robust=ball)
