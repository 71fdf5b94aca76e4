"""The names by which criteria, searches, problems and so on are known outside of Python.

A class enters with a decorator, in the file that defines it:

    @registry.criteria.register
    @dataclass(frozen=True, eq=False)
    class NearBest(Contrastive): ...

or as an entry point of an installed package, in the group "cfopt.criteria". The configuration, the
explorer and JSON read the same tables.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from cfopt.errors import InputError
from cfopt.names import nearest

C = TypeVar("C", bound=Callable[..., Any])


class Registry:
    """Classes, or functions that build something, by their names; case does not matter.

    Arguments:
        noun: what they are, such as "search".
        group: entry points in this group are entered too.
        home: the module in which the entries of cfopt itself are defined.
    """

    def __init__(self, noun: str, group: str, home: str) -> None:
        self.noun, self.group, self._home = noun, group, home
        self._entries: dict[str, Callable[..., Any]] = {}

    def register(self, one: C) -> C:
        """Enter a class or function under its own name, as a decorator."""
        name = one.__name__
        known = self._entries.get(name)
        if known is not None and known.__module__.startswith("cfopt.") and known is not one:
            raise InputError(f"cfopt has a {self.noun} {name!r} of its own. Choose another name.")
        self._entries[name] = one
        return one

    def names(self) -> list[str]:
        """All names, those of cfopt first."""
        installed = [point.name for point in entry_points(group=self.group)]
        return list(dict.fromkeys([*self._own(), *installed]))

    def __contains__(self, name: str) -> bool:
        """Whether this is a name, in its own case."""
        # Installed packages are looked through only for what is not here: that takes a while.
        return name in self._own() or name in self.names()

    def _own(self) -> list[str]:
        """The names of all that has entered itself, with that of cfopt."""
        home = import_module(self._home)
        for name in getattr(home, "__all__", ()):
            getattr(home, name)  # which may be loaded on first use, and enter itself then
        return list(self._entries)

    def find(self, name: str) -> Any:
        """What has this name; InputError, with the nearest one, if nothing does."""
        found = _same(name, self._own()) or _same(name, self.names())
        if found is None:
            raise InputError(nearest(self.noun, name, self.names()))
        if found not in self._entries:
            (point,) = list(entry_points(group=self.group, name=found))[:1]
            self._entries[found] = point.load()
        return self._entries[found]

    def name_of(self, one: object) -> str | None:
        """The name of a class or function, if it has one."""
        return next((name for name, entry in self._entries.items() if entry is one), None)


def _same(name: str, names: list[str]) -> str | None:
    """The name among these that is the same, but for case."""
    return next((known for known in names if known.lower() == name.lower()), None)


criteria = Registry("criterion", "cfopt.criteria", "cfopt.question")
problems = Registry("problem", "cfopt.problems", "cfopt.problems")
searches = Registry("search", "cfopt.searches", "cfopt.search")
proximities = Registry("proximity", "cfopt.proximities", "cfopt.question.proximity")
plausibilities = Registry("plausibility", "cfopt.plausibilities", "cfopt.question")
robustness = Registry("robustness", "cfopt.robustness", "cfopt.question")
generative_models = Registry("generative model", "cfopt.generative_models", "cfopt.generative")
predictors = Registry("predictor", "cfopt.predictors", "cfopt.predictors")
adapters = Registry("adapter", "cfopt.adapters", "cfopt.adapters")
