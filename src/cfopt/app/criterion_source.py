"""The table of a criterion, whose own fields are keys, and where its alternatives come from."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from pydantic import Field, ValidationInfo

from cfopt import registry
from cfopt.app.schema import Table, TableError, kind_of, settings_of
from cfopt.app.sources import File
from cfopt.errors import InputError
from cfopt.problems.foil import Foil
from cfopt.problems.foil_text import WISHES, foil_of
from cfopt.question import Criterion

#: Where alternatives may come from.
_PLACES = ("alternatives", "decision_of_row", "optimum_of_row")


class CriterionSource(Table):
    """The criterion, and where its alternatives come from; its own fields are further keys.

    Arguments:
        margin: the fraction by which it must hold.
        options: how many answers that differ in kind each row gets, at most.
        alternatives: a file of decisions.
        decision_of_row: rows whose decisions are the alternatives: one for all, or one each.
        optimum_of_row: rows whose true optima are the alternatives; "own" gives each row its own.
        costs: the file of true costs.
        uses, avoids, at_least, at_most, conditions: in place of alternatives, a wish.
    """

    margin: float = 0.0
    options: int = Field(default=1, ge=1)
    alternatives: File | None = None
    decision_of_row: Any = None
    optimum_of_row: Any = None
    costs: File | None = None
    uses: Any = None
    avoids: Any = None
    at_least: Any = None
    at_most: Any = None
    conditions: Any = None
    #: What is asked for.
    target: ClassVar[type[Criterion]]

    @classmethod
    def known_keys(cls) -> list[str]:
        """The keys that it may have: without an alternative, none that says where it is."""
        hidden = () if cls.target.contrasts else (*_PLACES, "costs", *WISHES)
        return [key for key in super().known_keys() if key not in hidden]

    def wish(self) -> Foil | None:
        """The wish, if there is one in place of alternatives."""
        given = {key: value for key in WISHES if (value := getattr(self, key)) is not None}
        return foil_of(given) if given else None

    @classmethod
    def of(cls, given: Any, info: ValidationInfo) -> CriterionSource | None:
        """What a table says; None if it names a class that waits for trust."""
        kind = kind_of(registry.criteria, None, given, info)
        if kind is None:
            return None
        if not (isinstance(kind, type) and issubclass(kind, Criterion)):
            raise TableError(f"{given['class']!r} is not a criterion.")
        wished = kind.contrasts and any(key in given for key in WISHES)
        read: CriterionSource = _criterion_table(kind, wished).read(given, info.context)
        named = [key for key in _PLACES if key in given]
        if wished and named:
            raise TableError(f"a wish and {named[0]} exclude each other: give one of them.")
        try:
            read.wish()
        except InputError as error:
            raise TableError(str(error)) from error
        if (read.costs is None) is not (read.optimum_of_row is None):
            raise TableError("costs and optimum_of_row belong together: give both, or neither.")
        return read

    @property
    def settings(self) -> dict[str, Any]:
        """The criterion's own fields."""
        return self.given(*CriterionSource.model_fields)


@cache
def _criterion_table(kind: type[Criterion], wished: bool) -> Any:
    places = _PLACES if kind.contrasts and not wished else ()
    own = {"target": kind, "one_of": places, "__module__": __name__}
    return settings_of(kind, kind.row_fields(), type("_Source", (CriterionSource,), own))
