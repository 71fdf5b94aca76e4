"""Predictors, losses and training, with PyEPO's SPO+ as the independent answer."""

from __future__ import annotations

import numpy as np
import pyepo.func
import pytest
import torch
from pyepo.model.ort.knapsack import knapsackModel
from pyepo.model.ort.shortestpath import shortestPathModel
from tests.pipelines import normal
from torch import Tensor, nn
from torch.nn import functional

import cfopt
from cfopt.datasets import Terrain, synthetic
from cfopt.errors import InputError, SolverError
from cfopt.predictors import (
    MSE,
    CompactCNN,
    Loss,
    PartialResNet,
    SPOPlus,
    assess,
    fit,
    linear,
    mlp,
)
from cfopt.problems import Finite, GridShortestPath, Knapsack, PyEPOProblem

WEIGHTS = np.array([[3.0, 5.0, 4.0, 7.0, 2.0, 6.0], [4.0, 1.0, 6.0, 3.0, 5.0, 2.0]])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (GridShortestPath(4, 3), shortestPathModel((4, 3))),
        (Knapsack(WEIGHTS, [11, 9]), knapsackModel(WEIGHTS, [11, 9])),
    ],
)
def test_spo_plus_has_the_value_and_the_gradient_of_pyepo(ours, theirs) -> None:
    predicted = normal(16, ours.num_costs).requires_grad_()
    true = normal(16, ours.num_costs, seed=1)
    decisions = ours.solve(true)
    values = (true * decisions).sum(1, keepdim=True)
    loss = SPOPlus(ours)(predicted, true, decisions)
    (gradient,) = torch.autograd.grad(loss, predicted)
    other = pyepo.func.SPOPlus(theirs, processes=1)(predicted, true, decisions, values)
    (expected,) = torch.autograd.grad(other, predicted)
    assert loss.item() == pytest.approx(other.item(), rel=1e-6)
    assert torch.allclose(gradient, expected, atol=1e-9)
    assert loss > 0


def test_spo_plus_counts_fixed_costs_as_pyepo_does() -> None:
    from pyepo import EPO
    from pyepo.dsl import Minimize, Parameter, Problem, Variable

    y, cost = Variable(4, vtype=EPO.BINARY), Parameter(2)
    fixed = np.array([0.3, -0.2, 0.0, 0.5])
    model = Problem(Minimize(cost @ y[2:] + fixed @ y), [y.sum() == 2]).compile("ortools")
    ours = PyEPOProblem(model)
    predicted, true = normal(16, 2).requires_grad_(), normal(16, 2, seed=1)
    decisions = ours.solve(true)
    values = (ours.prices(true) * decisions).sum(1, keepdim=True)
    loss = SPOPlus(ours)(predicted, true, decisions)
    other = pyepo.func.SPOPlus(model, processes=1)(predicted, true, decisions, values)
    assert loss.item() == pytest.approx(other.item(), rel=1e-6)
    (gradient,) = torch.autograd.grad(loss, predicted)
    (expected,) = torch.autograd.grad(other, predicted)
    assert torch.allclose(gradient, expected, atol=1e-9)


@pytest.mark.parametrize("make", [lambda problem: SPOPlus(problem), lambda problem: MSE()])
def test_training_makes_better_decisions(make) -> None:
    data = synthetic.grid(400, features=5, rows=3, cols=3)
    torch.manual_seed(0)
    predictor = linear(5, data.problem.num_costs)
    pipeline = cfopt.Pipeline(predictor, data.problem)
    test = slice(300, 400)

    def regret() -> float:
        decisions = pipeline.decide(data.contexts[test])
        return float(
            cfopt.metrics.relative_regret(data.problem, decisions, data.costs[test]).mean()
        )

    before = regret()
    epochs = []
    history = fit(
        predictor,
        data.contexts[:300],
        data.costs[:300],
        make(data.problem),
        epochs=15,
        learning_rate=0.01,
        generator=torch.Generator().manual_seed(0),
        on_epoch=lambda epoch, loss: epochs.append((epoch, loss)),
    )
    assert epochs == list(enumerate(history, start=1))
    assert history[-1] < history[0]
    assert regret() < 0.5 * before


def test_training_is_repeatable() -> None:
    data = synthetic.knapsack(60, features=3, items=6)
    weights = []
    for _ in range(2):
        torch.manual_seed(1)
        predictor = mlp(3, 6, depth=2)
        generator = torch.Generator().manual_seed(2)
        fit(
            predictor,
            data.contexts,
            data.costs,
            SPOPlus(data.problem),
            epochs=2,
            generator=generator,
        )
        weights.append(predictor[0].weight.detach().clone())
    assert torch.equal(*weights)


@pytest.mark.parametrize(("depth", "layers"), [(1, 1), (2, 3), (5, 9)])
def test_the_network_has_the_papers_shape(depth: int, layers: int) -> None:
    network = mlp(10, 40, depth)
    assert len(network) == layers
    widths = [(part.in_features, part.out_features) for part in network[::2]]
    assert widths == [(10, 10)] * (depth - 1) + [(10, 40)]


def test_the_data_are_those_of_pyepo() -> None:
    data = synthetic.grid(20, features=4, rows=3, cols=2, degree=3, noise=0.25, seed=5)
    x, c = pyepo.data.shortestpath.genData(20, 4, (3, 2), deg=3, noise_width=0.25, seed=5)
    assert np.allclose(data.contexts, x, atol=1e-6)
    assert np.allclose(data.costs, c, atol=1e-6)
    assert isinstance(data.problem, GridShortestPath)


def test_the_papers_knapsack_has_few_feasible_sets() -> None:
    problem = synthetic.knapsack(1, features=5).problem
    assert len(problem.decisions()) == 871


def test_training_data_that_do_not_match_are_refused() -> None:
    for contexts, costs in ((3, 2), (0, 0)):
        with pytest.raises(InputError, match="as many contexts as costs"):
            fit(linear(2, 2), torch.zeros(contexts, 2), torch.zeros(costs, 2), MSE(), epochs=1)
    with pytest.raises(InputError, match="depth"):
        mlp(2, 2, depth=0)


def test_training_stops_where_the_solver_finds_no_optimum() -> None:
    unbounded = cfopt.problems.MILP([[1.0, 1.0]], 1, np.inf)
    with pytest.raises(SolverError, match="unbounded"):
        fit(linear(2, 2), -torch.ones(4, 2), torch.ones(4, 2), SPOPlus(unbounded), epochs=50)


#: Every tensor of the published network, by its name, and its shape.
PUBLISHED = {"conv1.weight": (64, 3, 7, 7), "conv2.weight": (1, 64, 1, 1)} | {
    f"block.{i}.conv{j}.weight": (64, 64, 3, 3) for i in (0, 1) for j in (1, 2)
}
for norm in ("bn", *(f"block.{i}.bn{j}" for i in (0, 1) for j in (1, 2))):
    for part in ("weight", "bias", "running_mean", "running_var"):
        PUBLISHED[f"{norm}.{part}"] = (64,)
    PUBLISHED[f"{norm}.num_batches_tracked"] = ()


def _published_weights() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    weights = {n: 0.1 * torch.randn(s, generator=generator) for n, s in PUBLISHED.items()}
    for name in weights:
        if name.endswith("running_var"):
            weights[name] = 1 + weights[name].abs()
        if name.endswith("num_batches_tracked"):
            weights[name] = torch.tensor(7)
    return weights


def _published_forward(x: Tensor, weights: dict[str, Tensor], rows: int, cols: int) -> Tensor:
    """The first layers of a ResNet-18, step by step."""

    def norm(h: Tensor, name: str) -> Tensor:
        mean, variance, scale, shift = (
            weights[f"{name}.{part}"][:, None, None]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (h - mean) / (variance + 1e-5).sqrt() * scale + shift

    h = norm(functional.conv2d(x, weights["conv1.weight"], stride=2, padding=3), "bn").relu()
    h = functional.max_pool2d(h, 3, 2, padding=1)
    for block in ("block.0", "block.1"):
        first = functional.conv2d(h, weights[f"{block}.conv1.weight"], padding=1)
        first = norm(first, f"{block}.bn1").relu()
        second = functional.conv2d(first, weights[f"{block}.conv2.weight"], padding=1)
        h = (norm(second, f"{block}.bn2") + h).relu()
    h = functional.pad(torch.einsum("bchw,c->bhw", h, weights["conv2.weight"].flatten()), [1] * 4)
    return functional.adaptive_max_pool2d(h, (rows, cols)).flatten(1)


@pytest.mark.parametrize(
    ("rows", "cols", "height", "width"), [(12, 12, 96, 96), (5, 7, 40, 56), (3, 4, 50, 61)]
)
def test_the_published_network_is_what_its_names_say(
    rows: int, cols: int, height: int, width: int
) -> None:
    network, weights = PartialResNet(rows, cols), _published_weights()
    assert {name: tuple(w.shape) for name, w in network.state_dict().items()} == PUBLISHED
    network.load_state_dict(weights)
    network.eval()
    x = torch.rand(2, 3, height, width, generator=torch.Generator().manual_seed(1))
    before = x.clone().requires_grad_()
    costs = network(before)
    assert torch.equal(before, x)  # in spite of activations in place
    assert costs.shape == (2, rows * cols)
    assert torch.allclose(costs, _published_forward(x, weights, rows, cols), atol=1e-4)
    (gradient,) = torch.autograd.grad(costs.sum(), before)
    assert (gradient != 0).flatten(1).any(1).all()


def test_the_gradient_of_the_published_network_is_that_of_finite_differences() -> None:
    network = PartialResNet(3, 3).double().eval()
    x, way = torch.rand(2, 1, 3, 24, 24, dtype=torch.float64)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(network(x).sum(), x)
    with torch.no_grad():
        slope = (network(x + 1e-7 * way).sum() - network(x - 1e-7 * way).sum()) / 2e-7
    assert float((gradient * way).sum()) == pytest.approx(float(slope), rel=1e-4)


def test_networks_can_be_built_anew_from_their_settings() -> None:
    for network in (PartialResNet(5, 7), CompactCNN(cell=12, width=20)):
        again = type(network)(**network.settings())
        again.load_state_dict(network.state_dict())
        x = torch.rand(1, 3, 60, 84)
        assert torch.equal(again.eval()(x), network.eval()(x))
    assert PartialResNet(5).settings() == {"rows": 5, "cols": 5}


@pytest.mark.parametrize(("cell", "rows", "cols"), [(8, 12, 12), (4, 3, 5), (12, 2, 3)])
def test_the_compact_network_gives_each_cell_a_positive_cost(
    cell: int, rows: int, cols: int
) -> None:
    torch.manual_seed(0)
    network = CompactCNN(cell, width=8)
    x = torch.rand(4, 3, rows * cell, cols * cell, requires_grad=True)
    costs = network(10 * x - 5)
    assert costs.shape == (4, rows * cols)
    assert (costs > 0).all()
    (gradient,) = torch.autograd.grad(costs.sum(), x)
    assert (gradient != 0).flatten(1).any(1).all()


def test_the_compact_network_lists_cells_row_by_row_and_sees_their_neighbourhood() -> None:
    torch.manual_seed(0)
    network = CompactCNN()
    plain = torch.full((1, 3, 56, 72), 0.5)
    dotted = plain.clone()
    dotted[:, :, 25:31, 33:39] = 1.0  # inside the cell (3, 4) of 7 x 9
    with torch.no_grad():
        changed = (network(dotted) - network(plain)).abs().reshape(7, 9) > 1e-7
    near = torch.zeros(7, 9, dtype=torch.bool)
    near[1:6, 2:7] = True
    assert torch.equal(changed, near)


@pytest.mark.parametrize("cell", [0, 2, 6, -4])
def test_cells_of_an_odd_size_are_refused(cell: int) -> None:
    with pytest.raises(InputError, match=r"4, 8, 12, \.\.\. pixels"):
        CompactCNN(cell)


def test_images_that_a_network_cannot_read_are_refused() -> None:
    for network in (CompactCNN(), PartialResNet()):
        with pytest.raises(InputError, match=r"permute\(0, 3, 1, 2\)"):
            network(torch.rand(2, 96, 96, 3))
        with pytest.raises(InputError, match=r"got \(2, 1, 96, 96\)\.$"):
            network(torch.rand(2, 1, 96, 96))
    with pytest.raises(InputError, match="multiples of 8"):
        CompactCNN()(torch.rand(2, 3, 96, 92))


def _line(slope: float) -> nn.Linear:
    """Costs `slope * x`, to be learnt from data of slope 1."""
    line = nn.Linear(1, 1, bias=False)
    nn.init.constant_(line.weight, slope)
    return line


def test_patience_ends_the_training_and_the_best_weights_come_back() -> None:
    """Trained towards slope 1 from 0 and judged by slope 0.3: on the way it is best near there."""
    line, x = _line(0.0), torch.linspace(-1, 1, 64)[:, None]
    seen = []
    history = fit(
        line,
        x,
        x,
        MSE(),
        epochs=100,
        learning_rate=0.05,
        batch_size=64,
        validation=(x, 0.3 * x),
        patience=3,
        on_epoch=lambda epoch, loss: seen.append((epoch, line.weight.item())),
    )
    best = int(np.argmin(history))
    assert len(history) == len(seen) == best + 1 + 3
    assert line.weight.item() == seen[best][1]
    assert line.weight.item() == pytest.approx(0.3, abs=0.05)
    assert history[best] == pytest.approx(((line(x) - 0.3 * x) ** 2).mean().item(), rel=1e-6)
    assert not line.training


def test_without_patience_all_epochs_are_run_and_the_best_weights_come_back() -> None:
    line, x = _line(0.0), torch.linspace(-1, 1, 64)[:, None]
    history = fit(line, x, x, MSE(), epochs=40, learning_rate=0.05, validation=(x, 0.3 * x))
    assert len(history) == 40
    assert ((line(x) - 0.3 * x) ** 2).mean().item() == pytest.approx(min(history), rel=1e-6)


def test_validation_judges_with_the_weights_as_deployed() -> None:
    """Dropout that drops everything in training costs nothing in validation."""
    predictor = nn.Sequential(_line(1.0), nn.Dropout(1.0))
    x = torch.ones(8, 1)
    assert fit(predictor, x, x, MSE(), epochs=1, learning_rate=0.0) == [1.0]
    assert fit(predictor, x, x, MSE(), epochs=1, learning_rate=0.0, validation=(x, x)) == [0.0]


def test_bytes_train_as_the_floats_that_they_stand_for() -> None:
    maps = Terrain(3, 3).generate(24)
    trained = []
    for x in (maps.images, maps.contexts()):
        torch.manual_seed(0)
        network = CompactCNN(width=8)
        order = torch.Generator().manual_seed(1)
        history = fit(
            network, x, maps.costs, MSE(), epochs=2, validation=(x, maps.costs), generator=order
        )
        pipeline = cfopt.Pipeline(network, maps.problem)
        trained.append((history, assess(pipeline, x, maps.costs)))
    assert trained[0] == trained[1]


def test_spo_plus_teaches_a_network_which_cell_is_the_cheapest() -> None:
    maps = Terrain(2, 3).generate(200, seed=3)
    torch.manual_seed(0)
    network, problem = CompactCNN(width=16), Finite(np.eye(6))
    pipeline = cfopt.Pipeline(network, problem)
    train, test = maps[:150], maps[150:]
    before = assess(pipeline, test.images, test.costs).regret
    order = torch.Generator().manual_seed(0)
    loss = SPOPlus(problem)
    fit(network, train.images, train.costs, loss, epochs=4, learning_rate=1e-2, generator=order)
    assert assess(pipeline, test.images, test.costs).regret < 0.3 * before


def test_an_assessment_is_what_a_hand_computes() -> None:
    """Two decisions: take the first cost or the second. Predicted (x, 2), true costs as listed."""
    problem = Finite([[1.0, 0.0], [0.0, 1.0]])
    pipeline = cfopt.Pipeline(lambda x: torch.cat([x, 0 * x + 2], dim=1), problem)
    x = torch.tensor([[1.0], [3.0], [1.0]], dtype=torch.float64)
    costs = torch.tensor([[1.0, 4.0], [2.0, 4.0], [5.0, 4.0]], dtype=torch.float64)
    quality = assess(pipeline, x, costs)
    # errors: (0, -2), (1, -2), (-4, -2); decisions: first, second, first; best: 1, 2, 4
    assert quality.cost_error == pytest.approx((0 + 4 + 1 + 4 + 16 + 4) / 6)
    assert quality.absolute_error == pytest.approx((0 + 2 + 1 + 2 + 4 + 2) / 6)
    assert quality.regret == pytest.approx((0 + (4 - 2) / 2 + (5 - 4) / 4) / 3)
    assert quality.optimal == pytest.approx(1 / 3)


def test_an_assessment_of_many_contexts_is_that_of_its_parts() -> None:
    data = synthetic.grid(600, features=3, rows=3, cols=3)
    torch.manual_seed(0)
    predictor = nn.Sequential(linear(3, data.problem.num_costs), nn.Dropout())
    pipeline = cfopt.Pipeline(predictor, data.problem)
    whole = assess(pipeline, data.contexts, data.costs)
    halves = [assess(pipeline, data.contexts[k::2], data.costs[k::2]) for k in (0, 1)]
    for name, value in vars(whole).items():
        assert value == pytest.approx(sum(getattr(half, name) for half in halves) / 2, rel=1e-5)
    assert predictor.training  # given back as it was


def test_validation_data_and_patience_that_make_no_sense_are_refused() -> None:
    x = torch.zeros(4, 2)

    def attempt(**more: object) -> None:
        fit(linear(2, 2), x, x, MSE(), epochs=1, **more)

    with pytest.raises(InputError, match="as many validation contexts as costs"):
        attempt(validation=(x, x[:2]))
    with pytest.raises(InputError, match=r"patience needs validation.*got 3 without validation"):
        attempt(patience=3)
    with pytest.raises(InputError, match=r"at least 1; got 0\."):
        attempt(patience=0, validation=(x, x))


@pytest.mark.parametrize("make", [lambda problem: SPOPlus(problem), lambda problem: MSE()])
def test_a_predictor_of_the_wrong_width_is_not_trained(make) -> None:
    """One column would be stretched to all of them, and learn nothing of use."""
    loss: Loss = make(Finite(np.eye(3)))
    with pytest.raises(InputError, match=r"costs of shape \(4, 3\).*got \(4, 1\)"):
        fit(linear(2, 1), torch.zeros(4, 2), torch.zeros(4, 3), loss, epochs=1)
