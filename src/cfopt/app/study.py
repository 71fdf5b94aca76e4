"""The paper's study, which is a package of its own, found through its entry point."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from rich.console import Console

from cfopt.errors import MissingExtraError

#: Where a package says what `cfopt reproduce` calls, under this name.
GROUP, NAME = "cfopt.studies", "paper"

Study = Callable[[list[str], str, Path | None, int, Path | None, int | None, int, Console], None]


def find_study() -> Study:
    """The function that reproduces the paper; MissingExtraError if its package is not installed.

    It takes the names of experiments (none to list them), scale, folder, seed, data, the number of
    tasks a point (None for the scale's own), the number of processes, and console.
    """
    for found in entry_points(group=GROUP, name=NAME):
        study: Study = found.load()
        return study
    raise MissingExtraError(
        "`cfopt reproduce` needs the package cfopt-paper, which is not installed. It comes with "
        "the source code of cfopt: get a checkout, and run `make setup` or `pip install ./paper` "
        "there."
    )
