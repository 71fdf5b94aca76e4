"""Help texts of commands without names of Python's types."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup


class PlainCommand(TyperCommand):
    """A command whose help says what arguments mean, and not that a flag is a `<bool>`.

    Its paragraphs are wrapped to the terminal, not where the source wraps them.
    """

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(one.split()) for one in paragraphs)

    def get_params(self, ctx: Any) -> list[Any]:
        """Options and arguments, `--help` among them."""
        return _untyped(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The same for all commands together."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options, `--help` among them."""
        return _untyped(super().get_params(ctx))


def _untyped(params: Iterable[Any]) -> list[Any]:
    """Take away the types of arguments and flags; options have words for their values."""
    found = list(params)
    for param in found:
        if param.param_type_name == "argument" or getattr(param, "is_flag", False):
            vars(param)["display_type_rich"] = _nothing
    return found


def _nothing(ctx: Any) -> None:
    return None
