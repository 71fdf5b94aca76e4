"""Runs of many rows: workers, Dask, memory, and what comes after the search."""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.torch import save_file

from benchmarks import tasks

#: Rows of a full measurement; `--scale 0.1` takes a tenth of each.
ROWS, MANY, FEW = 100_000, 1_000_000, 10_000
#: The least number of rows that says something.
_LEAST = 400
_CONFIG = """
title = "Many contexts on the grid"

[predictor]
class = "cfopt.predictors.linear"
arguments = {{ num_features = {features}, num_costs = {costs} }}
weights = "weights.safetensors"

[problem]
kind = "GridShortestPath"
arguments = {{ rows = 5, cols = 5 }}

[contexts]
file = "contexts.parquet"

[criterion]
kind = "{criterion}"
alternatives = "alternatives.parquet"

[run]
{part}

[output]
pictures = {pictures}
"""


def make(
    folder: Path,
    rows: int,
    *,
    criterion: str = "Absolute",
    part: int | None = None,
    pictures: int = 0,
) -> Path:
    """The grid pipeline with so many contexts, as files; the configuration's path."""
    bench = tasks.grid(pool=100, epochs=5)
    features, costs = bench.contexts.shape[1], bench.pipeline.problem.num_costs
    generator = np.random.default_rng(0)
    contexts = generator.standard_normal((rows, features))
    folder.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(contexts, columns=[f"x{j}" for j in range(features)])
    frame.to_parquet(folder / "contexts.parquet", row_group_size=8192)
    plans = bench.alternatives.numpy()[generator.integers(len(bench.alternatives), size=rows)]
    named = pd.DataFrame(plans, columns=[str(j) for j in range(plans.shape[1])])
    named.to_parquet(folder / "alternatives.parquet", row_group_size=8192)
    save_file(bench.pipeline.predictor.state_dict(), folder / "weights.safetensors")
    text = _CONFIG.format(
        features=features,
        costs=costs,
        criterion=criterion,
        part="" if part is None else f"part = {part}",
        pictures=pictures,
    )
    (folder / "CONFIG.toml").write_text(text)
    return folder / "CONFIG.toml"


def command(config: Path, out: str, *more: str) -> list[str]:
    folder = str(config.parent / out)
    return [sys.executable, "-m", "cfopt", "explain", str(config), "--out", folder, *more]


def digests(folder: Path) -> dict[str, str]:
    """Each part of a run by its name."""
    parts = sorted((folder / "explanations").glob("part-*.parquet"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in parts}


def _searching(folder: Path) -> tuple[float, float]:
    """Seconds from the first part begun to the last ended, and the CPU time of all parts."""
    first, last, total = np.inf, 0.0, 0.0
    for path in (folder / "journal").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            if entry["event"] == "begun":
                first = min(first, entry["at"])
            elif entry["event"] == "ended":
                last, total = max(last, entry["at"]), total + entry["cpu"]
    return last - first, total


def throughput(scale: float) -> list[dict[str, Any]]:
    """One worker, two, and a Dask cluster of two: rows a second while parts are explained.

    Warm: from the first part begun to the last one ended, so that loading is left out. Where other
    programs keep the cores busy, only the CPU time of a row says something: what two workers would
    do with a core each.
    """
    rows = max(_LEAST, round(ROWS * scale))
    repeats = 2 if rows < ROWS else 1  # of a short run, other programs may disturb the whole
    kinds = {
        "1 worker": ("--workers", "1"),
        "2 workers": ("--workers", "2"),
        "Dask, 2 workers": ("--workers", "2", "--engine", "dask"),
    }
    found: dict[str, float] = {}
    whole: dict[str, float] = {}
    own: dict[str, float] = {}
    same = set()
    with tempfile.TemporaryDirectory() as name:
        config = make(Path(name), rows)
        for repeat in range(repeats):  # in turn, and the better counts
            for kind, words in kinds.items():
                out = f"{kind}-{repeat}".replace(" ", "-")
                start = time.perf_counter()
                subprocess.run(command(config, out, *words), check=True, capture_output=True)
                took = time.perf_counter() - start
                seconds, cpu = _searching(config.parent / out)
                own[kind] = min(own.get(kind, np.inf), 1000 * cpu / rows)
                found[kind] = max(found.get(kind, 0.0), rows / seconds)
                whole[kind] = min(whole.get(kind, np.inf), took)
                same.add(json.dumps(digests(config.parent / out)))
    return [
        {
            "run": kind,
            "rows": rows,
            "rows/s while searching": rate,
            "ratio to 1 worker": rate / found["1 worker"],
            "ratio to 2 workers": rate / found["2 workers"],
            "ms of CPU a row": own[kind],
            "ratio with a core each": (1 if kind == "1 worker" else 2)
            * own["1 worker"]
            / own[kind],
            "whole command, s": whole[kind],
            "same bytes": "yes" if len(same) == 1 else "no",
        }
        for kind, rate in found.items()
    ]


def memory(scale: float) -> list[dict[str, Any]]:
    """The peak memory of the client, which gives orders and writes the report."""
    lines: list[dict[str, Any]] = []
    fewest = max(_LEAST, round(FEW * min(1.0, 10 * scale)))
    for rows in (fewest, *(max(_LEAST, round(many * scale)) for many in (ROWS, MANY))):
        with tempfile.TemporaryDirectory() as name:
            # The quick question, so that a million rows take minutes.
            config = make(Path(name), rows, criterion="Relative")
            # Not `ru_maxrss`, which a process takes over from the one that started it: there it was
            # the peak of this benchmark, which makes the rows.
            code = (
                "import sys\nfrom cfopt.cli import app\n"
                "try: app(sys.argv[1:])\n"
                "except SystemExit: pass\n"
                "print('PEAK', open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
            )
            words = command(config, "out", "--workers", "2")[3:]
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", code, *words], check=True, capture_output=True, text=True
            )
            seconds = time.perf_counter() - start
            out = config.parent / "out"
            lines.append(
                {
                    "rows": rows,
                    "peak of the client, MB": int(done.stdout.split("PEAK")[1]) / 1024,
                    "whole command, s": seconds,
                    "found finished, s of CPU": _cpu(command(config, "out")),
                    "cfopt summarise, s of CPU": _cpu(
                        [sys.executable, "-m", "cfopt", "summarise", str(out)]
                    ),
                    "bytes a row": sum(path.stat().st_size for path in parts_of(out)) / rows,
                }
            )
    first = lines[0]["peak of the client, MB"]
    return [line | {"ratio of peaks": line["peak of the client, MB"] / first} for line in lines]


def _cpu(words: list[str]) -> float:
    """The CPU time that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def parts_of(folder: Path) -> list[Path]:
    """The files of a run's parts."""
    return list((folder / "explanations").glob("part-*.parquet"))


def results(scale: float = 1.0) -> list[dict[str, Any]]:
    """What comes after the search: pictures, report and files for 1,000 rows; and the help."""
    rows = 1000  # whatever the scale
    with tempfile.TemporaryDirectory() as name:
        config = make(Path(name), rows, pictures=12)
        first = _cpu(command(config, "out", "--workers", "1"))
        (config.parent / "out" / "explanations" / "_SUCCESS").unlink()
        again = _cpu(command(config, "out", "--workers", "1"))
        dry = _cpu(command(config, "dry", "--dry-run"))
    helped = min(_cpu([sys.executable, "-m", "cfopt", "--help"]) for _ in range(5))
    return [
        {
            "rows": rows,
            "whole command, s of CPU": first,
            "results alone, s of CPU": again - dry,
            "loading, s of CPU": dry,
            "cfopt --help, s of CPU": helped,
        }
    ]
