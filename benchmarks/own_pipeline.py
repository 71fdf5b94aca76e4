"""`cfopt explain` on 1,000 contexts: beside a bare script, and killed at random moments."""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.torch import save_file

from benchmarks import tasks

CONTEXTS = 1000
#: Runs of each kind; the two kinds take turns.
_RUNS = 3
_KILLS = 3
_CONFIG = """
title = "1,000 contexts on the grid"

[predictor]
class = "cfopt.predictors.linear"
arguments = {{ num_features = {features}, num_costs = {costs} }}
weights = "weights.safetensors"

[problem]
kind = "GridShortestPath"
arguments = {{ rows = 5, cols = 5 }}

[contexts]
file = "contexts.csv"

[criterion]
kind = "Absolute"
alternatives = "alternatives.csv"

[run]
part = 128
"""


def compare() -> list[dict[str, Any]]:
    """The whole command beside a script that does the same by hand; both from a cold start."""
    with tempfile.TemporaryDirectory() as name:
        folder = _folder(Path(name))
        bare, inner, app = [], [], []
        for run in range(_RUNS):
            seconds, printed = _timed([sys.executable, "-m", "benchmarks.bare_script", name])
            bare.append(seconds)
            inner.append(float(printed))
            app.append(_timed(_command(folder, f"run-{run}"))[0])
        return [
            {
                "contexts": CONTEXTS,
                "cfopt.explain alone, s": statistics.median(inner),
                "bare script with reading and writing, s": statistics.median(bare),
                "cfopt explain CONFIG.toml, s": statistics.median(app),
                "ratio": statistics.median(a / b for a, b in zip(app, bare, strict=True)),
            }
        ]


def kills(seed: int = 0) -> list[dict[str, Any]]:
    """Runs that are killed three times while they search, and compared with an undisturbed one."""
    moments, rows = random.Random(seed), []
    with tempfile.TemporaryDirectory() as name:
        folder = _folder(Path(name))
        _timed(_command(folder, "undisturbed"))
        batches = _kept(folder / "undisturbed")
        for run in range(_RUNS):
            out = f"killed-{run}"
            kept = [_kill(folder, out, moments) for _ in range(_KILLS)]
            _timed(_command(folder, out))
            same = _same(folder / "undisturbed", folder / out)
            rows.append(
                {
                    "batches": batches,
                    "kept at the kills": ", ".join(map(str, kept)),
                    "same results": "yes" if same else "no",
                }
            )
    return rows


def _kill(folder: Path, out: str, moments: random.Random) -> int:
    """Start or resume a run, kill it at a random moment of its search; how many batches it kept."""
    quiet = subprocess.DEVNULL
    before = _kept(folder / out)
    process = subprocess.Popen(_command(folder, out), stdout=quiet, stderr=quiet)
    # One more batch than before, so that three kills fall into one search.
    while _kept(folder / out) == before and process.poll() is None:
        time.sleep(0.01)
    time.sleep(moments.uniform(0.0, 0.3))
    process.send_signal(signal.SIGKILL)
    process.wait()
    return _kept(folder / out)


def _kept(out: Path) -> int:
    return len(list((out / "explanations").glob("*.parquet")))


def _folder(folder: Path) -> Path:
    """The configuration of the grid pipeline and its files."""
    bench = tasks.grid(pool=CONTEXTS)
    features, costs = bench.contexts.shape[1], bench.pipeline.problem.num_costs
    pd.DataFrame(bench.contexts).to_csv(folder / "contexts.csv", index=False)
    pd.DataFrame(bench.alternatives).to_csv(folder / "alternatives.csv", index=False)
    save_file(bench.pipeline.predictor.state_dict(), folder / "weights.safetensors")
    (folder / "CONFIG.toml").write_text(_CONFIG.format(features=features, costs=costs))
    return folder


def _command(folder: Path, out: str) -> list[str]:
    config = str(folder / "CONFIG.toml")
    return [sys.executable, "-m", "cfopt", "explain", config, "--out", str(folder / out)]


def _timed(command: list[str]) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, done.stdout.strip()


def _same(one: Path, other: Path) -> bool:
    """Equal to the last bit: every part, and the JSON lines with costs, decisions and proofs."""
    names = [path.name for path in sorted((one / "explanations").glob("part-*"))]
    files = [Path("explanations.jsonl"), *(Path("explanations") / name for name in names)]
    return all((one / file).read_bytes() == (other / file).read_bytes() for file in files)
