"""Runs of many rows: workers, Dask, memory, kills, and what is not search."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file

import cfopt
from benchmarks import tasks
from cfopt.exact.geometry import Master
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.part import keep_part
from cfopt.pipeline import Pipeline
from cfopt.problems import MILP, Problem
from cfopt.running.threads import of_torch
from cfopt.search import tangents

#: Rows of a full measurement; `--scale 0.1` takes a tenth of each.
ROWS, MANY, FEW = 100_000, 1_000_000, 10_000
_KILLS = 20
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


def throughput(scale: float, repeats: int = 2) -> list[dict[str, Any]]:
    """One worker, two, and a Dask cluster of two: rows a second while parts are explained.

    Warm: from the first part begun to the last one ended, so that loading is left out. Where other
    programs keep the cores busy, only the CPU time of a row says something: what two workers would
    do with a core each.
    """
    rows = max(_LEAST, round(ROWS * scale))
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
        for repeat in range(repeats):  # in turn, and the better counts: other programs are running
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
    for rows in (max(_LEAST, round(FEW * min(1.0, 10 * scale))), max(_LEAST, round(MANY * scale))):
        with tempfile.TemporaryDirectory() as name:
            # The quick question, so that a million rows take minutes.
            config = make(Path(name), rows, criterion="Relative")
            code = (
                "import resource, sys\nfrom cfopt.cli import app\n"
                "try: app(sys.argv[1:])\n"
                "except SystemExit: pass\n"
                "print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
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
                    "bytes a row": sum(path.stat().st_size for path in _parts(out)) / rows,
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


def kills(scale: float, seed: int = 0) -> list[dict[str, Any]]:
    """Workers and clients killed at random moments; what is left in the end, byte by byte."""
    moments = random.Random(seed)
    rows = max(2000, round(20_000 * min(1.0, scale)))
    wanted = _KILLS
    with tempfile.TemporaryDirectory() as name:
        config = make(Path(name), rows, part=128)
        subprocess.run(
            command(config, "undisturbed", "--workers", "1"), check=True, capture_output=True
        )
        done = {"worker": 0, "client": 0}
        runs = 0
        while sum(done.values()) < wanted:
            runs += 1
            out = f"killed-{runs}"
            victim = None
            while victim != "none":
                victim = moments.choice(["worker", "client"])
                left = wanted - sum(done.values())
                if not left:
                    break
                victim = _disturb(
                    command(config, out, "--workers", "2"), config.parent / out, victim, moments
                )
                if victim != "none":
                    done[victim] += 1
        for run in range(1, runs + 1):
            subprocess.run(
                command(config, f"killed-{run}", "--workers", "2"), check=True, capture_output=True
            )
        truth = digests(config.parent / "undisturbed")
        same = [digests(config.parent / f"killed-{run}") == truth for run in range(1, runs + 1)]
    return [
        {
            "rows": rows,
            "parts": len(truth),
            "runs": runs,
            "workers killed": done["worker"],
            "clients killed": done["client"],
            "runs with the same bytes": f"{sum(same)} of {len(same)}",
        }
    ]


def _disturb(words: list[str], folder: Path, victim: str, moments: random.Random) -> str:
    """Start or resume a run and kill one process of it; which, or "none" if the run has ended."""
    before = len(_parts(folder))
    quiet = subprocess.DEVNULL
    client = subprocess.Popen(words, stdout=quiet, stderr=quiet)
    while len(_parts(folder)) == before and client.poll() is None:
        time.sleep(0.02)
    time.sleep(moments.uniform(0.0, 1.0))
    if client.poll() is not None:
        return "none"
    if victim == "worker":
        workers = _children(client.pid)
        if workers:
            os.kill(moments.choice(workers), signal.SIGKILL)
            time.sleep(moments.uniform(0.2, 1.0))
    client.kill()
    client.wait()
    return victim


def _parts(folder: Path) -> list[Path]:
    return list((folder / "explanations").glob("part-*.parquet"))


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(one) for one in found.read_text().split()] if found.exists() else []


def inside_parts(scale: float = 1.0) -> list[dict[str, Any]]:
    """Where the CPU time of parts goes: solver, predictor and master, and all else.

    Whole parts, read, explained and written, in batches as large as those of a run of 100,000 rows
    (of the model of 100 columns smaller ones, since a row takes so long). The solver is
    `Problem.attempt`; the predictor its forward and backward passes; the master the quadratic
    program over cuts or tangent planes, from which the next point comes, with the rows that are
    added to it. What makes these rows, verification, the check of proofs, and reading and writing
    are all else.
    """
    lines = []
    for name, build in _PIPELINES.items():
        clock, total, rows = _Clock(), 0.0, 0
        with tempfile.TemporaryDirectory() as folder, of_torch(1):
            work = cfopt.fleet.explain_dataset(**build(scale), folder=folder).work
            kept = RunFolder(Path(folder), work)
            kept.make()
            work.explain(range(1))  # loads what is loaded once
            largest = max(len(part) for part in work.parts)
            with clock.watching():
                for k, part in enumerate(work.parts):
                    if len(part) == largest:
                        start = time.process_time()
                        keep_part(kept, k)
                        total += time.process_time() - start
                        rows += len(part)
        lines.append(
            {
                "pipeline": name,
                "rows": rows,
                "batch": work.batch,
                "ms of CPU a row": 1000 * total / rows,
                **{f"{what}, %": 100 * spent / total for what, spent in clock.spent.items()},
                "outside, %": 100 * (1 - sum(clock.spent.values()) / total),
            }
        )
    return lines


class _Clock:
    """CPU time within some functions, the outermost of them only."""

    def __init__(self) -> None:
        self.spent = {"solver": 0.0, "predictor": 0.0, "master": 0.0}
        self._inside = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        places = [
            (Problem, "attempt", "solver"),
            (Pipeline, "predict", "predictor"),
            (Pipeline, "deployed", "predictor"),
            (torch.autograd, "grad", "predictor"),
            (Master, "solve", "master"),
            (Master, "hurry", "master"),
            (Master, "add", "master"),
            (tangents, "nearest_by_dual", "master"),
        ]
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        for (owner, name, what), (_, _, call) in zip(places, before, strict=True):
            setattr(owner, name, self._timed(call, what))
        try:
            yield
        finally:
            for owner, name, call in before:
                setattr(owner, name, call)

    def _timed(self, call: Callable[..., Any], what: str) -> Callable[..., Any]:
        def timed(*given: Any, **more: Any) -> Any:
            if self._inside:
                return call(*given, **more)
            self._inside, start = True, time.process_time()
            try:
                return call(*given, **more)
            finally:
                self._inside = False
                self.spent[what] += time.process_time() - start

        return timed


def _grid(scale: float) -> dict[str, Any]:
    rows = 1024 * (1 + max(1, round(10 * scale)))
    bench = tasks.grid(pool=rows)
    return {
        "data": bench.contexts,
        "pipeline": bench.pipeline,
        "criterion": cfopt.Absolute(bench.alternatives),
    }


def _milp(scale: float) -> dict[str, Any]:
    """A mixed-integer model of 100 columns: a knapsack with two rows."""
    rows = 16 * max(1, round(4 * scale))
    generator = np.random.default_rng(0)
    weights = generator.integers(1, 20, (2, 100)).astype(float)
    problem = MILP(
        weights, np.full(2, -np.inf), weights.sum(1) / 4, upper=1.0, integer=True, sense="max"
    )
    layer = torch.nn.Linear(10, 100).double()
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(generator.standard_normal((100, 10))))
        layer.bias.fill_(8.0)
    pipeline = Pipeline(layer, problem)
    x = torch.from_numpy(generator.standard_normal((rows, 10)))
    plans = pipeline.decide(x + 0.05 * torch.from_numpy(generator.standard_normal(x.shape)))
    criterion = cfopt.Relative(plans)
    return {"data": x, "pipeline": pipeline, "criterion": criterion, "batch": 16, "part": 16}


def _terrain(scale: float) -> dict[str, Any]:
    rows = 16 * max(1, round(4 * scale))
    models = cfopt.load_terrain(2 * rows)
    plans = models.pipeline.decide(models.maps[rows:])
    return {
        "data": models.maps[:rows],
        "pipeline": models.pipeline,
        "criterion": cfopt.Absolute(plans),
        "part": 16,
    }


_PIPELINES = {"grid, 5x5": _grid, "MILP, 100 columns": _milp, "terrain, pixels": _terrain}


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
