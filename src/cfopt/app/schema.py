"""Plain values of a configuration or a request, checked by pydantic; mistakes become sentences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)
from torch import Tensor

from cfopt import registry
from cfopt.errors import InputError
from cfopt.names import nearest
from cfopt.plausibility import Plausibility
from cfopt.proximity import Proximity
from cfopt.registry import Registry
from cfopt.search import Search

#: What pydantic's complaints about a type come down to.
_NEEDS = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "is_sequence_of": "a list",
    "dict_type": "a table",
    "table": "a table",
}
_NOUNS: tuple[tuple[type, Registry], ...] = (
    (Search, registry.searches),
    (Proximity, registry.proximities),
    (Plausibility, registry.plausibilities),
)


class TableError(InputError):
    """What is wrong with a table, and in which of the tables within it.

    Arguments:
        text: a sentence.
        within: the names of the tables, from the outermost one.
    """

    def __init__(self, text: str, within: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.within = within

    @classmethod
    def of(cls, error: ValidationError, given: Any) -> TableError:
        """The first mistake that pydantic found in some values."""
        first = error.errors(include_url=False)[0]
        within, key = _place(first["loc"], given)
        inner = first.get("ctx", {}).get("error")
        kind, got = first["type"], first["input"]
        if isinstance(inner, TableError):
            return cls(str(inner), (*within, *inner.within))
        if inner is not None:
            return cls(str(inner), within)
        if kind == "missing":
            return cls(f"{first['loc'][-1]} is missing.", within)
        if kind in _NEEDS:
            return cls(f"{key} needs {_NEEDS[kind]}, got {got!r:.60}.", within)
        said = first["msg"].replace("Input should be", "needs to be")
        said = said.replace("greater than or equal to", "at least")
        return cls(f"{key} {said}, got {got!r:.60}.", within)


def _place(loc: tuple[int | str, ...], given: Any) -> tuple[tuple[str, ...], str]:
    """The tables that lead to a value, and its key in the last of them."""
    within: list[str] = []
    key = ""
    for part in loc:
        try:
            given = given[part]
        except (KeyError, IndexError, TypeError):  # pydantic's own name for a choice of types
            continue
        key = part if isinstance(part, str) else key
        if isinstance(given, dict):
            within.append(key)
    return tuple(within), key


class Table(BaseModel):
    """A table of values in which an unknown key is a mistake."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True
    )

    @classmethod
    def known_keys(cls) -> list[str]:
        """The keys that it may have."""
        return [one.alias or name for name, one in cls.model_fields.items()]

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        if isinstance(given, dict):
            known = cls.known_keys()
            for key in given:
                if key not in known:
                    raise TableError(nearest("key", key, known))
        return given

    @classmethod
    def read(cls, given: Any, context: Mapping[str, Any] | None = None) -> Any:
        """The table of some values; TableError if something is wrong with them."""
        if not isinstance(given, dict):
            raise TableError(f"a table is needed, got {given!r:.60}.")
        try:
            return cls.model_validate(given, context=context)
        except ValidationError as error:
            raise TableError.of(error, given) from error


@cache
def settings_of(kind: Callable[..., Any], skip: tuple[str, ...] = ()) -> type[Table]:
    """The arguments of a class or function as a table.

    Arguments:
        kind: what takes them.
        skip: arguments that are not set by plain values.
    """
    try:
        # A dataclass is asked itself, as the types of inherited fields are named elsewhere.
        bare = isinstance(kind, type) and not is_dataclass(kind)
        hints = get_type_hints(kind.__init__ if bare else kind)
    # Any: annotations of classes from elsewhere may name what is imported for checkers only.
    except Exception:
        hints = {}
    entries: dict[str, Any] = {}
    for name, one in inspect.signature(kind).parameters.items():
        if name not in skip and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            needed = one.default is inspect.Parameter.empty
            entries[name] = (_plain(hints.get(name, Any)), Field() if needed else None)
    return create_model(kind.__name__, __base__=Table, **entries)


def _plain(hint: Any) -> Any:
    """A type as plain values have it: no tensors, names for members of an Enum, nested tables."""
    if get_origin(hint) in (Union, UnionType):
        kept = [_plain(one) for one in get_args(hint) if one is not Tensor]
        return Union[tuple(kept)]  # noqa: UP007
    if not isinstance(hint, type):
        return hint
    if issubclass(hint, Enum):
        return Annotated[hint, BeforeValidator(partial(_member, hint))]
    for base, known in _NOUNS:
        if issubclass(hint, base):
            default = None if inspect.isabstract(hint) else hint
            return Annotated[hint, PlainValidator(partial(build, known, default))]
    return hint


def _member(kind: type[Enum], given: Any, info: ValidationInfo) -> Any:
    names = {str(one.value).lower(): one for one in kind}
    found = names.get(str(given).lower())
    if found is None:
        raise TableError(
            nearest(str(info.field_name), str(given), [str(one.value) for one in kind])
        )
    return found


def build(known: Registry, default: type | None, given: Any, info: ValidationInfo) -> Any:
    """What a table with `kind` or `class` and further settings describes; None if not trusted yet.

    Arguments:
        known: the names that `kind` can be.
        default: what is meant without either.
        given: the table; a text alone is its kind.
        info: pydantic's, with the trust in its context.
    """
    given = {"kind": given} if isinstance(given, str) else given
    if not isinstance(given, dict):
        raise TableError(f"{info.field_name} needs a table, got {given!r:.60}.")
    kind = kind_of(known, default, given, info.context)
    return None if kind is None else made(kind, given, info.context)


def kind_of(known: Registry, default: type | None, given: dict[str, Any], context: Any) -> Any:
    """The class that a table names; None for a class of the user's own before trust is known."""
    if "class" in given:
        if "kind" in given:
            raise TableError("kind and class exclude each other: give one of them.")
        trust = (context or {}).get("trust")
        return None if trust is None else trust.find(given["class"])
    if "kind" not in given and default is not None:
        return default
    if not isinstance(given.get("kind"), str):
        raise TableError("kind needs text." if "kind" in given else "kind is missing.")
    return known.find(given["kind"])


def made(kind: Any, given: dict[str, Any], context: Any = None) -> Any:
    """An object of a class from a table of its arguments."""
    table = settings_of(kind)
    known = ["kind", "class", *table.known_keys()]
    for key in given:
        if key not in known:
            raise TableError(nearest("key", key, known))
    values = table.read({k: v for k, v in given.items() if k not in ("kind", "class")}, context)
    try:
        return kind(**{name: getattr(values, name) for name in values.model_fields_set})
    except (TypeError, ValueError) as error:  # InputError among them
        raise TableError(str(error)) from error
