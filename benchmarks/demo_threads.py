"""`cfopt demo` as it is, beside one thread for everything: by turns, while all cores are busy.

`python -m benchmarks.demo_threads --turns 2` prints seconds and their ratio; it takes a quarter
of an hour, with `--maps 1` some minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager


def measure(turns: int, maps: int) -> dict[str, float]:
    """The least seconds of each kind, and how many times as long the command takes as it is.

    Arguments:
        turns: runs of each kind.
        maps: how many the demonstration explains.
    """
    usual = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    kinds = {"as it is": usual, "one thread": usual | {"OMP_NUM_THREADS": "1"}}
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    with _busy():
        for _ in range(turns):
            for name, environment in kinds.items():
                taken[name].append(_demo(environment, maps))
    least = {name: min(seconds) for name, seconds in taken.items()}
    return least | {"ratio": least["as it is"] / least["one thread"]}


def _demo(environment: dict[str, str], maps: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        command = [sys.executable, "-m", "cfopt", "demo", "--out", folder, "--maps", str(maps)]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start


@contextmanager
def _busy() -> Iterator[None]:
    """Another program on each core."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo_threads", description=__doc__)
    parser.add_argument("--turns", type=int, default=2, help="runs of each kind")
    parser.add_argument("--maps", type=int, default=6, help="maps that are explained")
    given = parser.parse_args()
    for name, value in measure(given.turns, given.maps).items():
        print(f"{name}: {value:.2f}")
