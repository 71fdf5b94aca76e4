"""Answers where the data are: against scikit-learn's scores, and every point of a fine grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.neighbors import LocalOutlierFactor
from tests.commands import cf, results
from tests.pipelines import normal
from torch import Tensor

import cfopt
from cfopt.errors import InputError
from cfopt.problems import Finite
from cfopt.report.plausible import plausibility, rating
from cfopt.result.status import Status


def ring(count: int = 200) -> Tensor:
    """Contexts on an open ring: straight ways between them leave the data."""
    angle = 4.5 * torch.linspace(0, 1, count, dtype=torch.float64)
    return 2 * torch.stack([angle.cos(), angle.sin()], 1) + 0.15 * normal(count, 2)


KNOWN = ring()
SCALES = KNOWN.std(0, correction=0).tolist()
FEATURES = cfopt.Features(scale=SCALES)
ROWS = KNOWN[[3, 60, 110, 170, 195]]
WANTED = torch.tensor([0.0, 1.0, 0.0]).double()
#: Fewer points than by default: two features are few.
MANY = cfopt.DerivativeFree(evaluations=800)
AUTO = cfopt.Auto(derivative_free=MANY)
CHOICE = Finite(torch.eye(3, dtype=torch.float64))


def linear() -> cfopt.Pipeline:
    layer = torch.nn.Linear(2, 3).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.3], [-1.0, 0.5], [0.0, -1.0]]))
        layer.bias.copy_(torch.tensor([3.0, 3.2, 3.1]))
    return cfopt.Pipeline(layer, CHOICE)


def forest() -> cfopt.Pipeline:
    costs = linear().costs(KNOWN).detach().numpy()
    model = RandomForestRegressor(10, max_depth=4, random_state=0, n_jobs=1)
    return cfopt.Pipeline(model.fit(KNOWN.numpy(), costs), CHOICE)


def scikit(known: Tensor, neighbours: int = 20) -> tuple[LocalOutlierFactor, np.ndarray]:
    unit = known.numpy().std(axis=0)
    model = LocalOutlierFactor(neighbours, novelty=True, contamination=0.05)
    return model.fit(known.numpy() / unit), unit


@pytest.mark.parametrize("neighbours", [3, 20])
def test_factors_and_limit_are_those_of_scikit_learn(neighbours: int) -> None:
    known = torch.cat([normal(80, 4), 5 + 3 * normal(40, 4, seed=1)]) * torch.tensor([1, 9, 3, 0.1])
    own = cfopt.LocalOutlier(95, neighbours).among(known, known.std(0, correction=0).tolist())
    model, unit = scikit(known, neighbours)
    others = 2 * known[:50] + normal(50, 4, seed=2)
    expected = -model.score_samples(others.numpy() / unit)
    assert np.allclose(own.factor(others), expected, rtol=1e-9)
    assert np.allclose(own.factors, np.sort(-model.negative_outlier_factor_), rtol=1e-9)
    assert own.limit == pytest.approx(-model.offset_, rel=1e-9)
    below = [100 * (-model.negative_outlier_factor_ < one).mean() for one in expected]
    assert np.allclose(own.percentile(others), below)


def test_the_gradient_is_the_derivative_of_the_excess() -> None:
    own = cfopt.LocalOutlier().among(KNOWN, SCALES)
    x = torch.cat([1.3 * KNOWN[:20], KNOWN[:20] + 0.01])
    excess, slope = own.excess_and_gradient(x)
    assert (excess > 0).any()
    assert (excess == 0).any()
    for j, step in enumerate(1e-6 * torch.eye(2, dtype=torch.float64)):
        along = (own.excess(x + step) - own.excess(x - step)) / 2e-6
        assert torch.allclose(slope[:, j], along, atol=1e-5)


def test_contexts_that_coincide_or_never_vary_do_no_harm() -> None:
    known = torch.cat([torch.zeros(30, 3), normal(30, 3).float()])
    known[:, 2] = 4.0
    own = cfopt.LocalOutlier(100, 40).among(torch.cat([known, torch.full((1, 3), torch.nan)]), None)
    assert own.factors.isfinite().all()
    assert len(own.factors) == 60
    assert own.excess(known).dtype == torch.float64
    assert torch.equal(own.excess(known[30:]), torch.zeros(30).double())


@pytest.fixture(scope="module")
def grid() -> Tensor:
    """Points where the data are, 0.02 apart."""
    axis = torch.linspace(-2.8, 2.8, 281, dtype=torch.float64)
    every = torch.cartesian_prod(axis, axis)
    return every[cfopt.LocalOutlier().among(KNOWN, SCALES).excess(every) == 0]


def nearest(pipeline: cfopt.Pipeline, grid: Tensor) -> list[float]:
    """The least distance of each row to a point of a grid that is an answer."""
    costs = pipeline.costs(grid).detach()
    good = costs @ WANTED <= costs.min(1).values
    unit = torch.tensor(SCALES)
    return torch.cdist(ROWS / unit, grid[good] / unit).amin(1).tolist()


@pytest.mark.parametrize(
    ("make", "search"),
    [
        (linear, AUTO),
        (linear, MANY),
        (linear, cfopt.MDMM(step=0.05, max_steps=300)),
        (forest, AUTO),
    ],
    ids=["exact first", "derivative-free", "MDMM", "forest"],
)
def test_answers_are_as_near_as_a_fine_grid_finds(
    make: Any, search: cfopt.Search, grid: Tensor
) -> None:
    pipeline = make()
    e = cfopt.explain(
        ROWS,
        pipeline,
        cfopt.Absolute(WANTED),
        plausibility=cfopt.LocalOutlier(),
        reference=KNOWN,
        features=FEATURES,
        search=search,
    )
    model, unit = scikit(KNOWN)
    least = nearest(pipeline, grid)
    asked = [row for row, one in enumerate(e.status) if one is not Status.ALREADY_VALID]
    assert len(asked) >= 3
    for row in asked:
        assert e.status[row] is Status.VALID
        factor = -model.score_samples(e.x[row : row + 1].numpy() / unit)[0]
        assert factor <= -model.offset_ * (1 + 1e-8)
        # Points of the grid are 0.02 apart, and MDMM ends near the nearest answer.
        slack = 1.1 if isinstance(search, cfopt.MDMM) else 1.0
        assert e.loss[row].sqrt() <= slack * least[row] + 0.03
        if e.optimal[row]:
            assert e.loss[row].sqrt() <= least[row] + 1e-6


def test_a_plain_answer_that_is_where_the_data_are_keeps_its_proof() -> None:
    plain = cfopt.explain(ROWS, linear(), cfopt.Absolute(WANTED), features=FEATURES)
    e = cfopt.explain(
        ROWS,
        linear(),
        cfopt.Absolute(WANTED),
        plausibility=cfopt.LocalOutlier(),
        reference=KNOWN,
        features=FEATURES,
        search=AUTO,
    )
    like = cfopt.LocalOutlier().among(KNOWN, SCALES).excess(plain.x) == 0
    like |= torch.tensor([one is Status.ALREADY_VALID for one in plain.status])
    assert like.any()
    assert not like.all()
    assert torch.equal(e.optimal, plain.optimal & like)
    assert torch.allclose(e.x[like], plain.x[like])
    assert torch.allclose(e.bound, plain.bound)  # a bound for all contexts holds for fewer
    assert (e.loss[~like] > plain.loss[~like]).all()


def test_how_usual_answers_are_is_reported_and_kept() -> None:
    x0 = torch.cat([ROWS, torch.tensor([[6.0, -6.0]])]).double()
    pipeline = linear()
    e = cfopt.explain(
        x0,
        pipeline,
        cfopt.Absolute(WANTED),
        plausibility=cfopt.LocalOutlier(90),
        reference=KNOWN,
        features=FEATURES,
        search=AUTO,
    )
    own = cfopt.LocalOutlier(90).among(KNOWN, SCALES)
    assert e.typical is not None
    assert torch.equal(e.typical.before, own.percentile(x0))
    found = torch.tensor([one is Status.VALID for one in e.status])
    assert found.any()
    assert (e.typical.after[found] <= 90.5).all()
    assert "unlike those that are known" in e.message[-1]
    assert "unlike" not in e.message[0]
    again = cfopt.Explanation.from_json(e.to_json(), pipeline.problem)
    assert again.asked.plausibility == cfopt.LocalOutlier(90)
    assert again.typical is not None
    assert torch.equal(again.typical.after.nan_to_num(-1), e.typical.after.nan_to_num(-1))
    row = e[int(found.nonzero()[0])]
    assert rating(row) in ("typical", "plausible")
    percent = f"{float(row.typical.after[0]):.3g}% of the known contexts, where 90% is the limit"  # type: ignore[union-attr]
    assert percent in plausibility(row)[0]


def test_a_context_that_explains_already_needs_no_change_however_strange() -> None:
    pipeline = linear()
    far = torch.tensor([[9.0, 1.0]]).double()
    wanted = pipeline.decide(far)[0]
    e = cfopt.explain(
        far,
        pipeline,
        cfopt.Absolute(wanted),
        plausibility=cfopt.LocalOutlier(),
        reference=KNOWN,
        features=FEATURES,
    )
    assert e.status == (Status.ALREADY_VALID,)
    assert "unlike those that are known" in e.message[0]


def test_what_the_data_do_not_allow_is_not_called_valid() -> None:
    known = KNOWN[linear().decide(KNOWN)[:, 2] == 1]  # the wish never came true in these
    e = cfopt.explain(
        known[:2],
        linear(),
        cfopt.Absolute(WANTED),
        plausibility=cfopt.LocalOutlier(50),
        reference=known[:60],
        features=FEATURES,
        search=cfopt.DerivativeFree(evaluations=200),
    )
    own = cfopt.LocalOutlier(50).among(known[:60], SCALES)
    for row, status in enumerate(e.status):
        assert (status is Status.VALID) == bool(own.excess(e.x)[row] == 0)


def test_few_changes_are_kept_to_as_well() -> None:
    pipeline = linear()
    e = cfopt.explain(
        ROWS,
        pipeline,
        cfopt.Absolute(WANTED),
        plausibility=cfopt.LocalOutlier(),
        reference=KNOWN,
        features=cfopt.Features(scale=SCALES, max_changes=1),
        search=AUTO,
    )
    own = cfopt.LocalOutlier().among(KNOWN, SCALES)
    found = torch.tensor([one is Status.VALID for one in e.status])
    assert (own.excess(e.x[found]) == 0).all()
    assert (((e.x - e.x0)[found] != 0).sum(1) <= 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference": None}, "LocalOutlier needs known contexts to compare with, got none"),
        ({"reference": KNOWN[:2]}, "at least 3 known contexts"),
        ({"robust": cfopt.Ball(0.1)}, "cannot be asked for together"),
        ({"search": cfopt.CuttingPlane()}, r"CuttingPlane cannot keep to .* Use Auto\(\)"),
        ({"search": cfopt.Sequential()}, "Sequential cannot keep to"),
        ({"generative": torch.nn.Identity()}, "Leave out generative"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], message: str) -> None:
    given = {"plausibility": cfopt.LocalOutlier(), "reference": KNOWN} | options
    with pytest.raises(InputError, match=message):
        cfopt.explain(ROWS, linear(), cfopt.Epsilon(0.1), **given)


def test_settings_that_make_no_sense_are_refused() -> None:
    for given in (0, 101, "all", True):
        with pytest.raises(InputError, match="percentile"):
            cfopt.LocalOutlier(given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="neighbours"):
        cfopt.LocalOutlier(neighbours=0)


def test_a_configuration_asks_for_it(example: Path) -> None:
    text = example.read_text()
    text += '\n[reference]\nfile = "contexts.csv"\n[plausibility]\nkind = "LocalOutlier"\n'
    example.write_text(text + "neighbours = 10\n")
    done = cf("explain", example)
    assert done.exit_code == 0, done.output
    e = results(example.parent / "results")
    assert e.asked.plausibility == cfopt.LocalOutlier(neighbours=10)
    assert e.typical is not None
    html = (example.parent / "results" / "report.html").read_text()
    assert "of the known contexts, where 95% is the limit" in html
