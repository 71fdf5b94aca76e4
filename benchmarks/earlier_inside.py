"""Time fixed questions with whichever tree is on the path, in CPU seconds of one thread.

`earlier.py` runs this file with two trees. It uses only what both have: `cfopt.explain`, the
searches, and `benchmarks.tasks`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

import cfopt
from benchmarks import tasks

_ROWS = 100
_ONE_BY_ONE = 20
#: A question is asked again until it has taken so long.
_SECONDS = 2.0


def _at_once(bench: tasks.Bench, kind: str, search: cfopt.Search) -> list[cfopt.Explanation]:
    rows = slice(0, _ROWS)
    asked = bench.criterion(kind, rows)
    return [cfopt.explain(bench.contexts[rows], bench.pipeline, asked, search=search)]


def _one_by_one(bench: tasks.Bench) -> list[cfopt.Explanation]:
    rows = [slice(k, k + 1) for k in range(_ONE_BY_ONE)]
    return [
        cfopt.explain(bench.contexts[row], bench.pipeline, bench.criterion("absolute", row))
        for row in rows
    ]


def _timed(ask: Callable[[], list[cfopt.Explanation]], repeats: int) -> dict[str, object]:
    """The least time of some repetitions, of more where they are quick, and what was found."""
    taken: list[float] = []
    while len(taken) < repeats or sum(taken) < _SECONDS:
        start = time.process_time()
        answers = ask()
        taken.append(time.process_time() - start)
    valid = torch.cat([e.valid for e in answers])
    loss = torch.cat([e.loss for e in answers])
    return {"seconds": min(taken), "valid": int(valid.sum()), "loss": float(loss[valid].sum())}


def main(repeats: int) -> None:
    """Print one JSON object: what each question took, and what was found."""
    torch.set_num_threads(1)
    found = {}
    for bench in (tasks.grid(), tasks.knapsack()):
        for kind in tasks.KINDS:
            ask = partial(_at_once, bench, kind, cfopt.Auto())
            found[f"{bench.name}, {kind}"] = _timed(ask, repeats)
        ask = partial(_one_by_one, bench)
        found[f"{bench.name}, absolute, one by one"] = _timed(ask, repeats)
        ask = partial(_at_once, bench, "absolute", bench.search())
        found[f"{bench.name}, absolute, MDMM"] = _timed(ask, 2)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
