"""The limits of features one by one, so that some of them can be lifted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cfopt.question.features import Features
from cfopt.question.limits import FeatureIndex


@dataclass(frozen=True)
class LimitOfOne:
    """One limit of `Features`.

    Arguments:
        kind: the argument of `Features` that states it.
        number: which of its entries, or of the context's for a bound.
        names: the entries of a context that it is about.
        words: what would be possible without it, to follow "if".
    """

    kind: str
    number: int
    names: tuple[str, ...]
    words: str


#: What can be lifted, in the order of preference among sets of the same size.
_LISTED = {
    "immutable": "{} could change",
    "only_increase": "{} could decrease",
    "only_decrease": "{} could increase",
    "integer": "{} need not be whole",
}


def single_limits(features: Features, size: int) -> tuple[LimitOfOne, ...]:
    """The limits that can be lifted one by one; that a category has one of its values is none."""
    index = FeatureIndex(features.names, size, features.layout)
    labels, found = features.labels(size), []
    for kind, words in _LISTED.items():
        for number, which in enumerate(getattr(features, kind)):
            name = str(which) if isinstance(which, str) else labels[index.places(kind, which)[0]]
            names = tuple(labels[j] for j in index.places(kind, which))
            found.append(LimitOfOne(kind, number, names, words.format(name)))
    for kind, where in (("lower", "below"), ("upper", "above")):
        bounds = index.values(kind, getattr(features, kind), np.inf)
        for j in np.flatnonzero(np.isfinite(bounds)).tolist():
            words = f"{labels[j]} could go {where} {bounds[j]:g}"
            found.append(LimitOfOne(kind, j, (labels[j],), words))
    for number, limit in enumerate(features.linear):
        row = index.coefficients(limit.coefficients)
        names = tuple(labels[j] for j in np.flatnonzero(row).tolist())
        words = f"the limit on the sum of {' and '.join(names)} were lifted"
        found.append(LimitOfOne("linear", number, names, words))
    for number, group in enumerate(features.one_hot):
        names = tuple(labels[j] for j in index.numbers("one_hot", group))
        words = f"the group ({', '.join(names)}) could be mixed"
        found.append(LimitOfOne("one_hot", number, names, words))
    if features.max_changes is not None:
        words = f"more than {features.max_changes} could change"
        found.append(LimitOfOne("max_changes", 0, (), words))
    return tuple(found)


def without(features: Features, size: int, lifted: Collection[LimitOfOne]) -> Features:
    """The features with some of their limits lifted."""
    index = FeatureIndex(features.names, size, features.layout)
    labels = features.labels(size)
    numbered = features.names is None
    gone = {(limit.kind, limit.number) for limit in lifted}
    kept: dict[str, Any] = {
        kind: [one for k, one in enumerate(getattr(features, kind)) if (kind, k) not in gone]
        for kind in (*_LISTED, "linear", "one_hot")
    }
    bounds: dict[str, Any] = {}
    for kind in ("lower", "upper"):
        values = index.values(kind, getattr(features, kind), np.inf)
        places = [j for j in np.flatnonzero(np.isfinite(values)).tolist() if (kind, j) not in gone]
        bounds[kind] = {j if numbered else labels[j]: float(values[j]) for j in places} or None
    most = None if ("max_changes", 0) in gone else features.max_changes
    return replace(features, **kept, **bounds, max_changes=most)


def involved(
    limits: Collection[LimitOfOne], said: Collection[str], sums: Collection[str] = ()
) -> frozenset[LimitOfOne]:
    """Those of some limits that a clash may be about, given the names that it says.

    Arguments:
        limits: those there are.
        said: names of features, and sums of them in words.
        sums: all limits on sums in words, one-hot groups last, as clashes call them.
    """
    text = set(said)
    whole = any("whole numbers" in one for one in text)
    counts = any(one.startswith("at most") for one in text)
    sums_said = [k for k, words in enumerate(sums) if words in text]
    linear = sum(limit.kind == "linear" for limit in limits)
    found = set()
    for limit in limits:
        if limit.kind == "linear":
            hit = limit.number in sums_said
        elif limit.kind == "one_hot":
            hit = linear + limit.number in sums_said or whole or bool(text & set(limit.names))
        elif limit.kind == "integer":
            hit = whole
        elif limit.kind == "max_changes":
            hit = counts
        else:
            hit = bool(text & set(limit.names)) or (whole and limit.kind != "immutable")
        if hit:
            found.add(limit)
    return frozenset(found)
