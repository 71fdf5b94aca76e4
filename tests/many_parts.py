"""Runs of many parts that do not end before a test lets them."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pandas as pd
from tests.commands import change

_NUMBERS = itertools.count()
#: A search that leaves a mark in the folder `held` for each part, and waits where there are enough
#: of them, as long as there is the folder.
_WAITING = """
import os
import time
from pathlib import Path

from cfopt.search import MDMM

HELD = Path(__file__).with_name("held")


class Waiting(MDMM):
    def steps(self, task):
        while HELD.exists() and len(os.listdir(HELD)) >= 4:
            time.sleep(0.01)
        if HELD.exists():
            (HELD / f"{os.getpid()} {time.monotonic_ns()}").touch()
        yield from super().steps(task)
"""


class Held:
    """The example with a part for each two rows, of which all but a few wait.

    Arguments:
        example: the configuration, which is changed.
        times: ten rows each.
    """

    def __init__(self, example: Path, times: int) -> None:
        table = pd.read_csv(example.parent / "contexts.csv")
        pd.concat([table.assign(rain=table["rain"] + k / 7) for k in range(times)]).to_csv(
            example.parent / "contexts.csv", index=False
        )
        module = f"waiting_{next(_NUMBERS)}"  # another one for each test of a process
        (example.parent / f"{module}.py").write_text(_WAITING)
        change(example, "# [run]\n# batch = 64", "[run]\npart = 2")
        change(example, 'kind = "Auto"', f'class = "{module}:Waiting"\nmax_steps = 60')
        self._folder = example.parent / "held"
        self.hold()

    def hold(self) -> None:
        """Let only a few parts be explained from now on."""
        self._folder.mkdir()

    def release(self) -> None:
        """Let all parts be explained."""
        shutil.rmtree(self._folder)
