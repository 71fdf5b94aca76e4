"""The same tasks for cfopt and for other libraries, judged by the same measures."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import cfopt
from benchmarks.peers.cases import Case, cases
from benchmarks.peers.environments import PEERS
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.running.threads import of_torch
from cfopt.search import Search

#: Distances are compared up to this fraction.
_SAME = 1e-6


@dataclass(frozen=True)
class Given(Search):
    """Answers of somebody else, to be verified as those of any search are.

    Arguments:
        x: an answer for each row, `(B, p)`; NaN where there is none.
    """

    x: Tensor

    def steps(self, task: Task) -> Iterator[Progress]:
        none, count = self.x.isnan().any(1), len(self.x)
        x = torch.where(none[:, None], task.space.origin, self.x)
        zeros = torch.zeros(count, dtype=torch.long)
        points = Points(torch.arange(count), x, ~none, zeros, zeros, zeros)
        yield Progress(1, 0, count, points)


@dataclass(frozen=True, eq=False)
class Answers:
    """What one method answered.

    Arguments:
        method: its name and setting.
        x: its answers, `(B, p)`; NaN where it has none.
        seconds: CPU seconds of each row, `(B,)`.
        proved: whether it says that no answer is nearer, `(B,)`.
        bounds: the least loss of each row, proved and checked, `(B,)`; NaN where nothing is.
    """

    method: str
    x: np.ndarray
    seconds: np.ndarray
    proved: np.ndarray
    bounds: np.ndarray


def compare() -> list[dict[str, Any]]:
    """A line for each predictor and method; ends with an error if a proved bound is undercut."""
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for case in cases():
            folder = Path(name) / case.name
            case.write(folder)
            found = [*_ours(case), *_theirs(case, folder)]
            least = {
                "L1": _least(found, "cfopt, L1"),
                "L2": np.sqrt(_least(found, "cfopt, L2")),
            }
            lines += [judged(case, one, least) for one in found]
    return lines


def _ours(case: Case) -> Iterator[Answers]:
    """cfopt's default search, by either distance, and the paper's with its settings."""
    scale = case.known.std(axis=0)
    asked: dict[str, dict[str, Any]] = {
        "cfopt, L1": {"proximity": cfopt.L1(scale)},
        "cfopt, L2": {"proximity": cfopt.L2(scale)},
    }
    if case.differentiable:
        # The larger one of the paper's two steps: with the other, most rows do not end in time.
        search = cfopt.MDMM(step=0.1)
        asked["CF-OPT's own search"] = {"search": search, "proximity": cfopt.L2(scale)}
    for name, options in asked.items():
        x, seconds, bounds = [], [], []
        with of_torch(1):
            cfopt.explain(case.x0[:1], case.pipeline, case.criterion, **options)  # compiles
            for row in torch.split(case.x0, 1):
                start = time.process_time()
                e = cfopt.explain(row, case.pipeline, case.criterion, **options)
                seconds.append(time.process_time() - start)
                x.append(e.x[0].numpy() if e.valid[0] else np.full(row.shape[1], np.nan))
                bounds.append(float(e.bound[0]) if e.optimal[0] else np.nan)
        least = np.array(bounds)
        yield Answers(name, np.stack(x), np.array(seconds), ~np.isnan(least), least)


def _theirs(case: Case, folder: Path) -> Iterator[Answers]:
    """Every other library that can be installed here, with each of its settings."""
    for peer in PEERS:
        python = peer.python()
        if python is not None:
            peer.ask(python, folder)
        for file in sorted(folder.glob(f"answers {peer.name}*.npz")):
            found = np.load(file, allow_pickle=False)
            x, seconds = found["x"], found["seconds"]
            name = file.stem.removeprefix("answers ")
            yield Answers(name, x, seconds, found["proved"], np.full(len(x), np.nan))


def _least(found: list[Answers], method: str) -> np.ndarray:
    (bounds,) = (one.bounds for one in found if one.method == method)
    return bounds


def judged(case: Case, answers: Answers, least: dict[str, np.ndarray]) -> dict[str, Any]:
    """Verify answers as those of any search are, and take their measures: a line of the table.

    Arguments:
        case: what was asked.
        answers: of one method.
        least: the proved least L1 and L2 of each row, `(B,)` each; NaN where nothing is proved.
    """
    scale = case.known.std(axis=0)
    e = cfopt.explain(
        case.x0,
        case.pipeline,
        case.criterion,
        search=Given(torch.from_numpy(answers.x)),
        proximity=cfopt.L1(scale),
    )
    measures = cfopt.metrics.evaluate_rows(
        e, pipeline=case.pipeline, reference=case.known, refits=case.refits, seed=0
    ).droplevel("group", axis=1)
    change = np.abs(e.x.numpy() - case.rows) / scale
    valid = e.valid.numpy()
    lengths = {"L1": change.sum(axis=1), "L2": np.sqrt(np.square(change).sum(axis=1))}
    line: dict[str, Any] = {
        "predictor": case.name,
        "method": answers.method,
        "rows": len(e),
        "answered": int((~np.isnan(answers.x[:, 0])).sum()),
        "valid": int(valid.sum()),
        "proved": int((answers.proved & valid).sum()),
    }
    for name, length in lengths.items():
        if (length[valid] < (1 - _SAME) * least[name][valid]).any():
            sys.exit(f"Error: {answers.method} undercuts a proved least {name} ({case.name}).")
        ratio = pd.Series((length / least[name])[valid])
        line |= {f"{name} / least": ratio.median(), f"{name} 95%": ratio.quantile(0.95)}
    for short, measure in _MEASURES.items():
        line[short] = float(measures[measure].mean())
    line["ms"] = 1000 * float(np.median(answers.seconds))
    line["ms 95%"] = 1000 * float(np.quantile(answers.seconds, 0.95))
    return line


#: Columns of the table, and the measures of which they are the mean.
_MEASURES = {
    "changed": "changed features",
    "redundant": "redundant features",
    "LOF": "local outlier factor",
    "isolation": "isolation score",
    "to known": "distance to 5 known that explain",
    "under noise": "valid under noise of 0.05",
    "under refits": "valid under refits",
}
