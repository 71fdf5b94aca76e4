"""ReLU networks: proofs against brute force over all activation patterns, and no other claims."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.independent import nearest_l1, nearest_l2, nearest_linf
from tests.pipelines import another, normal
from torch import Tensor, nn

import cfopt
from cfopt.exact.certificate import Cut
from cfopt.exact.geometry import Largest, Taxicab
from cfopt.exact.relu import Division, ReluListProof, ReluProof, ReluTask
from cfopt.exact.relu.region import Plane, Region
from cfopt.exact.verify import recheck
from cfopt.problems import Finite
from cfopt.question.quantifier import Quantifier
from cfopt.result.status import Status
from cfopt.testing import SearchContract
from cfopt.testing.search_cases import Watched

_DECISIONS = normal(6, 5, seed=11)
#: After a search that gives up soon.
_CERTIFY = cfopt.Certify(cfopt.Sequential(restarts=1, starts=2))


def _network(*widths: int, features: int = 3, seed: int = 0) -> nn.Sequential:
    """A network with random weights and five costs, in float64."""
    generator = torch.Generator().manual_seed(seed)
    modules: list[nn.Module] = []
    sizes = [features, *widths, _DECISIONS.shape[1]]
    for before, after in itertools.pairwise(sizes):
        layer = nn.Linear(before, after).double()
        with torch.no_grad():
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator))
            layer.bias.copy_(torch.randn(layer.bias.shape, generator=generator))
        modules += [layer, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def _pipeline(*widths: int, features: int = 3, seed: int = 0) -> cfopt.Pipeline:
    return cfopt.Pipeline(_network(*widths, features=features, seed=seed), Finite(_DECISIONS))


def _least(
    pipeline: cfopt.Pipeline,
    x0: Tensor,
    directions: np.ndarray,
    nearest: Callable[[np.ndarray, np.ndarray], float] = nearest_l2,
    lower: float = -np.inf,
    upper: float = np.inf,
) -> float:
    """The least loss with `<costs, d> <= 0` for all directions: a program for each pattern."""
    layers = [m for m in pipeline.predictor if isinstance(m, nn.Linear)]  # type: ignore[union-attr]
    weights = [layer.weight.detach().numpy() for layer in layers]
    biases = [layer.bias.detach().numpy() for layer in layers]
    hidden = sum(len(bias) for bias in biases[:-1])
    size, origin, best = x0.numel(), x0.numpy(), np.inf
    for pattern in itertools.product((0.0, 1.0), repeat=hidden):
        matrix, constant, g, h = np.eye(size), origin, [], []
        flags = iter(pattern)
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            z, shift = weight @ matrix, weight @ constant + bias
            on = np.array([next(flags) for _ in bias])
            sign = 1 - 2 * on  # z <= 0 where it is off, -z <= 0 where it is on
            g.append(sign[:, None] * z)
            h.append(-sign * shift)
            matrix, constant = on[:, None] * z, on * shift
        theta, shift = weights[-1] @ matrix, weights[-1] @ constant + biases[-1]
        g.append(directions @ theta)
        h.append(-directions @ shift)
        eye = np.eye(size)
        if np.isfinite(upper):
            g += [eye, -eye]
            h += [upper - origin, origin - lower]
        rows, limits = np.concatenate(g), np.concatenate(h)
        kept = np.abs(rows).sum(1) > 1e-12
        if (limits[~kept] < 0).any():
            continue
        best = min(best, nearest(rows[kept], limits[kept]))
    return best


def _asked(pipeline: cfopt.Pipeline, rows: int) -> tuple[Tensor, Tensor]:
    """Contexts, and for each a decision that is not its own, but that of another context."""
    x0 = normal(rows, 3, seed=1)
    return x0, another(pipeline, x0)


def _any_other(pipeline: cfopt.Pipeline, x0: Tensor) -> Tensor:
    """Decisions that are not those of their contexts, and perhaps of none."""
    others = [_DECISIONS.roll(-k, 0) for k in range(len(x0))]
    factual = pipeline.decide(x0)
    return torch.stack(
        [next(y for y in ys if (y != own).any()) for ys, own in zip(others, factual, strict=True)]
    )


@pytest.mark.parametrize("widths", [(4,), (3, 3), (6,)])
@pytest.mark.parametrize("kind", [cfopt.Absolute, cfopt.Relative])
def test_the_nearest_explanation_is_that_of_all_activation_patterns(widths, kind) -> None:
    pipeline = _pipeline(*widths, seed=len(widths))
    x0, wanted = _asked(pipeline, 6)
    e = cfopt.explain(x0, pipeline, kind(wanted), search=_CERTIFY)
    proved = 0
    for row in range(len(x0)):
        others = _DECISIONS if kind is cfopt.Absolute else e.factual[row : row + 1]
        least = _least(pipeline, x0[row], (wanted[row] - others).numpy())
        assert float(e.bound[row]) <= least * (1 + 1e-6)
        if least < np.inf and e.status[row] is not Status.ALREADY_VALID:
            assert e.optimal[row], e.message[row]
            assert float(e.loss[row]) == pytest.approx(least, rel=1e-5)
            proved += 1
    assert proved >= 3


@pytest.mark.parametrize(
    ("proximity", "nearest"), [(cfopt.L1(), nearest_l1), (cfopt.LInf(), nearest_linf)]
)
def test_other_norms_are_proved_as_well(proximity, nearest) -> None:
    pipeline = _pipeline(4, seed=1)
    x0, wanted = _asked(pipeline, 5)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), proximity=proximity)
    proved = 0
    for row in range(len(x0)):
        least = _least(pipeline, x0[row], (wanted[row] - _DECISIONS).numpy(), nearest)
        assert float(e.bound[row]) <= least * (1 + 1e-6)
        if least < np.inf and e.status[row] is not Status.ALREADY_VALID:
            assert float(e.bound[row]) == pytest.approx(least, rel=1e-5)
            proved += 1
    assert proved


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize(("norm", "nearest"), [(Taxicab(), nearest_l1), (Largest(), nearest_linf)])
def test_a_plane_bounds_changes_as_a_linear_program_does(norm, nearest, seed) -> None:
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 7))
    slope = random.normal(size=size) * random.integers(0, 2, size)
    level = float(random.uniform(0, 2))
    lower, upper = -random.exponential(0.6, size), random.exponential(0.6, size)
    eye = np.eye(size)
    lower[random.uniform(size=size) < 0.3] = -np.inf
    upper[random.uniform(size=size) < 0.3] = np.inf
    bounded = np.concatenate([eye[np.isfinite(upper)], -eye[np.isfinite(lower)]])
    ends = np.concatenate([upper[np.isfinite(upper)], -lower[np.isfinite(lower)]])
    least = nearest(np.concatenate([slope[None], bounded]), np.append(-level, ends))
    found = Region(lower, upper, 1e3, norm).bound(Plane(slope, level))
    assert found == pytest.approx(least, rel=1e-6) if least < 1e3 else found >= 1e3 - 1e-6


def test_within_limits_it_is_proved_that_there_is_an_explanation_or_none() -> None:
    outcomes = set()
    for seed in range(4):
        pipeline = _pipeline(4, seed=seed)
        x0 = normal(5, 3, seed=1).clamp(-0.9, 0.9)
        wanted = _any_other(pipeline, x0)
        features = cfopt.Features(lower=-1.0, upper=1.0)
        e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), features=features, search=_CERTIFY)
        for row in range(len(x0)):
            directions = (wanted[row] - _DECISIONS).numpy()
            least = _least(pipeline, x0[row], directions, lower=-1.0, upper=1.0)
            outcomes.add(e.status[row])
            if least == np.inf:
                assert e.status[row] is Status.PROVED_INFEASIBLE, e.message[row]
                assert e.clash[row] is not None
            else:
                assert e.valid[row]
                assert float(e.loss[row]) == pytest.approx(least, rel=1e-5, abs=1e-9)
                assert e.optimal[row]
    assert {Status.VALID, Status.PROVED_INFEASIBLE} <= outcomes


def test_whole_numbers_and_one_hot_groups_are_those_of_all_contexts() -> None:
    network = _network(5, features=5, seed=3)
    pipeline = cfopt.Pipeline(network, Finite(_DECISIONS))
    features = cfopt.Features(
        lower=[-3, -3, 0, 0, 0], upper=[3, 3, 1, 1, 1], integer=[0, 1], one_hot=[[2, 3, 4]]
    )
    numbers = itertools.product(range(-3, 4), range(-3, 4))
    everywhere = torch.tensor(
        [[a, b, *unit] for a, b in numbers for unit in np.eye(3)], dtype=torch.float64
    )
    decided = pipeline.decide(everywhere)
    x0 = everywhere[::29][:5]
    factual = pipeline.decide(x0)
    for wanted in _DECISIONS:
        e = cfopt.explain(
            x0,
            pipeline,
            cfopt.Absolute(wanted.expand(len(x0), -1)),
            features=features,
            search=_CERTIFY,
        )
        fits = (decided == wanted).all(1)
        for row, own in enumerate(factual):
            if (own == wanted).all():
                continue
            if not fits.any():
                assert e.status[row] is Status.PROVED_INFEASIBLE
                continue
            least = float((everywhere[fits] - x0[row]).square().sum(1).min())
            assert float(e.loss[row]) == pytest.approx(least)
            assert e.optimal[row]


def test_a_better_context_than_the_search_found_becomes_the_answer() -> None:
    pipeline = _pipeline(6, seed=2)
    x0, wanted = _asked(pipeline, 6)
    known = normal(300, 3, seed=9) * 3
    poor = cfopt.search.Reference(known)
    first = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=poor)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=cfopt.Certify(poor))
    assert (e.loss <= first.loss + 1e-12)[first.valid].all()
    assert (e.loss < 0.99 * first.loss)[first.valid].any()
    nearer = [row for row in range(len(x0)) if e.method[row].endswith("then branch and cut")]
    assert nearer


def test_stopped_at_once_what_is_proved_still_holds() -> None:
    pipeline = _pipeline(4, seed=1)
    x0, wanted = _asked(pipeline, 5)
    search = cfopt.Certify(seconds=1e-9)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=search)
    for row in range(len(x0)):
        least = _least(pipeline, x0[row], (wanted[row] - _DECISIONS).numpy())
        assert float(e.bound[row]) <= least * (1 + 1e-6)


def test_what_the_first_search_has_proved_in_part_is_proved_to_the_end() -> None:
    pipeline = _pipeline(8, 8, seed=3)
    x0, wanted = _asked(pipeline, 8)
    briefly = cfopt.Certify(cfopt.Sequential(), max_cases=1)
    part, whole = (
        cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=search)
        for search in (briefly, cfopt.Certify(briefly))
    )
    assert not part.optimal[part.valid].all()
    assert whole.optimal[whole.valid].all()
    assert (whole.bound.nan_to_num(0.0) >= part.bound.nan_to_num(0.0)).all()


def _proofs(
    pipeline: cfopt.Pipeline, x0: Tensor, wanted: Tensor
) -> tuple[cfopt.Task, list[ReluProof]]:
    watched = Watched(_CERTIFY)
    cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=watched)
    assert watched.task is not None
    points = cfopt.Points.gather(watched.claims)
    proofs = [proof for proof in points.certificates if isinstance(proof, ReluProof)]
    assert len(proofs) == len(points)
    return watched.task, proofs


def test_tampered_certificates_never_prove_more_than_is_true() -> None:
    pipeline = _pipeline(6, seed=2)
    x0, wanted = _asked(pipeline, 6)
    task, proofs = _proofs(pipeline, x0, wanted)
    rng = np.random.default_rng(0)
    honest = recheck(task, proofs).bound
    weaker = 0
    for row, proof in enumerate(proofs):
        alternative = task.rules.criterion.alternative[row]
        directions = (alternative - _DECISIONS).numpy()
        least = _least(pipeline, task.space.origin[row], directions)
        assert float(honest[row]) <= least * (1 + 1e-6)

        def noisy(array: np.ndarray) -> np.ndarray:
            return array * rng.normal(1.0, 2.0, array.shape) + rng.normal(0, 0.1, array.shape)

        def shaken(node, noisy=noisy):
            steps = tuple(
                replace(
                    step,
                    cuts=noisy(step.cuts),
                    slopes=tuple(map(noisy, step.slopes)),
                    sides=tuple(map(noisy, step.sides)),
                )
                for step in node.steps
            )
            return replace(node, steps=steps)

        nodes = proof.nodes
        missing = Cut(alternative.numpy() * 3, Quantifier.EVERY)
        forged = [
            replace(proof, nodes=tuple(map(shaken, nodes))),
            replace(proof, nodes=nodes[:1]),
            replace(proof, nodes=nodes[: len(nodes) // 2]),
            replace(proof, nodes=nodes[1:]),
            replace(proof, nodes=tuple(replace(node, parent=0) for node in nodes)),
            replace(proof, nodes=(replace(nodes[0], division=Division(0)), *nodes[1:])),
            replace(proof, nodes=tuple(replace(node, steps=()) for node in nodes)),
            replace(proof, nodes=(replace(nodes[0], radius=100 * nodes[0].radius), *nodes[1:])),
            replace(proof, cuts=(missing, *proof.cuts[1:])),
            replace(proof, infeasible=True),
        ]
        for other in forged:
            bound = float(recheck(task[torch.tensor([row])], [other]).bound[0])
            assert not bound > least * (1 + 1e-6)
            weaker += not bound > 0.9 * float(honest[row])
    assert weaker


def test_any_multipliers_bound_the_network_from_below() -> None:
    """By sampling: every explanation within the radius is beyond every plane."""
    from cfopt.exact.relu.proof import State
    from cfopt.exact.relu.relaxation import Multipliers, combined

    pipeline = _pipeline(4, 4, seed=4)
    x0, wanted = _asked(pipeline, 3)
    task, proofs = _proofs(pipeline, x0, wanted)
    model = ReluTask(task)
    rng = np.random.default_rng(1)
    checked = 0
    for row, proof in enumerate(proofs):
        network, radius = model.network(row), 6.0
        state = State.root(network, model.region(row, radius))
        known = model.inequalities(row, proof.cuts)
        u = rng.normal(size=(4000, 3)) * 3
        u = u[(u**2).sum(1) <= radius**2]
        prices = np.stack([network.prices(one) for one in u])
        holds = u[(prices @ known.directions.T <= 0).all(1)]
        for _ in range(20):
            multipliers = Multipliers(
                rng.random(len(known.directions)),
                np.zeros(0),
                tuple(rng.random(n) for n in network.widths),
                tuple(0.1 * rng.normal(size=n) for n in network.widths),
            )
            plane = combined(network, state.intervals, known, multipliers)
            assert (holds @ plane.slope + plane.level <= 1e-9).all()
            narrower = state.beyond(network, plane)
            checked += len(holds)
            if not len(holds):
                continue
            assert narrower.bound <= (holds**2).sum(1).min()
            for one in holds[:50]:
                for z, low, high in zip(
                    network.neurons(one),
                    narrower.intervals.lower,
                    narrower.intervals.upper,
                    strict=True,
                ):
                    assert (z >= low - 1e-9).all()
                    assert (z <= high + 1e-9).all()
    assert checked


class _Other(nn.ReLU):
    """A subclass may do anything."""


@pytest.mark.parametrize("module", [nn.Tanh(), _Other(), nn.LeakyReLU()])
def test_networks_with_other_modules_are_refused(module) -> None:
    network = nn.Sequential(nn.Linear(3, 4), module, nn.Linear(4, 5)).double()
    pipeline = cfopt.Pipeline(network, Finite(_DECISIONS))
    x0, wanted = normal(2, 3), _DECISIONS[:2]
    with pytest.raises(cfopt.InputError, match="not known to be a ReLU network"):
        cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=_CERTIFY)


@pytest.mark.parametrize("widths", [(4,), (3, 3)])
def test_the_nearest_epsilon_explanation_is_that_of_all_decisions_and_patterns(widths) -> None:
    """`v + eps |v| <= <theta, y0>` for the least v of all decisions, one after the other."""
    pipeline, epsilon = _pipeline(*widths, seed=len(widths)), 0.3
    x0 = normal(5, 3, seed=1)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(epsilon), search=_CERTIFY)
    proved = 0
    for row in range(len(x0)):
        own = e.factual[row].numpy()
        least = min(
            _least(pipeline, x0[row], np.stack([(1 + s * epsilon) * y - own for s in (1, -1)]))
            for y in _DECISIONS.numpy()
        )
        assert float(e.bound[row]) <= least * (1 + 1e-6)
        if least < np.inf and e.status[row] is not Status.ALREADY_VALID:
            assert e.optimal[row], e.message[row]
            assert float(e.loss[row]) == pytest.approx(least, rel=1e-5)
            proved += 1
    assert proved >= 3


def test_that_no_epsilon_explanation_is_within_limits_is_proved_for_every_decision() -> None:
    pipeline, reach = _pipeline(4, seed=1), 0.1
    x0, features = normal(6, 3, seed=1), cfopt.Features(lower=-0.1, upper=0.1)
    x0 = x0.clamp(-reach, reach)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.5), features=features, search=_CERTIFY)
    outcomes = set()
    for row in range(len(x0)):
        own = e.factual[row].numpy()
        least = min(
            _least(
                pipeline,
                x0[row],
                np.stack([(1 + s * 0.5) * y - own for s in (1, -1)]),
                lower=-reach,
                upper=reach,
            )
            for y in _DECISIONS.numpy()
        )
        if least == np.inf:
            assert e.status[row] == "proved infeasible", e.message[row]
        else:
            assert e.status[row].is_valid
        outcomes.add(least == np.inf)
    assert outcomes == {True, False}


def test_a_list_proof_without_all_of_its_decisions_proves_nothing() -> None:
    pipeline, asked = _pipeline(4, seed=1), cfopt.Epsilon(0.3)
    watched = Watched(_CERTIFY)
    cfopt.explain(normal(3, 3, seed=1), pipeline, asked, search=watched)
    assert watched.task is not None
    certificates = cfopt.Points.gather(watched.claims).certificates
    assert (recheck(watched.task, certificates).bound > 0).all()
    for kept in (slice(1, None), slice(None, -1), slice(None, None, -1)):
        fewer = [
            replace(proof, branches=proof.branches[kept])
            for proof in certificates
            if isinstance(proof, ReluListProof)
        ]
        assert len(fewer) == len(watched.task)
        assert not (recheck(watched.task, fewer).bound > 0).any()


def test_an_epsilon_question_about_decisions_that_are_not_listed_is_refused() -> None:
    every = _DECISIONS.numpy()
    pipeline = cfopt.Pipeline(
        _network(4), cfopt.problems.Oracle(lambda c: every[(every @ c).argmin()], 5)
    )
    with pytest.raises(cfopt.InputError, match=r"some decision.*more than 1000 or cannot be"):
        cfopt.explain(normal(2, 3), pipeline, cfopt.Epsilon(0.1), search=_CERTIFY)
    with pytest.raises(cfopt.InputError, match="some decision and for every one"):
        cfopt.explain(normal(2, 3), _pipeline(4), cfopt.Epsilon(1.5), search=_CERTIFY)


def test_nested_chains_and_norms_in_float32_are_read_as_they_are() -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(4)
    norm(torch.randn(50, 4))
    inner = nn.Sequential(nn.Linear(3, 4), norm, nn.ReLU(), nn.Dropout())
    network = nn.Sequential(
        inner, nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 5)
    ).eval()
    pipeline = cfopt.Pipeline(network, Finite(_DECISIONS))
    x0, wanted = normal(2, 3).float(), _DECISIONS[:2]
    watched = Watched(_CERTIFY)
    cfopt.explain(x0, pipeline, cfopt.Relative(wanted), search=watched)
    assert watched.task is not None
    model = ReluTask(watched.task)
    change = normal(3, seed=5).numpy()
    for row, origin in enumerate(watched.task.space.origin.double()):
        there = torch.from_numpy(origin.numpy() + change)[None].float()
        expected = network(there)[0].detach().double() @ torch.eye(5).double()
        assert np.allclose(model.network(row).prices(change), expected.numpy(), atol=1e-5)


@pytest.mark.long
class TestCertify(SearchContract):
    def search(self) -> cfopt.search.Search:
        return cfopt.Certify(cfopt.Sequential(), seconds=600.0)
