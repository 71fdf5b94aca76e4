"""Latent searches, with exact and feature-space searches as the independent answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.pipelines import normal
from torch import Tensor, nn

import cfopt
from cfopt import Absolute, Epsilon, Features, Latent, LogLikelihood, Relative, Sphere, Status
from cfopt.engine.latent import LatentSpace
from cfopt.errors import InputError
from cfopt.generative import PCA
from cfopt.problems import GridShortestPath
from cfopt.question.plausibility import mean_norm
from cfopt.search import MDMM, CuttingPlane, LatentReference, LatentSequential
from cfopt.search.trust_region.evaluator import Evaluator
from cfopt.search.trust_region.jacobian import slopes
from cfopt.search.trust_region.surrogate import Surrogate


class Identity(nn.Module):
    """Codes that are the contexts themselves."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.latent_dim = size

    def encode(self, x: Tensor) -> Tensor:
        return x.clone()

    def decode(self, z: Tensor) -> Tensor:
        return z.clone()


class Squash(Identity):
    """Contexts within (-2, 2), as a curved function of codes."""

    def encode(self, x: Tensor) -> Tensor:
        return torch.atanh(x.clamp(-1.99, 1.99) / 2)

    def decode(self, z: Tensor) -> Tensor:
        return 2 * torch.tanh(z)


@pytest.fixture(scope="module")
def pipeline() -> cfopt.Pipeline:
    torch.manual_seed(0)
    problem = GridShortestPath(4, 4)
    layer = nn.Linear(6, problem.num_costs).double()
    return cfopt.Pipeline(layer, problem)


@pytest.fixture(scope="module")
def curved() -> cfopt.Pipeline:
    torch.manual_seed(1)
    problem = GridShortestPath(4, 4)
    layers = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, problem.num_costs)).double()
    return cfopt.Pipeline(layers, problem)


X0 = normal(10, 6, seed=3)
DATA = normal(400, 6, seed=4) @ torch.diag(torch.tensor([2.0, 1.5, 1, 1, 0.7, 0.5]).double())


def _alternatives(pipeline: cfopt.Pipeline) -> Tensor:
    return pipeline.decide(normal(10, 6, seed=5))


@pytest.mark.parametrize("kind", ["relative", "absolute", "epsilon"])
def test_mdmm_among_codes_that_are_contexts_goes_the_way_of_mdmm_among_contexts(curved, kind):
    questions = {
        "relative": Relative(_alternatives(curved)),
        "absolute": Absolute(_alternatives(curved)),
        "epsilon": Epsilon(0.2),
    }
    search = MDMM(max_steps=300, trace=True)
    plain = cfopt.explain(X0, curved, questions[kind], search=search)
    latent = cfopt.explain(X0, curved, questions[kind], generative=Identity(6), search=search)
    assert latent.status == plain.status
    assert torch.allclose(latent.x, plain.x, atol=1e-10)
    assert torch.allclose(latent.z, latent.x)
    for ours, theirs in zip(latent.traces, plain.traces, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-9)


def test_with_an_affine_decoder_the_sequential_search_finds_the_exact_optimum(pipeline):
    criterion = Absolute(_alternatives(pipeline))
    exact = cfopt.explain(X0, pipeline, criterion, search=CuttingPlane())
    pca = PCA.fit(DATA, latent_dim=6)
    found = cfopt.explain(
        X0, pipeline, criterion, generative=pca, search=LatentSequential(restarts=0)
    )
    settled = [s is Status.VALID for s in exact.status]
    assert sum(settled) >= 5
    for row in np.flatnonzero(settled).tolist():
        assert found.status[row] is Status.VALID
        # A hair inside the boundary, on purpose.
        assert found.loss[row].item() == pytest.approx(exact.loss[row].item(), rel=5e-3)
        assert found.loss[row] >= exact.bound[row] - 1e-6


def test_codes_proximity_and_plausibility_add_up_to_the_loss(curved):
    criterion = Absolute(_alternatives(curved))
    z0 = Squash(6).encode(X0)
    for plausibility in (None, Sphere(0.3), LogLikelihood(0.3)):
        for proximity in (cfopt.L2(), Latent(cfopt.L2())):
            e = cfopt.explain(
                X0,
                curved,
                criterion,
                generative=Squash(6),
                proximity=proximity,
                plausibility=plausibility,
                search=LatentSequential(restarts=0),
            )
            assert e.valid.sum() >= 4
            rows = e.valid & (e.steps > 0)
            near = (e.x - X0) if isinstance(proximity, cfopt.L2) else (e.z - z0)
            expected = near.square().sum(1)
            if isinstance(plausibility, Sphere):
                expected = expected + 0.3 * (e.z.norm(dim=1) - mean_norm(6)).square()
            if isinstance(plausibility, LogLikelihood):
                expected = expected + 0.3 * e.z.square().sum(1)
            assert torch.allclose(e.loss[rows], expected[rows], rtol=1e-6)
            assert torch.allclose(e.x[rows], Squash(6).decode(e.z[rows]))


@pytest.mark.long
@pytest.mark.parametrize("question", ["relative", "absolute", "epsilon"])
def test_the_sequential_search_finds_more_than_mdmm_and_seldom_farther(curved, question):
    x0, wanted = normal(40, 6, seed=11), curved.decide(normal(40, 6, seed=12))
    criterion = {
        "relative": Relative(wanted),
        "absolute": Absolute(wanted),
        "epsilon": Epsilon(0.3),
    }[question]
    options = {"generative": Squash(6), "plausibility": Sphere(0.5)}
    ours = cfopt.explain(
        x0, curved, criterion, search=LatentSequential(samples=32, starts=2), **options
    )
    mdmm = cfopt.explain(x0, curved, criterion, search=MDMM(max_steps=1500), **options)
    assert ours.valid.sum() >= 36 > mdmm.valid.sum()
    both = ours.valid & mdmm.valid & (mdmm.steps > 0)
    ratio = ours.loss[both] / mdmm.loss[both]
    assert both.sum() >= 3
    assert ratio.median() <= 1.001
    assert (ratio > 1.01).sum() <= 0.2 * both.sum()


def test_a_stronger_sphere_draws_codes_nearer_to_it(curved):
    criterion = Absolute(_alternatives(curved))
    away = []
    for beta in (0.0, 1.0, 10.0):
        e = cfopt.explain(X0, curved, criterion, generative=Squash(6), plausibility=Sphere(beta))
        away.append((e.z[e.valid].norm(dim=1) - mean_norm(6)).abs().mean())
    assert away[2] < away[1] < away[0]


def test_it_is_said_where_the_model_alone_moves_the_decision(pipeline):
    pca = PCA.fit(DATA, latent_dim=2)
    e = cfopt.explain(X0, pipeline, Epsilon(0.05), generative=pca)
    before, after = pipeline.decide(X0), pipeline.decide(pca.decode(pca.encode(X0)))
    moved = (before != after).any(1)
    assert moved.any()
    assert (e.reconstruction_moved == moved).all()
    assert torch.equal(e.latent.decision, after)
    assert torch.allclose(e.latent.costs, pipeline.costs(pca.decode(pca.encode(X0))))
    for row in moved.nonzero().flatten().tolist():
        if e.status[row] in (Status.VALID, Status.BEST_EFFORT):
            assert "generative model alone" in e.message[row]
    for row in (~moved).nonzero().flatten().tolist():
        assert "generative model alone" not in e.message[row]
    assert moved.sum() > 1
    assert f"In {int(moved.sum())} contexts, what the generative model alone" in e.summary()
    if not moved.all():
        assert "generative model alone" not in e[~moved].summary()


def test_membership_of_the_thickened_sphere_is_the_norms(curved):
    e = cfopt.explain(X0, curved, Epsilon(0.2), generative=Squash(6))
    norm = e.z.norm(dim=1)
    assert torch.equal(e.in_sphere(0.5), (norm - mean_norm(6)).abs() <= 0.5)
    frame = e.to_dataframe()
    assert frame["norm of code"].tolist() == pytest.approx(norm.tolist())
    assert frame["in sphere"].tolist() == e.in_sphere().tolist()


def test_an_explanation_among_contexts_has_no_codes(curved):
    e = cfopt.explain(X0, curved, Epsilon(0.2), search=MDMM(max_steps=5))
    assert e.z is None
    with pytest.raises(InputError, match="generative"):
        e.in_sphere()


def test_codes_survive_json_and_selection(curved):
    e = cfopt.explain(X0, curved, Epsilon(0.2), generative=Squash(6))
    again = cfopt.Explanation.from_json(e.to_json())
    for name in ("z0", "z", "reconstruction", "decision", "costs"):
        assert torch.allclose(getattr(again.latent, name), getattr(e.latent, name))
    assert torch.equal(e[[3, 1]].z, e.z[[3, 1]])


def test_contexts_outside_of_their_bounds_are_never_called_valid(pipeline):
    criterion = Absolute(_alternatives(pipeline))
    free = cfopt.explain(X0, pipeline, criterion, generative=Identity(6))
    # Bounds that some of the free answers leave.
    low, high = X0.amin(0), X0.amax(0)
    features = Features(lower=low.tolist(), upper=high.tolist())
    outside = ((free.x < low - 1e-6) | (free.x > high + 1e-6)).any(1)
    assert (outside & free.valid).any()
    held = cfopt.explain(X0, pipeline, criterion, generative=Identity(6), features=features)
    exact = cfopt.explain(X0, pipeline, criterion, features=features)
    inside = ((held.x >= low - 1e-5) & (held.x <= high + 1e-5)).all(1)
    assert inside[held.valid].all()
    assert held.valid.sum() >= (free.valid & ~outside).sum()
    rows = held.valid & exact.valid
    assert (held.loss[rows] >= exact.loss[rows] * (1 - 1e-6)).all()


def test_a_reconstruction_that_is_not_allowed_does_not_end_the_search(curved):
    class Shifted(Identity):
        def encode(self, x: Tensor) -> Tensor:
            return x + 3.0  # far outside of the bounds

    features = Features(upper=X0.max().item() + 0.5)
    e = cfopt.explain(X0, curved, Epsilon(0.1), generative=Shifted(6), features=features)
    assert (e.steps[e.valid.logical_not()] > 0).all()
    assert e.valid.any()


@pytest.mark.parametrize(
    "features",
    [
        Features(immutable=[0]),
        Features(integer=[1]),
        Features(one_hot=[[0, 1]]),
        Features(only_increase=[2]),
        Features(lower={0: 0.5}, upper={0: 0.5}),
    ],
)
def test_limits_that_no_code_keeps_are_refused(curved, features):
    x = X0.clone()
    x[:, 1] = x[:, 1].round()
    with pytest.raises(InputError, match="latent search cannot keep"):
        cfopt.explain(x, curved, Epsilon(0.2), generative=Identity(6), features=features)


def test_references_answer_what_the_search_left_open(curved):
    others = normal(10, 6, seed=5)
    criterion = Absolute(curved.decide(others))
    weak = LatentSequential(max_steps=1, restarts=0)
    alone = cfopt.explain(X0, curved, criterion, generative=Squash(6), search=weak)
    known = cfopt.explain(
        X0, curved, criterion, generative=Squash(6), search=weak, reference=others
    )
    assert alone.valid.sum() < known.valid.sum() == 10
    assert any("latent reference" in method for method in known.method)


def test_from_a_distant_reference_the_loss_comes_down_to_that_found_from_home(curved):
    others = normal(10, 6, seed=5)
    criterion = Absolute(curved.decide(others))
    home = cfopt.explain(X0, curved, criterion, generative=Squash(6))
    donor = cfopt.explain(
        X0, curved, criterion, generative=Squash(6), search=LatentReference(others)
    )
    both = home.valid & donor.valid & (home.steps > 0)
    assert both.sum() >= 5
    start = (others - X0).square().sum(1)
    assert donor.loss[both].mean() < 0.5 * start[both].mean()
    assert donor.loss[both].median() <= 1.2 * home.loss[both].median()


def test_a_code_search_needs_a_model(curved):
    for options in ({"plausibility": Sphere(1.0)}, {"proximity": Latent(cfopt.L2())}):
        with pytest.raises(InputError, match="generative"):
            cfopt.explain(X0, curved, Epsilon(0.2), **options)
    with pytest.raises(InputError, match="plausibility such as"):
        cfopt.explain(X0, curved, Epsilon(0.2), generative=Squash(6), plausibility="sphere")
    with pytest.raises(InputError, match="encode"):
        cfopt.explain(X0, curved, Epsilon(0.2), generative=nn.Linear(6, 6))
    with pytest.raises(InputError, match="codes are searched"):
        cfopt.explain(X0, curved, Epsilon(0.2), generative=Squash(6), search=CuttingPlane())


def test_a_row_whose_code_is_not_finite_is_rejected_and_the_others_go_on(curved):
    class Fragile(Squash):
        def encode(self, x: Tensor) -> Tensor:
            return torch.where(x[:, :1] > 50, torch.nan, super().encode(x))

    x = X0.clone()
    x[2, 0] = 100.0
    e = cfopt.explain(x, curved, Epsilon(0.2), generative=Fragile(6))
    assert e.status[2] is Status.REJECTED
    assert "not finite" in e.message[2]
    assert sum(s is Status.REJECTED for s in e.status) == 1


def test_the_models_are_given_back_as_they_were(curved):
    model = Squash(6).train()
    cfopt.explain(X0, curved, Epsilon(0.2), generative=model)
    assert model.training


def test_rows_alone_find_what_they_find_in_a_batch(curved):
    criterion = Absolute(_alternatives(curved))
    options = {"generative": Squash(6), "plausibility": Sphere(0.5)}
    batch = cfopt.explain(X0, curved, criterion, **options)
    for row in range(3):
        one = Absolute(criterion.alternative[row : row + 1])
        alone = cfopt.explain(X0[row : row + 1], curved, one, **options)
        assert alone.status[0] is batch.status[row]
        assert torch.allclose(alone.x[0], batch.x[row], atol=1e-5)


def test_epsilon_is_met_from_home_near_the_exact_optimum():
    torch.manual_seed(0)
    problem = GridShortestPath(4, 4)
    layer = nn.Linear(6, problem.num_costs).double()
    with torch.no_grad():
        layer.bias += 2.0
    pipeline, x0 = cfopt.Pipeline(layer, problem), normal(20, 6, seed=3)
    exact = cfopt.explain(x0, pipeline, Epsilon(0.2))
    assert exact.optimal.all()
    search = LatentSequential(radius=0.5, restarts=0)
    e = cfopt.explain(x0, pipeline, Epsilon(0.2), generative=Identity(6), search=search)
    assert e.valid.sum() >= 18
    ratio = e.loss[e.valid] / exact.loss[e.valid]
    assert (ratio > 1 - 1e-6).all()
    assert ratio.median() < 1.1


@pytest.mark.parametrize("margin", [0.0, 0.05])
@pytest.mark.parametrize("kind", ["relative", "absolute", "epsilon", "large epsilon"])
def test_maximisers_and_margins_are_served(knapsack, kind, margin):
    x0 = normal(8, 3, seed=21)
    wanted = knapsack.decide(normal(8, 3, seed=22))
    criterion = {
        "relative": Relative(wanted),
        "absolute": Absolute(wanted),
        "epsilon": Epsilon(0.3),
        "large epsilon": Epsilon(1.5),
    }[kind]
    e = cfopt.explain(x0, knapsack, criterion, generative=Identity(3), margin=margin)
    exact = cfopt.explain(x0, knapsack, criterion, margin=margin)
    assert not (e.valid & torch.tensor([s is Status.PROVED_INFEASIBLE for s in exact.status])).any()
    both = e.valid & exact.valid
    assert both.sum() >= 4
    assert (e.loss[both] >= exact.loss[both] * (1 - 1e-6) - 1e-12).all()


def test_l1_is_served_among_codes(curved):
    criterion = Absolute(_alternatives(curved))
    for proximity in (cfopt.L1(), Latent(cfopt.L1())):
        e = cfopt.explain(X0, curved, criterion, generative=Squash(6), proximity=proximity)
        assert e.valid.sum() >= 9
        rows = e.valid & (e.steps > 0)
        z0 = Squash(6).encode(X0)
        near = (e.x - X0) if isinstance(proximity, cfopt.L1) else (e.z - z0)
        assert torch.allclose(e.loss[rows], near.abs().sum(1)[rows])
        search = MDMM(max_steps=600)
        slow = cfopt.explain(
            X0, curved, criterion, generative=Squash(6), proximity=proximity, search=search
        )
        both = rows & slow.valid
        assert e.valid.sum() >= slow.valid.sum()
        assert e.loss[both].sum() <= 1.3 * slow.loss[both].sum()


def test_references_of_contexts_and_of_codes_are_told_apart(curved):
    from cfopt.search import Reference

    others = normal(10, 6, seed=5)
    criterion = Absolute(curved.decide(others))
    with pytest.raises(InputError, match="use LatentReference"):
        cfopt.explain(X0, curved, criterion, generative=Squash(6), search=Reference(others))
    with pytest.raises(InputError, match="use Reference"):
        cfopt.explain(X0, curved, criterion, search=LatentReference(others))


def test_a_single_bad_row_is_rejected_also_with_scaled_codes(curved):
    bad = X0[:1].clone()
    bad[0, 0] = torch.nan
    proximity = Latent(cfopt.L2(scale=[1.0] * 6))
    e = cfopt.explain(bad, curved, Epsilon(0.2), generative=Squash(6), proximity=proximity)
    assert e.status == (Status.REJECTED,)
    assert e.z.shape == (1, 6)
    assert not e.reconstruction_moved.any()


def test_a_model_whose_rows_depend_on_each_other_is_refused(curved):
    class Mixing(Squash):
        def decode(self, z: Tensor) -> Tensor:
            return super().decode(z) + 0.2 * z.mean(0)

    with pytest.raises(InputError, match="for a row alone"):
        cfopt.explain(X0, curved, Epsilon(0.2), generative=Mixing(6))


def test_a_plain_class_with_the_three_attributes_serves(curved):
    class Plain:
        latent_dim = 6

        def encode(self, x: Tensor) -> Tensor:
            return x / 2

        def decode(self, z: Tensor) -> Tensor:
            return 2 * z

    e = cfopt.explain(X0, curved, Absolute(_alternatives(curved)), generative=Plain())
    assert e.valid.sum() >= 8
    assert torch.allclose(2 * e.z, e.x)


def test_progress_is_told_before_the_first_climb_and_ends_at_0(curved):
    seen = []
    cfopt.explain(X0, curved, Epsilon(0.2), generative=Squash(6), on_progress=seen.append)
    assert seen[0].running == seen[0].total
    assert seen[0].finished is None
    assert seen[-1].running == 0


@pytest.mark.parametrize("search", [None, MDMM(step=0.05, max_steps=120)])
def test_reports_tell_where_rows_are_by_the_numbers_of_the_caller(curved, search):
    x0 = X0.clone()
    x0[0] = torch.nan  # rejected, so that the search numbers its rows otherwise
    seen = []
    e = cfopt.explain(
        x0,
        curved,
        Absolute(_alternatives(curved)),
        generative=Squash(6),
        search=search,
        on_progress=seen.append,
    )
    last = {}
    for moving in (report.moving for report in seen if report.moving is not None):
        assert moving.at.shape == (len(moving.rows), 6)
        last |= {int(row): z for row, z in zip(moving.rows, moving.at, strict=True)}
    searched = {row for row in range(len(X0)) if e.steps[row] > 0}
    assert last
    assert last.keys() <= searched - {0}
    # Each one moves about its own code, not about another's.
    codes = Squash(6).encode(X0)
    own = sum(int((codes - z).norm(dim=1).argmin() == row) for row, z in last.items())
    assert own > 0.7 * len(last)
    finished = [int(row) for p in seen if p.finished is not None for row in p.finished.rows]
    assert sorted(finished) == sorted(searched)


def test_the_searches_among_contexts_and_among_codes_name_each_other(curved):
    search = cfopt.Sequential()
    with pytest.raises(InputError, match=r"use LatentSequential\(\)"):
        cfopt.explain(X0, curved, Epsilon(0.2), generative=Squash(6), search=search)
    with pytest.raises(InputError, match=r"use Sequential\(\)"):
        cfopt.explain(X0, curved, Epsilon(0.2), search=LatentSequential())


def _task(pipeline, latent: LatentSpace) -> cfopt.Task:
    """Absolute questions, to be searched among codes."""
    factual = pipeline.decide(X0)
    criterion = Absolute(_alternatives(pipeline)).bind(len(X0), factual)
    rules = cfopt.Rules(pipeline.problem, factual, criterion)
    return cfopt.Task(rules, cfopt.Space(X0, cfopt.L2(), latent=latent), pipeline.predictor)


def test_a_refreshed_surrogate_has_the_true_slopes_of_its_cuts_and_is_nearer_to_the_truth(curved):
    latent = LatentSpace(Squash(6), Squash(6).encode(X0), Sphere(1.0))
    task = _task(curved, latent)
    rows, z = np.arange(len(X0)), latent.codes + 0.3
    evaluator = Evaluator(task)
    model, looks = Surrogate(evaluator), evaluator.passes.copy()
    model.measure(rows, latent.codes)
    before = model.state.jacobian.copy()
    cuts = normal(len(X0), 3, curved.problem.num_costs, seed=6).numpy()
    model.refresh(rows, z, cuts)
    truth = torch.func.vmap(torch.func.jacrev(lambda code: curved.predictor(2 * code.tanh())))(z)
    truth = truth.detach().numpy()
    assert np.allclose(cuts @ model.state.jacobian, cuts @ truth)
    after = np.square(model.state.jacobian - truth).sum((1, 2))
    assert (after < np.square(before - truth).sum((1, 2))).all()
    # 6 entries and the code itself; then forward, three cuts, and the loss.
    assert (evaluator.passes - looks == 7 + 5).all()


class Undecided(Squash):
    """Says how undecided it is: the squares of what it shows."""

    def ambiguity(self, z):
        return self.decode(z).square()


def test_what_a_model_is_more_undecided_about_than_before_counts_against_codes():
    model = Undecided(6)
    codes = model.encode(X0)
    undecided = model.ambiguity(codes)
    latent = LatentSpace(model, codes, Sphere(3.0), undecided=undecided)
    assert torch.equal(latent.penalty(codes)[0], Sphere(3.0)(codes))
    z = codes + 0.2 * normal(*codes.shape, seed=4)
    value, slope = latent.penalty(z)
    more = np.maximum(4 * np.tanh(z.numpy()) ** 2 - undecided.numpy(), 0).sum(1)
    assert (more > 0).any()
    assert np.allclose(value - Sphere(3.0)(z), more)
    assert torch.equal(latent.implausibility(z), value)
    # The slope by central differences.
    for j in range(6):
        step = 1e-6 * torch.eye(6, dtype=z.dtype)[j]
        rise = latent.penalty(z + step)[0] - latent.penalty(z - step)[0]
        assert torch.allclose(slope[:, j], rise / 2e-6, atol=1e-5)
    few = replace(latent, base=codes, moving=torch.tensor([[4, 1]]).expand(len(X0), 2))
    wide = codes.clone()
    wide[:, [4, 1]] = z[:, [4, 1]]
    value, slope = latent.penalty(wide)
    assert torch.allclose(few.penalty(z[:, [4, 1]])[0], value)
    assert torch.allclose(few.implausibility(z[:, [4, 1]]), value)
    assert torch.allclose(few.penalty(z[:, [4, 1]])[1], slope[:, [4, 1]])


def test_the_slope_of_the_loss_contains_what_a_model_is_more_undecided_about(curved):
    """In one pass with the slopes of prices, against central differences of the whole loss."""
    model = Undecided(6)
    codes = model.encode(X0)
    latent = LatentSpace(model, codes, Sphere(3.0), undecided=model.ambiguity(codes))
    task = _task(curved, latent)
    z = task.space.home + 0.2 * normal(*task.space.home.shape, seed=4)
    x, more = task.space.shown(z)
    assert more is not None
    assert (more > 0).any()
    assert torch.allclose(task.space.loss_at(z, x, more), task.space.loss(z))
    assert torch.allclose(task.look(z).loss, task.space.loss(z))
    none = torch.zeros((len(z), 0, curved.problem.num_costs), dtype=z.dtype)
    _, slope, _ = slopes(task, z, none)
    for j in range(z.shape[1]):
        step = 1e-6 * torch.eye(z.shape[1], dtype=z.dtype)[j]
        rise = task.space.loss(z + step) - task.space.loss(z - step)
        assert np.allclose(slope[:, j], rise / 2e-6, atol=1e-4)


def test_answers_are_less_ambiguous_where_the_model_says_what_is(curved):
    wanted = Absolute(_alternatives(curved))
    found = [
        cfopt.explain(X0, curved, wanted, generative=model, plausibility=Sphere(0.0))
        for model in (Squash(6), Undecided(6))
    ]
    both = found[0].valid & found[1].valid
    assert both.sum() >= 3
    before, after = (e.x[both].square() - X0[both].square() for e in found)
    assert after.clamp(min=0).sum() < 0.8 * before.clamp(min=0).sum()


def test_a_polish_costs_passes_and_never_makes_an_answer_farther(curved):
    wanted = Absolute(_alternatives(curved))
    rough, polished = (
        cfopt.explain(
            X0, curved, wanted, generative=Squash(6), search=LatentSequential(polishes=count)
        )
        for count in (0, 1)
    )
    assert torch.equal(rough.valid, polished.valid)
    found = rough.valid & (rough.steps > 0)
    assert found.any()
    assert (polished.loss[found] <= rough.loss[found]).all()
    assert (polished.passes[found] > rough.passes[found]).all()
