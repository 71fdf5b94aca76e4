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


def write_example(folder: Path) -> list[Path]:
    """Write the configuration and its files; an existing file is never replaced.

    Arguments:
        folder: where to write; created if missing.
    """
    paths = {
        "CONFIG.toml": Path(__file__).with_name("example.toml").read_bytes(),
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
