"""The paper's study, which is a package of its own, found through its entry point."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from rich.console import Console

from cfopt.errors import MissingExtraError

#: Where a package says what `cfopt reproduce` calls, under this name.
GROUP, NAME = "cfopt.studies", "paper"


def find_study() -> Callable[[list[str], str, Path | None, int, Path | None, Console], None]:
    """The function that reproduces the paper; MissingExtraError if its package is not installed.

    It takes the names of experiments (none to list them), scale, folder, seed, data and console.
    """
    for found in entry_points(group=GROUP, name=NAME):
        study: Callable[..., None] = found.load()
        return study
    raise MissingExtraError(
        "`cfopt reproduce` needs the package cfopt-paper, which is not installed. It comes with "
        "the source code of cfopt: get a checkout, and run `make setup` or `pip install ./paper` "
        "there."
    )
