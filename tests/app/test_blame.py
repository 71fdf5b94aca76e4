"""Messages that blame the right word: what is wrong, where, and what there is instead."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tests.commands import cf, change, refused
from tests.pipelines import random_linear

import cfopt
from cfopt.problems import Finite


@pytest.mark.parametrize(
    ("written", "misspelt", "meant"),
    [("in_features", "infeatures", "in_features"), ("cols = 3", "columns = 3", "cols")],
)
def test_an_unknown_argument_is_named_with_those_there_are(
    example: Path, written: str, misspelt: str, meant: str
) -> None:
    change(example, written, misspelt)
    done = cf("explain", example, "--dry-run")
    argument = misspelt.split()[0]
    refused(done, f"There is no argument '{argument}'. Did you mean '{meant}'? There are: ")
    assert "unexpected keyword" not in done.output


def test_a_misspelt_name_may_be_in_names_as_well_as_in_a_limit(example: Path) -> None:
    change(example, '"rain", "traffic"', '"rain", "trafic"')
    said = "'traffic', which is not a feature. Did you mean 'trafic'? Or is that misspelt in names?"
    refused(cf("explain", example, "--dry-run"), said)


def test_a_name_that_the_columns_do_not_have_is_blamed() -> None:
    frame = pd.DataFrame({"rain": [1.0], "traffic": [2.0]})
    pipeline = cfopt.Pipeline(random_linear(2, 2), Finite(np.eye(2)))

    def ask(*names: str) -> None:
        features = cfopt.Features(names=names)
        cfopt.explain(frame, pipeline, cfopt.Epsilon(0.1), features=features)

    with pytest.raises(cfopt.InputError, match=r"no column 'trafic'. Did you mean 'traffic'?"):
        ask("rain", "trafic")
    with pytest.raises(cfopt.InputError, match=r"disagree. names does not have 'traffic'"):
        ask("rain")
    with pytest.raises(cfopt.InputError, match=r"disagree. The order differs"):
        ask("traffic", "rain")


def test_the_columns_that_are_not_numbers_are_named() -> None:
    pipeline = cfopt.Pipeline(random_linear(3, 2), Finite(np.eye(2)))
    x0 = torch.tensor([[1.0, torch.nan, torch.inf], [1, 2, 3]], dtype=torch.float64)
    features = cfopt.Features(names=["rain", "traffic", "wind"])
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.1), features=features)
    assert e.message[0] == "the context has values that are not finite: traffic and wind"
    assert "not finite" not in e.message[1]
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.1))
    assert e.message[0] == "the context has values that are not finite"


def test_the_row_whose_decision_is_asked_for_names_what_it_lacks(example: Path) -> None:
    table = pd.read_csv(example.parent / "contexts.csv")
    table.loc[0, "traffic"] = np.nan
    table.to_csv(example.parent / "contexts.csv", index=False)
    said = "In row 0, whose decision is asked for, the context has values that are not finite: "
    refused(cf("explain", example), "[criterion]", f"{said}traffic")


def test_nobody_is_advised_to_load_a_file_unsafely(example: Path) -> None:
    torch.save({"a": Namespace(x=1)}, example.parent / "weights.pt")
    change(example, "weights.safetensors", "weights.pt")
    done = cf("explain", example, "--trust", "--dry-run")
    refused(done, "is not a file of tensors alone", "safetensors.torch.save_file")
    assert "weights_only" not in done.output
    assert "two options" not in done.output
