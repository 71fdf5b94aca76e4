"""Plain values of a configuration or a request, checked by pydantic; mistakes become sentences."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, partial
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

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
from pydantic_core import PydanticCustomError
from torch import Tensor

from cfopt import registry
from cfopt.errors import InputError
from cfopt.names import nearest
from cfopt.question.plausibility import Plausibility
from cfopt.question.proximity import Proximity
from cfopt.registry import Registry
from cfopt.search import Search

#: What pydantic's complaints about a type mean.
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
    #: Keys of which exactly one must be given.
    one_of: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def known_keys(cls) -> list[str]:
        """The keys that it may have."""
        return [one.alias or name for name, one in cls.model_fields.items()]

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            raise PydanticCustomError("table", "a table")
        known = cls.known_keys()
        for key in given:
            if key not in known:
                raise TableError(nearest("key", key, known))
        found = [key for key in cls.one_of if key in given]
        if cls.one_of and len(found) != 1:
            got = " and ".join(found) or "none of them"
            raise TableError(f"needs exactly one of {', '.join(cls.one_of)}; got {got}.")
        return given

    @classmethod
    def read(cls, given: Any, context: Any = None) -> Self:
        """The table of some values; TableError if something is wrong with them."""
        try:
            return cls.model_validate(given, context=context)
        except ValidationError as error:
            raise TableError.of(error, given) from error

    def given(self, *but: str) -> dict[str, Any]:
        """The values that were given, but for some, and for the name of what they are given to."""
        left = self.model_fields_set - {"kind", "built", *but}
        return {name: getattr(self, name) for name in left}


@cache
def settings_of(
    kind: Callable[..., Any], skip: tuple[str, ...] = (), base: type[Table] = Table
) -> type[Table]:
    """The arguments of a class or function as a table, which may name it by `kind` or `class`.

    Arguments:
        kind: what takes them.
        skip: arguments that are not set by plain values.
        base: further keys.
    """
    try:
        # A dataclass is asked itself, as the types of inherited fields are named elsewhere.
        bare = isinstance(kind, type) and not is_dataclass(kind)
        hints = get_type_hints(kind.__init__ if bare else kind)
    # Any: annotations of classes from elsewhere may name what is imported for checkers only.
    except Exception:
        hints = {}
    entries: dict[str, Any] = {"kind": (Any, None), "built": (Any, Field(None, alias="class"))}
    for name, one in inspect.signature(kind).parameters.items():
        if name not in skip and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            needed = one.default is inspect.Parameter.empty
            entries[name] = (_plain(hints.get(name, Any)), Field() if needed else None)
    return create_model(kind.__name__, __base__=base, **entries)


def _plain(hint: Any) -> Any:
    """A type as plain values have it: no tensors, names for members of an Enum, nested tables."""
    if get_origin(hint) in (Union, UnionType):
        kept = [_plain(one) for one in get_args(hint) if one is not Tensor]
        return Union[tuple(kept)]  # noqa: UP007
    if not isinstance(hint, type):
        return hint
    if issubclass(hint, Enum):
        return Annotated[hint, BeforeValidator(partial(member, hint))]
    for base, known in _NOUNS:
        if issubclass(hint, base):
            default = None if inspect.isabstract(hint) else hint
            return Annotated[hint, PlainValidator(partial(build, known, default))]
    return hint


def member(kind: type[Enum], given: Any, info: ValidationInfo) -> Any:
    """The member of an Enum with this value, regardless of case."""
    found = next((one for one in kind if str(one.value).lower() == str(given).lower()), None)
    if found is None:
        choices = [str(one.value) for one in kind]
        raise TableError(nearest(str(info.field_name), str(given), choices))
    return found


def build(known: Registry, default: type | None, given: Any, info: ValidationInfo) -> Any:
    """What a table with `kind` or `class` and further settings describes.

    None if it names a class, and whether that is trusted is not known yet.

    Arguments:
        known: the names that `kind` can be.
        default: the kind without either.
        given: the table; a text alone is its kind.
        info: pydantic's, with the trust in its context.
    """
    given = {"kind": given} if isinstance(given, str) else given
    kind = kind_of(known, default, given, info)
    if kind is None:
        return None
    settings = settings_of(kind).read(given, info.context).given()
    try:
        return kind(**settings)
    except (TypeError, ValueError) as error:  # InputError among them
        raise TableError(str(error)) from error


def kind_of(known: Registry, default: type | None, given: Any, info: ValidationInfo) -> Any:
    """The class that a table names; None for one that waits for trust."""
    if not isinstance(given, dict):
        raise PydanticCustomError("table", "a table")
    if "class" in given:
        if "kind" in given:
            raise TableError("kind and class exclude each other: give one of them.")
        trust = (info.context or {}).get("trust")
        return None if trust is None else trust.find(given["class"])
    if "kind" not in given:
        if default is None:
            raise TableError("kind is missing.")
        return default
    if not isinstance(given["kind"], str):
        raise TableError(f"kind needs text, got {given['kind']!r:.60}.")
    return known.find(given["kind"])
