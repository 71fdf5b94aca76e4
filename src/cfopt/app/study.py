"""The paper's study, which is a package of its own, found through its entry point."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast

from rich.console import Console

from cfopt.errors import MissingExtraError

#: Where a package says what `cfopt reproduce` calls, under this name.
GROUP, NAME = "cfopt.studies", "paper"


class Reproduce(Protocol):
    """What the entry point of a study names."""

    def __call__(
        self,
        names: list[str],
        scale: str,
        out: Path | None,
        seed: int,
        data: Path | None,
        console: Console,
    ) -> None:
        """Run the experiments of these names, or list all experiments if there are no names."""


def find_study() -> Reproduce:
    """The function that reproduces the paper; MissingExtraError if its package is not installed."""
    for found in entry_points(group=GROUP, name=NAME):
        return cast(Reproduce, found.load())
    raise MissingExtraError(
        "`cfopt reproduce` needs the package cfopt-paper, which is not installed. It comes with "
        "the source code of cfopt: get a checkout, and run `make setup` or `pip install ./paper` "
        "there."
    )
