"""cfopt: why this decision, and what would have changed it?"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cfopt.public import *  # noqa: F403
else:
    # Loaded on first use: torch takes seconds, and the command line must answer at once.
    def __getattr__(name: str) -> object:
        """A public name, or a module."""
        if name == "__all__" or not name.startswith("__"):
            if name != "explain" and find_spec(f"cfopt.{name}"):
                return import_module(f"cfopt.{name}")
            public = import_module("cfopt.public")
            if name in ("__all__", *public.__all__):
                return globals().setdefault(name, getattr(public, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        """The public names too, before they are loaded."""
        return sorted({*globals(), *__getattr__("__all__")})

    class _Package(ModuleType):
        def __setattr__(self, name: str, value: object) -> None:
            # The function `explain` has the name of its module, which must not take its place.
            if name == "explain" and isinstance(value, ModuleType):
                value = value.explain
            super().__setattr__(name, value)

    sys.modules[__name__].__class__ = _Package
