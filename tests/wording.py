"""What reports and summaries say, word for word, pinned in two files.

`python -m tests.wording` writes them again: read the difference before it is committed. Other
tests ask for statuses and values, so that a better sentence is a change in one place. Numbers are
left out, since they are measured elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tests.pipelines import another, asking, normal, random_linear

import cfopt
from cfopt.exact.certificate import Clash
from cfopt.problems import GridShortestPath
from cfopt.report.overview import overview
from cfopt.report.sentences import effort, proof, question, verdict
from cfopt.result.status import Status

FOLDER = Path(__file__).parent / "report"


def grid_question(**options: object) -> cfopt.Explanation:
    """Six contexts of a 3 x 3 grid, each asked for a route that is not the one decided."""
    pipeline, x0 = _pipeline(), normal(6, 4)
    criterion = options.pop("criterion", None) or cfopt.Absolute(another(pipeline, x0))
    return cfopt.explain(x0, pipeline, criterion, **options)  # type: ignore[arg-type]


def each_status() -> cfopt.Explanation:
    """A 3 x 3 grid with a task of each status, in the order of the statuses."""
    pipeline, x0 = _pipeline(), normal(40, 4).clamp(-1, 1)
    features = cfopt.Features(
        names=["rain", "wind", "night", "roadworks"], lower=-1, upper=1, immutable=["night"]
    )
    wanted = another(pipeline, x0)
    wanted[0] = pipeline.decide(x0[:1])[0]
    x0[1, 0] = torch.nan
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), features=features)
    rows = [e.status.index(s) for s in Status if s in e.status]
    tried = replace(
        e[rows[0]],
        status=(Status.SAMPLED,),
        message=(f"{e.message[rows[0]]}: held at every one of 97 points, which is no proof",),
    )
    missed = replace(
        e[rows[0]],
        status=(Status.BEST_EFFORT,),
        message=("no valid context found in 9 steps; the alternative still costs 1 more",),
        bound=torch.tensor([torch.nan], dtype=torch.float64),
    )
    parts = [e[rows[0]], e[rows[1]], tried, missed, e[rows[2]], e[rows[3]]]
    return cfopt.Explanation.concat(parts)


def _pipeline() -> cfopt.Pipeline:
    predictor = random_linear(4, 12)
    with torch.no_grad():  # else all routes would cost the same at 0, and every one be possible
        predictor.bias.copy_(5 + normal(12, seed=3))
    return cfopt.Pipeline(predictor, GridShortestPath(3, 3))


def _report() -> Iterator[str]:
    """Titles and sentences of a report."""
    mixed = each_status()
    whole = overview(mixed, 2.5)
    yield f"# All tasks\n{whole.asked}\n{whole.lede}\n{whole.trend}"
    yield "\n".join(f"{one.plain}: {one.meaning}" for one in whole.counts)
    few = grid_question(features=cfopt.Features(max_changes=2), robust=cfopt.Ball(0.05), margin=0.1)
    yield f"# Few changes, robust, by a margin\n{overview(few, 2.5).asked}"
    valid = mixed[0]
    alternative = valid.alternative
    assert alternative is not None
    own = grid_question(criterion=cfopt.Absolute(grid_question().factual), margin=0.3)
    asked = {
        **{str(status): one for status, one in zip(mixed.status, mixed, strict=True)},
        "a margin": _first(grid_question(margin=0.3)),
        "relative": _first(grid_question(criterion=cfopt.Relative(alternative[0]))),
        "relative, by a margin": asking(valid, criterion=cfopt.Relative(alternative), margin=0.05),
        "epsilon": _first(grid_question(criterion=cfopt.Epsilon(0.25))),
        "epsilon, by a margin": _first(grid_question(criterion=cfopt.Epsilon(0.2), margin=0.1)),
        "a decision asked for itself": _first(own),
        "L1": _first(grid_question(proximity=cfopt.L1())),
        "a gap": replace(valid, bound=valid.loss / 4),
        "no bound": replace(valid, bound=valid.loss * torch.nan),
        "a bound without an answer": replace(mixed[3], bound=valid.loss),
    }
    for name, one in asked.items():
        yield f"# {name}\n{question(one)}\n{verdict(one)}\n{' '.join(proof(one))}\n{effort(one)}"
    rivals = np.asarray(valid.problem.decisions())[:2]
    clashes = {
        "rivals, limits and a lock": Clash(rivals, ("rain", "wind"), ("night",), 40.0),
        "nothing but rivals": Clash(rivals, (), (), np.inf),
        "all decisions, one by one": Clash(np.empty((0, 1)), (), (), np.inf),
    }
    for name, clash in clashes.items():
        yield f"# {name}\n{' '.join(proof(replace(mixed[4], clash=(clash,))))}"


def _summaries() -> Iterator[str]:
    """Summaries for the terminal."""
    mixed = each_status()
    yield f"# Each status\n{mixed.summary()}"
    for status, one in zip(mixed.status, mixed, strict=True):
        yield f"# {status}\n{one.summary()}"
    yield f"# Epsilon\n{_first(grid_question(criterion=cfopt.Epsilon(0.2))).summary()}"
    few = cfopt.Features(["a", "b", "c", "d"], max_changes=2)
    several = grid_question(criterion=cfopt.Epsilon(0.2), features=few, options=2)
    yield f"# Few changes, and options\n{several[0].summary()}\n\n{several.summary()}"
    priced = grid_question(prices=cfopt.Prices())
    yield f"# Prices\n{_first(priced).summary()}\n\n{priced.summary()}"
    robust = grid_question(robust=cfopt.Ball(0.05))
    yield f"# Robust\n{_first(robust).summary()}"


def _first(e: cfopt.Explanation) -> cfopt.Explanation:
    return e[e.status.index(Status.VALID)]


def _plain(sections: Iterator[str]) -> str:
    """Sections without numbers, and with one form of what is counted."""
    text = "\n\n".join(sections)
    text = re.sub(r"(?<![A-Za-z])[-+\N{MINUS SIGN}]?\d+(\.\d+)?(e[-+]\d+)?", "#", text)
    return re.sub(r"# (step|call|tie|context|solver call)s?\b", r"# \1s", text) + "\n"


WORDING: dict[str, Callable[[], str]] = {
    "report_wording.txt": lambda: _plain(_report()),
    "summary_wording.txt": lambda: _plain(_summaries()),
}

if __name__ == "__main__":
    for name, words in WORDING.items():
        (FOLDER / name).write_text(words(), encoding="utf-8")
