"""Code that a configuration names: what runs without being asked, and what needs `--trust`.

A configuration and the files beside it may come from someone else. So nothing in them is executed
unless the user says that they are trusted. What can execute code:

- import paths, other than those of models and problems in `cfopt` and of layers in `torch.nn`:
  importing a module runs it, and calling a function by its name can do anything;
- pickled weights (.pt, .pth, ...): unpickling can call any function;
- archives of `torch.export`: constants that cannot be read safely are unpickled, and expressions
  of symbolic sizes are evaluated.

Weights in safetensors, MPS and LP files, CSV, Parquet and .npy (object arrays are refused) cannot.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from cfopt import registry
from cfopt.errors import InputError, in_words
from cfopt.names import nearest
from cfopt.problems.base import Problem
from cfopt.question import Criterion
from cfopt.question.plausibility import Plausibility
from cfopt.question.proximity import Proximity
from cfopt.search import Search

#: Modules that are imported without being trusted.
_OPEN = (
    *("cfopt.predictors.", "cfopt.generative.", "cfopt.problems.", "cfopt.search."),
    *("cfopt.question.", "torch.nn."),
)
#: Packages whose classes may be built without being trusted.
_KNOWN = (*(name.rstrip(".") for name in _OPEN[:-1]), "torch.nn.modules")
_NOUNS = (nn.Module, Problem, Search, Proximity, Plausibility, Criterion)


@dataclass(frozen=True)
class Trust:
    """Whether the user trusts what the configuration names.

    Arguments:
        given: whether `--trust` was passed.
        folder: the folder of the configuration, where the user's own modules are looked for.
    """

    given: bool
    folder: Path

    def need(self, what: str) -> None:
        """Raise InputError unless trusted.

        Arguments:
            what: a statement with its reason, such as "m.pt is a pickle, which can execute code".
        """
        if not self.given:
            raise InputError(f"{what}. If you trust it, pass --trust.")

    def find(self, path: Any) -> Callable[..., Any]:
        """What an import path such as "package.module.Class" names.

        Arguments:
            path: dotted; a colon may stand before the last name.
        """
        module, _, name = str(path).replace(":", ".").rpartition(".")
        if not module or not name.isidentifier():
            raise InputError(f'class needs an import path, "module.Class"; got {path!r}.')
        if not f"{module}.".startswith(_OPEN):
            self.need(f"{path!r} may run code that is neither of cfopt nor of torch.nn")
        try:
            within = self._import(module)
        # Any: importing runs the user's own code, which may also want to end the process.
        except (Exception, SystemExit) as error:
            reason = in_words(error)
            raise InputError(f"{path!r} cannot be imported: {reason}") from error
        names = [known for known in dir(within) if self.given or not known.startswith("_")]
        if name not in names:
            hint = nearest("name", name, names).split(" There are:")[0]
            raise InputError(f"{path!r} cannot be imported: {hint} (in {module})")
        found: Callable[..., Any] = getattr(within, name)
        if not callable(found):
            raise InputError(f"{path!r} is a {type(found).__name__}, not a class.")
        if not is_known(found):
            self.need(f"{path!r} is neither a class of cfopt nor of torch.nn")
        return found

    def _import(self, module: str) -> Any:
        # Beside the configuration is where users keep their model. It stays on the path: what is
        # imported now may import more when it is called.
        beside = str(self.folder.resolve())
        if self.given and beside not in sys.path:
            sys.path.insert(0, beside)
        return import_module(module)


def is_known(found: Any) -> bool:
    """Whether building it runs nothing but code of cfopt and torch, however it was named."""
    if not str(getattr(found, "__module__", "")).startswith(_KNOWN):
        return False
    if isinstance(found, type):
        return issubclass(found, _NOUNS)
    return registry.predictors.name_of(found) is not None


def source_file(found: Callable[..., Any]) -> Path | None:
    """The file that defines something; None where there is none."""
    try:
        file = inspect.getsourcefile(found)
    except TypeError:
        file = None
    return None if file is None else Path(file)
