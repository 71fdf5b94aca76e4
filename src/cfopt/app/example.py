"""A commented configuration with a tiny example beside it: what `cfopt init` writes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save

from cfopt.errors import InputError
from cfopt.problems import GridShortestPath
from cfopt.storage.files import write_whole

FEATURES = ("rain", "traffic", "roadworks", "weekend")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "next Mon", "next Tue", "next Wed")

CONFIG = """\
# What to explain, and how: cfopt explain CONFIG.toml
# Paths start from the folder of this file. --dry-run checks everything and writes nothing.

title = "Deliveries across town"

# The predictor: contexts in, costs out.
# A class by its import path with arguments and weights (safetensors), or a torch.export archive:
#   archive = "model.pt2"
# Layers of torch.nn and models of cfopt are built at once. Classes of your own ("my_model.Net",
# looked for beside this file too), archives and pickled weights (.pt) can execute code: for these
# pass --trust.
[predictor]
class = "torch.nn.Linear"
arguments = { in_features = 4, out_features = 12 }
weights = "weights.safetensors"

# The problem: costs in, the best decision out. One of
#   kind = "GridShortestPath", "TerrainShortestPath", "ShortestPath", "Knapsack", "Finite" or
#     "MILP", with arguments
#   file = "model.lp", or .mps, read by HiGHS; arguments = { cost_columns = ["x1", "x2"] }
#   class = "my_model.MyProblem", with arguments (needs --trust)
# names = ["north", "south"] says what the entries of a decision are called in the report.
# An argument may come from a file: arguments = { weights = { file = "weights.csv" }, ... }
# A road network: kind = "ShortestPath" and
#   arguments = { edges = { file = "roads.csv" }, source = "Aix", target = "Eze" }
[problem]
kind = "GridShortestPath"
arguments = { rows = 3, cols = 3 }

# The contexts: .csv (with column names), .parquet or .npy.
#   rows = 100 takes the first hundred, rows = [0, 5, 7] these.
[contexts]
file = "contexts.csv"
label = "day"

# What may change, and how: names, scale, lower, upper, immutable, only_increase, only_decrease,
# integer, one_hot = [["red", "green", "blue"]],
# linear = [{ coefficients = { rain = 1, traffic = 1 }, upper = 9 }]
[features]
names = ["rain", "traffic", "roadworks", "weekend"]
scale = [4.0, 2.0, 1.0, 1.0]
lower = { rain = 0, traffic = 0, roadworks = 0 }
upper = { traffic = 10 }
immutable = ["weekend"]

# The question.
#   "Relative": when would my plan have beaten yours?   "Absolute": ... have been the best of all?
#   "Epsilon": what would make your plan clearly wrong?  epsilon = 0.1
# My plan is one of
#   alternatives = "plans.csv"              one row for all contexts, or one for each
#   decision_of_row = 3                     what the pipeline decides in row 3, counted from 0
#   optimum_of_row = 3, costs = "costs.csv" what would have been best there; "own" for each its own
# margin = 0.05 asks the alternative to win by 5% of its value.
[criterion]
kind = "Absolute"
decision_of_row = 0

# The rest can be left out.

[proximity]         # "L2", "L1", or "Latent" with a generative model
kind = "L2"

[search]            # "Auto", "MDMM", "Sequential", "Tangents", "CuttingPlane", "Enumeration",
                    # "ClosedForm", or "LatentSequential" with a generative model
kind = "Auto"       # settings by name: step = 0.01, or mdmm = { step = 0.01 } within Auto

# [generative]      # a model of plausible contexts, whose codes are searched; what it makes has
#                   # no limits, so that [features] must have none: no lower, upper or immutable
# class = "cfopt.generative.TabularVAE"
# arguments = { num_features = 4 }
# weights = "vae.safetensors"
# plausibility = { kind = "Sphere", beta = 10.0 }

# [reference]       # known contexts, from which a search can start
# file = "history.csv"

# [run]
# batch = 64        # rows explained at once, at most; each finished batch is kept

[output]
folder = "results"
pictures = 12

# For `cfopt train CONFIG.toml --to new.safetensors`: what the predictor learns from.
[training]
contexts = "contexts.csv"
costs = "costs.csv"
epochs = 200
"""


def write_example(folder: Path) -> list[Path]:
    """Write the configuration and its files; an existing file is never replaced.

    Arguments:
        folder: where to write; created if missing.
    """
    paths = {
        "CONFIG.toml": CONFIG.encode(),
        "contexts.csv": _csv(_contexts()),
        "costs.csv": _csv(_costs()),
        "weights.safetensors": save(_weights()),
    }
    taken = [name for name in paths if (folder / name).exists()]
    if taken:
        raise InputError(f"{folder / taken[0]} already exists. Pass another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {folder} cannot be created: {error}.") from error
    for name, data in paths.items():
        write_whole(folder / name, data)
    return [folder / name for name in paths]


def _weights() -> dict[str, torch.Tensor]:
    """Minutes on each street: more in rain and traffic, on some streets more than on others."""
    streets = GridShortestPath(3, 3).num_costs
    generator = torch.Generator().manual_seed(8)
    slopes = torch.rand((streets, len(FEATURES)), generator=generator, dtype=torch.float64) ** 3
    slopes[:, FEATURES.index("weekend")] *= -1
    base = 4 + 2 * torch.rand(streets, generator=generator, dtype=torch.float64)
    return {"weight": slopes.round(decimals=2), "bias": base.round(decimals=2)}


def _contexts() -> pd.DataFrame:
    random = np.random.default_rng(3)
    days = len(_DAYS)
    columns = {
        "day": list(_DAYS),
        "rain": random.gamma(1.0, 4.0, days).round(1),
        "traffic": random.uniform(1, 9, days).round(1),
        "roadworks": random.integers(0, 4, days),
        "weekend": [int(day.startswith("S")) for day in _DAYS],
    }
    return pd.DataFrame(columns)


def _costs() -> pd.DataFrame:
    """What the streets really took: about what the predictor says."""
    weights = {name: tensor.numpy() for name, tensor in _weights().items()}
    exact = _contexts()[list(FEATURES)].to_numpy() @ weights["weight"].T + weights["bias"]
    noise = np.random.default_rng(4).normal(0, 0.5, exact.shape)
    names = [f"street {j}" for j in range(exact.shape[1])]
    return pd.DataFrame((exact + noise).clip(0.5).round(2), columns=names)


def _csv(table: pd.DataFrame) -> bytes:
    text = io.StringIO()
    table.to_csv(text, index=False)
    return text.getvalue().encode()
