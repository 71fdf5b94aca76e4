"""Columns that are not numbers, in configurations, results and the report."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from tests.commands import cf, change, refused, results
from tests.pipelines import normal

from cfopt.question.features import Features
from cfopt.web.requests import Ranges
from cfopt.web.views import TableView


@pytest.fixture
def town(tmp_path: Path) -> Path:
    """The example with a category in place of the number of roadworks."""
    assert cf("init", tmp_path / "town").exit_code == 0
    config = tmp_path / "town" / "CONFIG.toml"
    table = pd.read_csv(config.parent / "contexts.csv")
    table["roadworks"] = ["none", "some", "many"] * (len(table) // 3) + ["none"] * (len(table) % 3)
    table.to_csv(config.parent / "contexts.csv", index=False)
    layer = {"weight": normal(12, 6).float(), "bias": torch.full((12,), 5.0)}
    save_file(layer, config.parent / "weights.safetensors")
    change(config, "in_features = 4", "in_features = 6")
    change(config, ", roadworks = 0 }", " }")
    change(config, "scale = [4.0, 2.0, 1.0, 1.0]", "scale = [4.0, 2.0, 9.0, 1.0]")
    change(
        config,
        'immutable = ["weekend"]',
        'immutable = ["weekend"]\ncategories = { roadworks = ["none", "some", "many"] }',
    )
    change(config, "pictures = 12", "pictures = 1")
    return config


def test_a_category_goes_through_a_configuration_to_the_report(town: Path) -> None:
    done = cf("explain", town)
    assert done.exit_code == 0, done.output
    e = results(town.parent / "results")
    given = pd.read_csv(town.parent / "contexts.csv")
    assert e.frame_before["roadworks"].tolist() == given["roadworks"].head(len(e)).tolist()
    changed = e.table().query("feature == 'roadworks'")
    assert len(changed)
    assert set(changed["after"]) <= {"none", "some", "many"}
    parquet = pd.read_parquet(town.parent / "results" / "explanations")
    assert parquet["roadworks after"].tolist() == e.frame["roadworks"].tolist()
    report = (town.parent / "results" / "report.html").read_text()
    assert f"<td>{changed['after'].iloc[0]}</td>" in report
    assert "roadworks=some" not in report.split("<main")[-1]


def test_a_value_that_is_not_listed_is_refused_with_its_place(town: Path) -> None:
    change(town, '"none", "some", "many"', '"none", "sme", "many"')
    refused(cf("explain", town), "[contexts]", "row 1 has 'some'. Did you mean 'sme'?")


def test_bounds_asked_for_in_the_explorer_keep_the_categories() -> None:
    features = Features(
        ["rain", "road"], upper={"rain": 9}, categories={"road": ("wet", "dry")}, scale=[2, 1]
    )
    view = TableView(features, 3, torch.float64)
    ranges = Ranges(locked=["rain"], lower={"rain": 1.0}, upper={"road=wet": 0.0, "rain": 12.0})
    asked = view.limited(ranges)
    limits = asked.limits(3)
    assert asked.categories == features.categories
    assert limits.lower.tolist() == [1.0, 0.0, 0.0]
    assert limits.upper.tolist() == [9.0, 0.0, 1.0]
    assert limits.immutable.tolist() == [True, False, False]
