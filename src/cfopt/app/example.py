"""A commented configuration with its files beside it: what `cfopt init` writes."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import save

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.extras import require
from cfopt.names import nearest
from cfopt.storage.files import write_whole

FEATURES = ("rain", "traffic", "roadworks", "weekend")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "next Mon", "next Tue", "next Wed")
#: The slopes of each street of a 3 x 3 grid in the features, and its minutes without them.
_STREETS = (
    (0.48, 0.19, 0, -0.01, 5.38),
    (0.25, 0.04, 0.22, 0, 4.55),
    (0.08, 0.42, 0.05, -0.62, 4.75),
    (0.03, 0.84, 0, -0.26, 4.42),
    (0, 0.09, 0.18, 0, 5.94),
    (0.47, 0.78, 0.61, -0.38, 4.37),
    (0.02, 0.04, 0, -0.03, 4.05),
    (0.13, 0.45, 0.6, -0.02, 5.18),
    (0.01, 1, 0.3, -0.38, 4.82),
    (0.36, 0.02, 0.18, 0, 4.81),
    (0.31, 0.02, 0.04, -0.17, 5.83),
    (0.43, 0.02, 0.27, -0.88, 4.93),
)


def write_example(folder: Path, name: str = "streets") -> list[Path]:
    """Write the configuration and its files; an existing file is never replaced.

    Arguments:
        folder: where to write; created if missing.
        name: which of `EXAMPLES`.
    """
    if name not in EXAMPLES:
        raise InputError(nearest("example", name, EXAMPLES))
    paths = EXAMPLES[name]()
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


def _streets() -> dict[str, bytes]:
    """Routes across a town that is made up: tiny, and with every part of a configuration."""
    return {
        "CONFIG.toml": Path(__file__).with_name("example.toml").read_bytes(),
        "contexts.csv": _csv(_contexts()),
        "costs.csv": _csv(_costs()),
        "weights.safetensors": save(_weights()),
    }


def _flights() -> dict[str, bytes]:
    """Real data: a forest predicts delays, and a mixed-integer model picks the airports."""
    require("The example of flights", "sklearn")
    require("The example of flights", "trees")

    from cfopt.datasets import flights  # torch, which the other example does without

    known, new = flights.load().split()
    forest = flights.forest().fit(known.contexts, known.delays)
    some = slice(8, None, 6)  # about one day a month
    return {
        "CONFIG.toml": Path(__file__).with_name("flights.toml").read_bytes(),
        "plan.lp": _plan().encode(),
        "days.csv": _csv(new.contexts[some].reset_index()),
        "delays.csv": _csv(new.delays[some]),
        "history.csv": _csv(known.contexts),
        "forest.skops": import_module("skops.io").dumps(forest),
    }


def _plan() -> str:
    """The timetable as a model that HiGHS reads; its columns are in the order of `SLOTS`."""
    from cfopt.datasets.flights.timetable import AIRPORTS, HOURS, SLOTS

    names = [name.replace(" at ", "_") for name in SLOTS]

    def total(part: str) -> str:
        return " + ".join(name for name in names if part in name)

    lines = [
        "\\ One airport for each part of the day, none more than twice. The delays are predicted.",
        "Minimize",
        f" delay: {total('_')}",
        "Subject To",
        *(f" part_{hour}: {' + '.join(f'{a}_{hour}' for a in AIRPORTS)} = 1" for hour in HOURS),
        *(f" most_{airport}: {total(airport)} <= 2" for airport in AIRPORTS),
        "Binary",
        f" {' '.join(names)}",
        "End",
    ]
    return "\n".join(lines) + "\n"


#: What `cfopt init --example` can write: file names and contents.
EXAMPLES: dict[str, Callable[[], dict[str, bytes]]] = {"streets": _streets, "flights": _flights}


def _weights() -> dict[str, Array]:
    """Minutes on each street: more in rain and traffic, on some streets more than on others."""
    streets = np.array(_STREETS)
    return {"weight": np.ascontiguousarray(streets[:, :-1]), "bias": streets[:, -1].copy()}


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
    weights = _weights()
    exact = _contexts()[list(FEATURES)].to_numpy() @ weights["weight"].T + weights["bias"]
    noise = np.random.default_rng(4).normal(0, 0.5, exact.shape)
    names = [f"street {j}" for j in range(exact.shape[1])]
    return pd.DataFrame((exact + noise).clip(0.5).round(2), columns=names)


def _csv(table: pd.DataFrame) -> bytes:
    text = io.StringIO()
    table.to_csv(text, index=False)
    return text.getvalue().encode()
