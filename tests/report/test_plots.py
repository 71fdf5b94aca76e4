"""Pictures: they are drawn for each kind of problem, and show what they claim to show."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.errors import InputError
from cfopt.exact.certificate import Clash
from cfopt.problems import MILP, GridShortestPath, TerrainShortestPath
from cfopt.result.status import Status

SEARCH = cfopt.MDMM(step=0.05, max_steps=300)


def _texts(figure) -> str:
    parts = [text.get_text() for text in figure.texts]
    parts += [axes.get_title() for axes in figure.axes]
    return "\n".join(parts)


def test_a_grid_picture_is_written_and_names_both_values(
    grid: cfopt.Pipeline, tmp_path: Path
) -> None:
    x0 = normal(3, 4)
    e = cfopt.explain(x0, grid, cfopt.Absolute(another(grid, x0)), search=SEARCH)
    figure = e[1].plot(tmp_path / "why.png")
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")
    text = _texts(figure)
    assert "When would the alternative have been the best of all?" in text
    before = float((e.costs_before * e.factual).sum(1)[1])
    after = float((e.costs * e.alternative).sum(1)[1])
    assert f"Before: the decision costs {before:.3g}" in text
    assert f"the alternative costs {after:.3g}" in text
    widths = [patch.get_width() for patch in figure.axes[2].patches]
    assert np.allclose(widths, e[1].table()["change"])


@pytest.mark.parametrize("kind", ["relative", "absolute", "epsilon"])
def test_every_kind_of_question_has_a_picture(kind: str, knapsack: cfopt.Pipeline) -> None:
    x0 = normal(2, 3)
    wanted = another(knapsack, x0)
    criterion = {
        "relative": cfopt.Relative(wanted),
        "absolute": cfopt.Absolute(wanted),
        "epsilon": cfopt.Epsilon(0.2),
    }[kind]
    e = cfopt.explain(x0, knapsack, criterion, search=SEARCH)
    assert f"{float((e.costs_before * e.factual).sum(1)[0]):.3g}" in _texts(e[0].plot())
    assert "is worth" in _texts(e[0].plot())


def test_maps_and_any_other_model_have_pictures() -> None:
    terrain = TerrainShortestPath(4, 4)
    pipeline = cfopt.Pipeline(torch.nn.Linear(2, 16), terrain)
    wanted = terrain.solve(torch.rand(1, 16))
    e = cfopt.explain(torch.ones(2), pipeline, cfopt.Relative(wanted), search=SEARCH)
    maps = [np.asarray(axes.images[0].get_array()) for axes in e.plot().axes if axes.images]
    assert np.allclose(maps[0], e.costs_before.reshape(4, 4))
    model = MILP([[1.0, 1.0, 1.0]], 2, 2, upper=1, names=["north", "south", "east"])
    pipeline = cfopt.Pipeline(random_linear(2, 3), model)
    e = cfopt.explain(normal(1, 2), pipeline, cfopt.Absolute([1.0, 1.0, 0.0]), search=SEARCH)
    figure = e.plot()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert all(any(name in label for name in model.names) for label in labels)


def test_a_best_effort_has_a_picture_and_a_rejected_row_has_none(grid: cfopt.Pipeline) -> None:
    x0 = normal(3, 4)
    wanted = another(grid, x0)
    wanted[0] = 1.0
    x0[1, 0] = torch.nan
    e = cfopt.explain(x0, grid, cfopt.Absolute(wanted), search=cfopt.MDMM(step=0.01, max_steps=2))
    assert e.status == ("rejected", "rejected", "best effort")
    assert e.message[2].split(" (")[0].split(";")[0] in _texts(e[2].plot())
    for row in (0, 1):
        with pytest.raises(InputError, match="nothing to draw"):
            e[row].plot()


def test_a_picture_survives_json(grid: cfopt.Pipeline) -> None:
    x0 = normal(1, 4)
    e = cfopt.explain(x0, grid, cfopt.Absolute(another(grid, x0)), search=SEARCH)
    again = cfopt.Explanation.from_json(e.to_json(), problem=grid.problem).plot()
    assert _texts(again) == _texts(e.plot())
    assert not again.axes[0].patches
    unknown = cfopt.Explanation.from_json(e.to_json()).plot()  # any problem: bars
    assert unknown.axes[0].patches


def test_a_picture_is_of_one_row(grid: cfopt.Pipeline) -> None:
    e = cfopt.explain(normal(2, 4), grid, cfopt.Epsilon(0.1), search=cfopt.MDMM(max_steps=2))
    with pytest.raises(InputError, match="single row"):
        e.plot()


def test_plotting_leaves_matplotlib_as_it_was(grid: cfopt.Pipeline) -> None:
    before = dict(mpl.rcParams)
    cfopt.explain(normal(1, 4), grid, cfopt.Epsilon(0.1), search=cfopt.MDMM(max_steps=2)).plot()
    assert dict(mpl.rcParams) == before


def test_a_picture_with_fixed_costs_asks_for_the_problem() -> None:
    model = MILP([[1.0, 1.0, 1.0]], 2, 2, upper=1, cost_columns=[0, 1], fixed_costs=[0, 0, 1.0])
    pipeline = cfopt.Pipeline(random_linear(2, 2), model)
    e = cfopt.explain(normal(1, 2), pipeline, cfopt.Absolute([1.0, 1.0, 0.0]), search=SEARCH)
    assert len(e.plot().axes[0].patches) > 0
    with pytest.raises(InputError, match="problem="):
        cfopt.Explanation.from_json(e.to_json()).plot()


def test_a_proof_of_infeasibility_shows_what_is_in_the_way(tmp_path: Path) -> None:
    problem = GridShortestPath(3, 3)
    pipeline = cfopt.Pipeline(random_linear(4, problem.num_costs, bias=5.0), problem)
    x0 = normal(8, 4)[:6]
    features = cfopt.Features(["rain", "wind", "hour", "jam"], None, -2.5, 2.5, ["wind"])
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(another(pipeline, x0)), features=features)
    row = e.status.index("proved infeasible")
    figure = e[row].plot(tmp_path / "none.png")
    assert (tmp_path / "none.png").read_bytes().startswith(b"\x89PNG")
    titles = [axes.get_title() for axes in figure.axes]
    assert any("In its way" in title for title in titles)
    texts = " ".join(text.get_text() for axes in figure.axes for text in axes.texts)
    assert "Locked, and involved:\n  wind" in texts


def test_names_are_drawn_as_they_are_written(tmp_path: Path) -> None:
    """No formula is read into them, and a letter that no font has is no warning."""
    model = MILP([[1.0, 1.0, 1.0]], 2, 2, upper=1, names=["no $x_{$", "$\\frac$", "東 $a_{$"])
    pipeline = cfopt.Pipeline(random_linear(2, 3), model)
    features = cfopt.Features(["traffic $x_{$", "交通 $\\frac$"], None, -2, 2)
    criterion = cfopt.Absolute([1.0, 1.0, 0.0])
    x0 = normal(1, 2)
    e = cfopt.explain(x0, pipeline, criterion, features=features)
    clash = Clash(
        np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), features.names, features.names, np.inf
    )
    infeasible = replace(e, status=(Status.PROVED_INFEASIBLE,), clash=(clash,), message=("$x_{$",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k, one in enumerate((e, infeasible)):
            figure = one.plot(tmp_path / f"{k}.png")
            figure.canvas.draw()
    labels = [label.get_text() for label in e.plot().axes[2].get_yticklabels()]
    assert set(labels) <= set(features.names)
