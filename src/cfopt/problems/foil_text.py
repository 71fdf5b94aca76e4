"""Wishes as plain values: how configurations, requests and JSON say them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cfopt.errors import InputError
from cfopt.names import join_words
from cfopt.problems.foil import AllOf, Foil
from cfopt.problems.wishes import AtLeast, AtMost, Avoids, Condition, Uses

#: The keys by which `foil_of` knows wishes.
WISHES = ("uses", "avoids", "at_least", "at_most", "conditions")


def foil_of(content: Mapping[str, Any]) -> Foil:
    """The wish that `Foil.to_dict` wrote, or a user in the same words.

    Arguments:
        content: some of `uses`, `avoids`, `at_least`, `at_most` and `conditions`.
    """
    chosen = [kind for kind in (Uses, Avoids) if kind.key in content]
    wishes: list[Foil] = [kind(*_sequence(kind.key, content[kind.key])) for kind in chosen]
    for counted in (AtLeast, AtMost):
        for one in _tables(counted.key, content.get(counted.key, []), ("count", "of")):
            if set(one) != {"count", "of"}:
                raise InputError(f"{counted.key} needs count and of, got {one!r:.80}.")
            wishes.append(counted(one["count"], _sequence("of", one["of"])))
    allowed = ("coefficients", "lower", "upper")
    for one in _tables("conditions", content.get("conditions", []), allowed):
        given: Any = one.get("coefficients")
        if isinstance(given, list) and all(isinstance(p, list) and len(p) == 2 for p in given):
            given = dict(given)
        limits = {end: one[end] for end in ("lower", "upper") if end in one}
        wishes.append(Condition(given, **limits))
    if not wishes:
        raise InputError("A wish needs uses, avoids, at_least, at_most or conditions; got none.")
    return AllOf(tuple(wishes), bool(content.get("routes", False)))


def _tables(key: str, given: Any, allowed: tuple[str, ...]) -> list[dict[str, Any]]:
    tables = [given] if isinstance(given, dict) else given
    if not isinstance(tables, list) or not all(
        isinstance(one, dict) and set(one) <= set(allowed) for one in tables
    ):
        raise InputError(f"{key} needs tables with {join_words(allowed)}, got {given!r:.80}.")
    return tables


def _sequence(key: str, given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise InputError(f"{key} needs a list of names or numbers of entries, got {given!r:.80}.")
    return given
