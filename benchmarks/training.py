"""How fast generative models train, each in a process of its own, and how long `make models` takes.

`python -m benchmarks.training NAME` measures one model and prints it as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cfopt
from cfopt.datasets import Terrain
from cfopt.generative import (
    VAE,
    CompactVAE,
    ConvolutionalVAE,
    Flow,
    TexturedVAE,
    Training,
    train,
)
from cfopt.models import plans

#: Batches of an epoch that is measured.
_BATCHES = 10


@dataclass(frozen=True)
class Case:
    """A model in training.

    Arguments:
        make: the model, untrained, and contexts for it, given their number.
        plan: how it is trained.
        rows: on how many contexts `make models` trains it; 0 if it is not shipped.
    """

    make: Callable[[int], tuple[VAE | Flow, Tensor]]
    plan: Training
    rows: int


def _of_maps(make: Callable[[], VAE], count: int) -> tuple[VAE | Flow, Tensor]:
    return make(), Terrain().generate(count, seed=3).images


def _of_codes(count: int) -> tuple[VAE | Flow, Tensor]:
    """The prior of the shipped sharp VAE, whose codes have about unit size."""
    vae = cfopt.load_terrain(1).sharp
    codes = torch.randn((count, vae.latent_dim), generator=torch.Generator().manual_seed(3))
    flow = Flow(vae.latent_dim, vae.grid, plans.LAYERS, plans.WIDTH)
    return flow.standardise(codes), codes


_JUDGE = partial(TexturedVAE, width=plans.JUDGE_WIDTH)
_PLAIN, _COST_AWARE = (Training(alpha=alpha, epochs=plans.EPOCHS) for alpha in (0.0, 2.0))
CASES = {
    "CompactVAE, alpha = 0": Case(partial(_of_maps, CompactVAE), _PLAIN, plans.MAPS),
    "CompactVAE, alpha = 2": Case(partial(_of_maps, CompactVAE), _COST_AWARE, plans.MAPS),
    "sharp VAE, alpha = 2": Case(partial(_of_maps, TexturedVAE), plans.SHARP, plans.MAPS),
    "judge, another sharp VAE": Case(partial(_of_maps, _JUDGE), plans.JUDGE, plans.MAPS),
    "flow of its codes": Case(_of_codes, plans.FLOW, len(plans.PRIOR_SEEDS) * plans.MAPS),
    "ConvolutionalVAE, alpha = 0": Case(partial(_of_maps, ConvolutionalVAE), _PLAIN, 0),
    "ConvolutionalVAE, alpha = 2": Case(partial(_of_maps, ConvolutionalVAE), _COST_AWARE, 0),
}


def throughput() -> list[dict[str, Any]]:
    """Every model, in a process of its own for its peak of memory, and the shipped ones together.

    What `make models` does besides, such as generating maps and training the CNN, is left out.
    """
    rows: list[dict[str, Any]] = []
    for name in CASES:
        command = [sys.executable, "-m", "benchmarks.training", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    whole = dict.fromkeys(rows[0]) | {"model": "all that are shipped"}
    whole["minutes in `make models`"] = sum(row["minutes in `make models`"] or 0.0 for row in rows)
    return [*rows, whole]


def measure(name: str) -> dict[str, Any]:
    """Train one model for two epochs of a few batches; the first one warms up."""
    case = CASES[name]
    size = case.plan.batch_size
    model, contexts = case.make(_BATCHES * size)
    times: list[float] = []
    train(
        model,
        contexts,
        contexts[:size],
        replace(case.plan, epochs=2),
        predictor=cfopt.load_terrain(1).pipeline.predictor if case.plan.alpha else None,
        on_progress=lambda report: times.append(time.perf_counter()),
    )
    second = times[_BATCHES + 1 : 2 * _BATCHES + 1]
    speed = size * (len(second) - 1) / (second[-1] - second[0])
    return {
        "model": name,
        "parameters, million": sum(p.numel() for p in model.parameters()) / 1e6,
        "batch": size,
        "contexts a second": speed,
        "peak memory, MB": _peak_memory(),
        "minutes in `make models`": case.plan.epochs * case.rows / speed / 60 or None,
    }


def _peak_memory() -> float:
    """The peak of this process alone; getrusage would count the parent's from before exec."""
    status = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
