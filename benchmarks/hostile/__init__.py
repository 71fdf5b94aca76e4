"""The hostile trial: questions, predictors, modifiers and norms, and a judge of its own.

`python -m benchmarks hostile --rows 5000 --seed 0`; `--case 17` repeats one case. Cases are run in
a process of their own, some at a time, so that a crash costs one case and is counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from signal import SIGKILL, SIGXCPU
from typing import Any

from benchmarks.hostile.cases import make_case
from benchmarks.hostile.judge import FAILURES, OUTCOMES, judged

#: Cases of a process; seconds of a case after which it is given up, which does not come to its end
#: though it takes no CPU time.
_AT_ONCE, _PATIENCE = 50, 1800.0
WORKER = (sys.executable, "-m", "benchmarks.hostile.worker")
#: Outcomes that are told one by one.
_TOLD = (*FAILURES, "missed", "farther", "overrun")


def hostile(
    rows: int = 5000, seed: int = 0, report: Callable[[str], None] = print
) -> list[dict[str, Any]]:
    """A table with a line for each question and family.

    Arguments:
        rows: how many answers are judged.
        seed: the seed of the cases.
        report: called with each failure and each answer that was missed, in words.
    """
    counts: dict[tuple[str, str], Counter[str]] = {}
    done = 0
    for number, found in judgements(seed):
        case = make_case(seed, number)
        count = counts.setdefault((case.question, case.family), Counter())
        for row, (ended, why) in enumerate(found):
            count[ended] += 1
            count["proved"] += why == "proved"
            if ended in _TOLD:
                words = f"case {number}, row {row}: {case.words}: {why}"
                report(f"{ended}: seed {seed}, {words}")
        done += len(found)
        if done >= rows:
            break
    return [
        {"question": question, "family": family, "rows": sum(count[name] for name in OUTCOMES)}
        | {name: count[name] for name in (*reversed(OUTCOMES), "proved")}
        for (question, family), count in sorted(counts.items())
    ]


def repeat(seed: int, number: int) -> list[dict[str, Any]]:
    """One case again, in this process."""
    case = make_case(seed, number)
    print(case.words)
    return [
        {"row": row, "outcome": ended, "why": why} for row, (ended, why) in enumerate(judged(case))
    ]


def judgements(
    seed: int, worker: Sequence[str] = WORKER
) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Case after case: its number and how its rows ended, for ever.

    Arguments:
        seed: the seed of the cases.
        worker: the command that judges some of them; seed, first number and count are added.
    """
    number = 0
    while True:
        command = [*worker, str(seed), str(number), str(_AT_ONCE)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            end = number + _AT_ONCE
            try:
                while number < end and (line := _line(process)):
                    yield number, [(ended, why) for ended, why in json.loads(line)]
                    number += 1
            except GeneratorExit:  # there are enough
                process.kill()
                raise
        if number < end:
            ended = "overrun" if -process.returncode in (SIGKILL, SIGXCPU) else "crash"
            why = f"the process ended with code {process.returncode}"
            yield number, [(ended, why)] * make_case(seed, number).answers
            number += 1


def _line(process: subprocess.Popen[bytes]) -> bytes:
    """The next line of a process; empty if it ended, or had to be ended."""
    assert process.stdout is not None
    watch = threading.Timer(_PATIENCE, process.kill)
    watch.start()
    try:
        return process.stdout.readline()
    finally:
        watch.cancel()
