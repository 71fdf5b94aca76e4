"""A configuration asks for balls and prices as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import cf, results

import cfopt


def test_a_configuration_asks_for_costs_a_ball_and_prices(tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text("a,b,c\n3,2,5\n1,4,2\n")
    (tmp_path / "plans.csv").write_text("y0,y1,y2\n0,0,1\n0,1,0\n")
    config = tmp_path / "config.toml"
    config.write_text(
        """
[predictor]
kind = "costs"
[problem]
kind = "Finite"
arguments = { decisions = [[1, 0, 0], [0, 1, 0], [0, 0, 1]] }
[contexts]
file = "costs.csv"
[criterion]
kind = "Absolute"
alternatives = "plans.csv"
[proximity]
kind = "LInf"
[robust]
kind = "Ball"
radius = 0.5
norm = "LInf"
[prices]
proximity = "L1"
"""
    )
    done = cf("explain", config)
    assert done.exit_code == 0, done.output
    e = results(tmp_path / "results")
    assert e.asked.robust == cfopt.Ball(0.5, cfopt.LInf())
    # 5 must fall below 2 while both may be off by 0.5: half of 3 + 1 each.
    assert e.loss.tolist() == pytest.approx([2.0, 2.0], rel=1e-6)
    assert e.prices is not None
    assert e.prices.loss.tolist() == pytest.approx([3.0, 3.0], rel=1e-6)
    config.write_text(
        config.read_text().replace(
            'kind = "Ball"\nradius = 0.5\nnorm = "LInf"', 'kind = "Models"\ncount = 2'
        )
    )
    done = cf("explain", config)
    assert done.exit_code == 2
    assert "does not load" in done.stderr
