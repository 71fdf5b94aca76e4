"""Several options of one row, against brute force over what they leave as it was."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from benchmarks.independent import is_feasible, nearest_l2
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.names import join_words
from cfopt.problems import GridShortestPath


@pytest.fixture(scope="module")
def pipeline() -> cfopt.Pipeline:
    problem = GridShortestPath(3, 3)
    return cfopt.Pipeline(random_linear(5, problem.num_costs, bias=4.0), problem)


def _changed(one: cfopt.Explanation) -> frozenset[int]:
    return frozenset((one.x[0] != one.x0[0]).nonzero().flatten().tolist())


def _main(one: cfopt.Explanation) -> frozenset[int]:
    """The fewest features that make up half of the squared distance."""
    parts = (one.x[0] - one.x0[0]).square()
    order = parts.argsort(descending=True, stable=True)
    for count in range(1, 6):
        if float(parts[order[:count]].sum()) >= 0.5 * float(parts.sum()):
            return frozenset(order[:count].tolist())
    raise AssertionError


def _nearest(pipeline, x0, criterion, proximity, earlier, most) -> float:
    """The least loss of an answer that leaves one of each earlier set as it was."""
    best = np.inf
    for left in product(*map(sorted, earlier)):
        features = cfopt.Features(immutable=sorted(set(left)), max_changes=most)
        e = cfopt.explain(x0, pipeline, criterion, proximity=proximity, features=features)
        best = min(best, float(e.loss[0]) if e.valid[0] else np.inf)
    return best


@pytest.mark.parametrize(
    ("proximity", "most"), [(cfopt.L2(), 2), (cfopt.L2(), None), (cfopt.L1(), None)]
)
def test_each_option_is_proved_to_be_the_nearest_that_spares_what_earlier_ones_changed(
    pipeline, proximity, most
) -> None:
    x0 = normal(3, 5)
    features = cfopt.Features(max_changes=most)
    for criterion in (cfopt.Absolute(another(pipeline, x0)), cfopt.Relative(another(pipeline, x0))):
        e = cfopt.explain(
            x0, pipeline, criterion, proximity=proximity, features=features, options=4
        )
        assert e.options is not None
        for row in range(3):
            options = e.options[row]
            assert options.valid.all()
            assert torch.equal(options.x[:1], e.x[row : row + 1])
            assert options.message[0] == e.message[row]
            assert len(options) >= 2
            earlier = []
            for k in range(len(options)):
                one = options[k]
                if k:
                    best = _nearest(
                        pipeline, x0[row : row + 1], one.criterion, proximity, earlier, most
                    )
                    assert float(one.loss[0]) == pytest.approx(best, rel=1e-6)
                assert one.optimal[0]
                assert not any(units <= _changed(one) for units in earlier)
                if k:  # each sentence is about its own option
                    left = sorted(frozenset.union(*earlier) - _changed(one))
                    named = join_words([f"x{j}" for j in left], most=4)
                    assert f"leaving {named} unchanged: " in one.message[0]
                sparse = most is not None or isinstance(proximity, cfopt.L1)
                earlier.append(_changed(one) if sparse else _main(one))
            if len(options) < 4:
                end = _nearest(pipeline, x0[row : row + 1], one.criterion, proximity, earlier, most)
                assert end == np.inf
                assert "no other option" in options.message[-1]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 1.5])
def test_in_each_option_of_epsilon_another_plan_takes_over_and_none_is_nearer(
    pipeline, epsilon
) -> None:
    """Beside every plan that did not take over before, with the earlier ones as rivals."""
    x0 = normal(4, 5, seed=3)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(epsilon), options=4)
    assert e.options is not None
    listed = pipeline.problem.decisions().numpy()
    weight = pipeline.predictor.weight.detach().numpy()
    for row in range(len(x0)):
        prices, factual = pipeline.costs(x0[row : row + 1])[0].detach().numpy(), e.factual[row]
        earlier: list[np.ndarray] = []
        options = e.options[row]
        assert len(options) == 4
        for k in range(4):
            found = {}
            for number, plan in enumerate(listed):
                if any((plan == one).all() for one in (*earlier, factual.numpy())):
                    continue
                some = [(1 + epsilon) * plan - factual.numpy(), *(plan - one for one in earlier)]
                rivals = listed if epsilon > 1 else plan[None]
                d = np.concatenate([some, (1 - epsilon) * rivals - factual.numpy()])
                g, h = d @ weight, -d @ prices
                moving = np.abs(g).sum(1) > 1e-12
                if (h[~moving] >= -1e-9).all() and is_feasible(g[moving], h[moving]):
                    found[number] = nearest_l2(g[moving], h[moving])
            best = min(found, key=found.__getitem__)
            assert options.optimal[k]
            assert float(options.loss[k]) == pytest.approx(found[best], rel=1e-5)
            earlier.append(listed[best])


def test_options_are_in_tables_json_rows_and_words(pipeline) -> None:
    x0 = normal(2, 5)
    features = cfopt.Features(["a", "b", "c", "d", "e"], max_changes=1)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.2), features=features, options=3)
    assert e.options is not None
    table = e.to_dataframe()
    assert table["option"].tolist() == [k + 1 for one in e.options for k in range(len(one))]
    again = cfopt.Explanation.from_json(e.to_json(), e.problem)
    assert again.options is not None
    assert torch.equal(again.options[1].x, e.options[1].x)
    assert again[1].options[0].message == e.options[1].message
    assert "Option 2, at distance" in e[0].summary()
    assert "options for 2 answered contexts" in e.summary()
    assert "another plan takes over" in e.options[0].message[1]
    with pytest.raises(cfopt.InputError, match="whole number >= 1 of options"):
        cfopt.explain(x0, pipeline, cfopt.Epsilon(0.2), options=0)


def test_options_of_each_row_are_its_part_of_all_of_them(pipeline) -> None:
    x0 = normal(6, 5)
    e = cfopt.explain(x0, pipeline, cfopt.Relative(another(pipeline, x0)), options=3)
    every, before = e.every_option(), 0
    for row, one in enumerate(e.options):
        part = every[slice(before, before + len(one))]
        before += len(one)
        assert torch.equal(one.x, part.x)
        assert torch.equal(one.x0, x0[[row] * len(one)])
        assert torch.equal(one.criterion.alternative, part.criterion.alternative)
        assert (one.message, one.status, one.radius_kind) == (
            part.message,
            part.status,
            part.radius_kind,
        )
        assert torch.equal(one.radius, part.radius)
        assert float(e.radius[row]) == float(one.radius[0])
        assert one.x.untyped_storage().nbytes() == one.x.nbytes  # it keeps no other row alive
    assert before == len(every) == 18


def test_a_predictor_is_read_anew_in_each_explanation() -> None:
    problem = GridShortestPath(3, 3)
    predictor, x0 = random_linear(5, problem.num_costs, bias=4.0), normal(4, 5)
    wanted = another(cfopt.Pipeline(predictor, problem), x0)
    cfopt.explain(x0, cfopt.Pipeline(predictor, problem), cfopt.Absolute(wanted), options=2)
    with torch.no_grad():
        predictor.weight.mul_(-2.0)
    e = cfopt.explain(x0, cfopt.Pipeline(predictor, problem), cfopt.Absolute(wanted), options=2)
    fresh = torch.nn.Linear(5, problem.num_costs).double()
    fresh.load_state_dict(predictor.state_dict())
    other = cfopt.explain(x0, cfopt.Pipeline(fresh, problem), cfopt.Absolute(wanted), options=2)
    assert torch.equal(e.every_option().x, other.every_option().x)
    assert e.valid.any()


def test_options_of_large_contexts_are_a_distance_apart() -> None:
    problem = GridShortestPath(3, 3)
    layer = random_linear(210, problem.num_costs)
    with torch.no_grad():
        layer.weight /= 15
        layer.bias += 1
    bent = cfopt.Pipeline(torch.nn.Sequential(layer, torch.nn.Softplus()), problem)
    x0 = normal(1, 210)
    wanted = cfopt.Relative(another(bent, x0))
    e = cfopt.explain(x0, bent, wanted, search=cfopt.Sequential(restarts=0), options=3)
    assert e.options is not None
    options = e.options[0]
    assert options.valid.all()
    assert len(options) == 3
    for first, second in ((0, 1), (0, 2), (1, 2)):
        apart = float((options.x[first] - options.x[second]).norm())
        assert apart >= 0.7 * float(options.distance[first])
