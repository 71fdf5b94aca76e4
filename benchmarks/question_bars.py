"""What further questions cost beside the plain one: CPU time, side by side, best of several runs.

The bars: a partial wish at most 5 times an absolute explanation with its full plan, few changes at
most 10 times, five options at most 8 times, a ball at most 1.5 times the plain question.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import cfopt
from benchmarks.questions_wishes import wishes
from benchmarks.tasks import KINDS, Bench
from cfopt.names import counted

#: Tasks of each kind that are asked at once.
_TASKS = 100
#: Changes that are asked about, options, and how far contexts may be off.
_MOST, _OPTIONS, _RADIUS = 5, 5, 0.1
#: How often each is asked, in turns with the plain question; the quickest run counts.
_REPEATS = 5
_BAR_WISH, _BAR_CHANGES, _BAR_OPTIONS, _BAR_BALL = 5.0, 10.0, 8.0, 1.5


@dataclass(frozen=True)
class _Question:
    """A question that is measured: its words, how to ask it, and what it may cost."""

    words: str
    ask: Callable[[], cfopt.Explanation]
    bar: float


def bars(bench: Bench, tasks: int = _TASKS, repeats: int = _REPEATS) -> list[dict[str, Any]]:
    """All kinds of further questions about the tasks of a bench, each beside the plain one."""
    rows = slice(0, tasks)
    x0, lines = bench.contexts[rows], []
    for kind in KINDS:
        ask = partial(cfopt.explain, x0, bench.pipeline, bench.criterion(kind, rows))
        asked = [
            _Question(
                f"at most {counted(most, 'change')}",
                partial(ask, features=cfopt.Features(max_changes=most)),
                _BAR_CHANGES,
            )
            for most in range(1, _MOST + 1)
        ]
        asked.append(_Question(f"{_OPTIONS} options", partial(ask, options=_OPTIONS), _BAR_OPTIONS))
        ball = cfopt.Ball(_RADIUS)
        asked.append(_Question(f"a ball of {_RADIUS}", partial(ask, robust=ball), _BAR_BALL))
        lines += _beside(f"{bench.name}, {kind}", ask, asked, tasks, repeats)
    return lines


def wish_bars(bench: Bench, tasks: int = _TASKS, repeats: int = _REPEATS) -> list[dict[str, Any]]:
    """Partial wishes beside absolute explanations with the full plans that they come down to."""
    x0, total = bench.contexts[:tasks], []
    given = [foil for foil, _ in zip(wishes(bench.pipeline.problem, 0), range(4), strict=False)]
    for foil in given:
        e = cfopt.explain(x0, bench.pipeline, cfopt.Absolute(foil))
        full = partial(cfopt.explain, x0, bench.pipeline, cfopt.Absolute(e.wanted))
        wish = partial(cfopt.explain, x0, bench.pipeline, cfopt.Absolute(foil))
        words = f"a wish: {foil.on(bench.pipeline.problem).phrase}"
        question = _Question(words, wish, _BAR_WISH)
        total += _beside(f"{bench.name}, absolute", full, [question], tasks, repeats)
    return total


def _beside(
    name: str,
    plain: Callable[[], cfopt.Explanation],
    asked: list[_Question],
    tasks: int,
    repeats: int,
) -> list[dict[str, Any]]:
    found = [question.ask() for question in asked]  # nothing is loaded or listed later
    plain()
    least = [float("inf")] * (len(asked) + 1)
    for _ in range(repeats):
        for k, ask in enumerate([plain, *(question.ask for question in asked)]):
            began = time.process_time()
            ask()
            least[k] = min(least[k], time.process_time() - began)
    lines = []
    for question, seconds, e in zip(asked, least[1:], found, strict=True):
        every = e.every_option()
        proved = torch.tensor([s is cfopt.Status.PROVED_INFEASIBLE for s in every.status])
        lines.append(
            {
                "tasks": name,
                "asked": question.words,
                "answers": len(every),
                "optimal or proved, %": 100 * float((every.optimal | proved).double().mean()),
                "CPU ms/task, plain": 1e3 * least[0] / tasks,
                "CPU ms/task": 1e3 * seconds / tasks,
                "ratio": seconds / least[0],
                "bar": question.bar,
                "kept": "yes" if seconds <= question.bar * least[0] else "no",
            }
        )
    return lines
