"""What the entries of a context are called, their scales, and the values they may take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt.errors import InputError
from cfopt.question.categories import Layout, checked_categories
from cfopt.question.limits import FeatureIndex, Limits, Which
from cfopt.question.scales import check_scale

#: One value for all features, one for each, or some by name or number.
Values: TypeAlias = float | Sequence[float] | Tensor | Mapping[Any, float]


@cache
def _numbered(size: int) -> tuple[str, ...]:
    """Names of features that have none; kept, as images have tens of thousands."""
    return tuple(f"x{j}" for j in range(size))


@dataclass(frozen=True)
class LinearLimit:
    """A limit on a weighted sum of features: `lower <= sum_j c_j x_j <= upper`.

    Arguments:
        coefficients: the c, by name or number of the feature, or one for each.
        lower, upper: what the sum may be; open by default.
    """

    coefficients: Mapping[Any, float] | Sequence[float]
    lower: float = -math.inf
    upper: float = math.inf

    def __post_init__(self) -> None:
        plain = _plain("The coefficients of LinearLimit", self.coefficients)
        if not isinstance(plain, (dict, tuple)):
            raise InputError(f"LinearLimit needs coefficients by feature, got {plain!r}.")
        object.__setattr__(self, "coefficients", plain)
        for name in ("lower", "upper"):
            value = _plain(f"{name} of LinearLimit", getattr(self, name))
            if not isinstance(value, float) or math.isnan(value):
                raise InputError(f"LinearLimit needs one number for {name}, got {value!r}.")
            object.__setattr__(self, name, value)
        if self.lower > self.upper or self.lower == math.inf or self.upper == -math.inf:
            raise InputError(
                f"LinearLimit needs lower <= upper, got {self.lower:g} and {self.upper:g}."
            )


@dataclass(frozen=True)
class Features:
    """The features of a context, and which values of them are allowed.

    Features are named, or numbered from 0. What is allowed holds for every explanation; a context
    that is itself outside of it is rejected.

    With categories, features are the columns of a table, and what is said of a category holds for
    each of its values. Inside, a context has a 0 or 1 for each value, which is called "city=Rome"
    and can be meant alone: `upper={"city=Rome": 0}` rules Rome out.

    Arguments:
        names: a name for each feature.
        scale: a typical change of each feature, > 0, such as its standard deviation. Distances
            count in these units.
        lower, upper: bounds: one for all, one for each, or a dictionary of some.
        immutable: features that cannot change.
        only_increase, only_decrease: features that can move in one direction only.
        integer: features that are whole numbers.
        one_hot: groups of features of which exactly one is 1 and the others are 0.
        linear: limits on weighted sums of features.
        categories: features that take one of several values, which are not numbers or have no
            order, by name: `{"city": ("Rome", "Milan")}`. They need names, or a DataFrame.
        max_changes: how many features may differ from the context at most; a category or a one-hot
            group counts once.
        usual: the scale that `explain` learns from `reference` where none is given, as
            `usual_changes` says. Without both, distances count in the features' own units.
    """

    names: Sequence[str] | None = None
    scale: Sequence[float] | Tensor | None = None
    lower: Values | None = None
    upper: Values | None = None
    immutable: Sequence[Which] = ()
    only_increase: Sequence[Which] = ()
    only_decrease: Sequence[Which] = ()
    integer: Sequence[Which] = ()
    one_hot: Sequence[Sequence[Which]] = ()
    linear: Sequence[LinearLimit] = ()
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    max_changes: int | None = None
    usual: Sequence[float] | Tensor | None = None

    def __post_init__(self) -> None:
        if self.names is not None:
            names = tuple(str(name) for name in _listed("names", self.names))
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InputError(f"Features needs names that differ; {twice[0]!r} occurs twice.")
            object.__setattr__(self, "names", names)
        for name in ("scale", "usual"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, self._checked_scale(name, given))
        for name in ("lower", "upper"):
            object.__setattr__(self, name, _plain(f"{name} of Features", getattr(self, name)))
        for name in ("immutable", "only_increase", "only_decrease", "integer"):
            object.__setattr__(self, name, _listed(name, getattr(self, name)))
        groups = tuple(_listed("one_hot", group) for group in _listed("one_hot", self.one_hot))
        object.__setattr__(self, "one_hot", groups)
        object.__setattr__(self, "linear", _listed("linear", self.linear))
        for limit in self.linear:
            if not isinstance(limit, LinearLimit):
                raise InputError(f"linear of Features needs LinearLimit objects, got {limit!r}.")
        object.__setattr__(self, "categories", checked_categories(self.categories))
        most = self.max_changes
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise InputError(
                f"max_changes of Features needs a whole number >= 1, or None; got {most!r}."
            )
        if self.names is not None:
            size = len(self.names if self.layout is None else self.layout.labels)
            self.limits(size)  # so that contradictions are found where they are written

    def _checked_scale(self, name: str, given: Any) -> tuple[float, ...]:
        """A scale for each feature; InputError if it cannot be that."""
        plain = _plain(f"{name} of Features", given)
        if not isinstance(plain, tuple):
            raise InputError(f"{name} of Features needs one number a feature, got {plain!r}.")
        check_scale(torch.tensor(plain, dtype=torch.float64))
        if self.names is not None and len(self.names) != len(plain):
            raise InputError(
                f"Features needs as many scales as names, got {len(plain)} and {len(self.names)}."
            )
        return plain

    def check(self, size: int) -> None:
        """Raise InputError unless all this fits contexts of `size` features."""
        layout = self.layout
        if layout is not None and len(layout.labels) != size:
            raise InputError(
                f"The contexts have {size} features, but Features has {len(layout.labels)}: a 0 or "
                f"1 for each value of a category, and {len(self.names or ())} columns in all. Pass "
                "a DataFrame with these columns."
            )
        for what, given in (("names", self.names), ("scales", self.unit)):
            if layout is None and given is not None and len(given) != size:
                raise InputError(
                    f"The contexts have {size} features, but Features has {len(given)} {what}."
                )
        if self.limited:
            self.limits(size)

    @cached_property
    def layout(self) -> Layout | None:
        """Which entries of a context stand for which feature; None if each stands for itself."""
        if not self.categories:
            return None
        if self.names is None:
            raise InputError(
                "Features needs names where it has categories. Pass names, or a DataFrame."
            )
        return Layout(tuple(self.names), self.categories)

    @property
    def scales(self) -> tuple[float, ...] | None:
        """The unit of each entry of a context: those of a category's values are its own."""
        unit = self.unit
        return unit if unit is None or self.layout is None else self.layout.spread(unit)

    @property
    def unit(self) -> tuple[float, ...] | None:
        """In what changes of each feature count: its scale, else its usual change, if known."""
        unit = self.usual if self.scale is None else self.scale
        return None if unit is None else tuple(unit)

    def within(self, size: int, lower: Mapping[str, float], upper: Mapping[str, float]) -> Features:
        """The same features within further bounds, given for some of `labels(size)`."""
        own, labels = self.limits(size), self.labels(size)
        lows, highs = (dict(zip(labels, b.tolist(), strict=True)) for b in (own.lower, own.upper))
        return replace(
            self,
            names=labels if self.layout is None else self.names,
            lower={name: max(low, lower.get(name, low)) for name, low in lows.items()},
            upper={name: min(high, upper.get(name, high)) for name, high in highs.items()},
        )

    def mask(self, name: str, which: Sequence[Which], size: int) -> NDArray[np.bool_]:
        """Those of `size` entries that some features stand for: `(p,)`.

        Arguments:
            name: what the list of features is called in messages.
        """
        return FeatureIndex(self.names, size, self.layout).mask(name, which)

    def whole(self, size: int) -> NDArray[np.bool_]:
        """Which of `size` entries are whole numbers, members of groups among them: `(p,)`."""
        return self.limits(size).integer if self.limited else np.zeros(size, dtype=bool)

    def labels(self, size: int) -> tuple[str, ...]:
        """The names of a context's entries, or x0, x1, ... where there are none."""
        if self.layout is not None:
            return self.layout.labels
        return tuple(self.names) if self.names else _numbered(size)

    @property
    def limited(self) -> bool:
        """Whether some contexts are not allowed."""
        bounds = self.lower is not None or self.upper is not None or self.max_changes is not None
        others = (self.immutable, self.only_increase, self.only_decrease, self.integer)
        return bounds or any(map(len, (*others, self.one_hot, self.linear, self.categories)))

    def limits(self, size: int) -> Limits:
        """What is allowed, as arrays over `size` features."""
        layout = self.layout
        index = FeatureIndex(self.names, size, layout)
        lower = index.values("lower", self.lower, -np.inf)
        upper = index.values("upper", self.upper, np.inf)
        groups = tuple(tuple(index.numbers("one_hot", group)) for group in self.one_hot)
        if layout is not None:
            groups += tuple(group for group in layout.groups if len(group) > 1)
            lower[[group[0] for group in layout.groups if len(group) == 1]] = 1.0
        index.check_groups(groups)
        members = [j for group in (*groups, *(layout.groups if layout else ())) for j in group]
        lower[members] = np.maximum(lower[members], 0.0)
        upper[members] = np.minimum(upper[members], 1.0)
        wrong = np.flatnonzero((lower > upper) | (lower == np.inf) | (upper == -np.inf))
        if len(wrong):
            j = int(wrong[0])
            raise InputError(
                f"Features needs lower <= upper; {index.label(j)} has {lower[j]:g} and "
                f"{upper[j]:g}."
            )
        integer = index.mask("integer", self.integer, ordered=True)
        integer[members] = True
        whole = np.flatnonzero(integer & (np.ceil(lower) > np.floor(upper)))
        if len(whole):
            j = int(whole[0])
            raise InputError(
                f"{index.label(j)} needs a whole number between {lower[j]:g} and {upper[j]:g}, and "
                "there is none."
            )
        rows = [index.coefficients(limit.coefficients) for limit in self.linear]
        return Limits(
            names=self.labels(size),
            lower=lower,
            upper=upper,
            immutable=index.mask("immutable", self.immutable),
            increase=index.mask("only_increase", self.only_increase, ordered=True),
            decrease=index.mask("only_decrease", self.only_decrease, ordered=True),
            integer=integer,
            groups=groups,
            matrix=np.array(rows).reshape(len(rows), size),
            row_lower=np.array([limit.lower for limit in self.linear], dtype=np.float64),
            row_upper=np.array([limit.upper for limit in self.linear], dtype=np.float64),
            max_changes=self.max_changes,
        )


def _plain(what: str, values: Any) -> Any:
    """Numbers without arrays, so that Features can be compared and written down.

    None, a float, a tuple of floats, or a dictionary of some by name or number.
    """
    if values is None:
        return None
    if isinstance(values, pd.Series):
        values = values.to_dict()
    try:
        if isinstance(values, Mapping):
            return {_which(which): float(value) for which, value in values.items()}
        if isinstance(values, str):
            raise TypeError
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
        array = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what} needs a number, one a feature, or a dictionary of some; got {values!r:.60}."
        ) from error
    return float(array) if array.ndim == 0 else tuple(array.reshape(-1).tolist())


def _listed(what: str, which: Any) -> tuple[Any, ...]:
    several = (Sequence, np.ndarray, Tensor, set, pd.Index)
    if isinstance(which, str) or not isinstance(which, several):
        raise InputError(f"{what} of Features needs a list, got {which!r:.60}.")
    return tuple(_which(one) for one in which)


def _which(which: Any) -> Any:
    return which.item() if isinstance(which, (np.generic, Tensor)) else which
