"""One model for all costs: it predicts that of one item from the context and the item's data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from cfopt._typing import Array
from cfopt.errors import InputError, PredictorError
from cfopt.names import join_words
from cfopt.pipeline.adapted import Adapted, as_predictor
from cfopt.pipeline.columns import Columns
from cfopt.trees.predictor import TreePredictor
from cfopt.trees.specialise import specialise

#: How many numbers of rows the model reads at once.
_NUMBERS_AT_ONCE = 8_000_000


class PerItem(Adapted):
    """A model of one cost as a predictor of all: that of every item in the same context.

    The model reads a row for each context and item: the features of the context, then those of the
    item. A model that knows its columns by name, and items in a DataFrame, are matched by name; the
    columns that items do not have are the context's. Affine models give affine costs, and tree
    ensembles an ensemble.

    Arguments:
        model: anything that a Pipeline takes, `(R, p + q) -> (R,)` or `(R, 1)`.
        items: what is known of each item, an array or a DataFrame of n rows, `(n, q)`.

    Attributes:
        items: the same as numbers that the model reads, `(n, q)` in float64.
        columns: the columns of contexts, if the model knows them by name.
    """

    items: Tensor

    def __init__(self, model: Any, items: Any) -> None:
        predictor = as_predictor(model)
        inner = predictor if isinstance(predictor, nn.Module) else _Called(predictor)
        every: Columns | None = getattr(inner, "columns", None)
        named: list[int] | None = None
        if every is None:
            values, columns = _numbers(items), None
        else:
            columns, own = _shared_out(every, items)
            values = own.encode(items)
            places = {label: place for place, label in enumerate(every.layout.labels)}
            named = [places[label] for label in own.layout.labels]
        if not np.isfinite(values).all():
            raise InputError("PerItem needs items whose features are finite numbers.")
        original = inner.original if isinstance(inner, Adapted) else inner
        super().__init__(original, inner, type(model).__name__, columns)
        self._named_places = named
        self.register_buffer("items", torch.from_numpy(values), persistent=False)

    def places(self, width: int) -> list[int]:
        """Which of the model's inputs are an item's, for contexts of some features: `(q,)`.

        For each item these are constants, given by `items`.
        """
        if self._named_places is not None:
            return self._named_places
        return list(range(width, width + self.items.shape[1]))

    def forward(self, x: Tensor) -> Tensor:
        """The cost of every item: `(B, p) -> (B, n)`."""
        return self._costs(x, self.translation)

    @cached_property
    def trees(self) -> TreePredictor | None:
        """The costs of all items as one tree ensemble of contexts, if the model is an ensemble."""
        found = self.translation
        found = found.translation if isinstance(found, Adapted) else found
        if not isinstance(found, TreePredictor) or found.ensemble.num_targets != 1:
            return None
        width = found.ensemble.num_features - self.items.shape[1]
        if width < 1:
            return None
        items = self.items.double().cpu().numpy()
        ensemble = specialise(found.ensemble, self.places(width), items)
        return None if ensemble is None else TreePredictor(ensemble)

    @torch.no_grad()
    def deployed(self, x: Tensor) -> Tensor:
        """The costs as the model itself predicts them: `(B, p) -> (B, n)`."""
        inner = self.translation
        if isinstance(inner, Adapted):  # which reads items as they are, whatever contexts are
            return self._costs(x.double(), inner.deployed)
        return self._costs(x.double() if isinstance(inner, TreePredictor) else x, inner)

    def rows(self, x: Tensor) -> Tensor:
        """What the model reads, the items of the first context first: `(B, p) -> (B n, p + q)`."""
        count, width = self.items.shape
        items = self.items.to(x).expand(len(x), -1, -1)
        together = torch.cat([x[:, None].expand(-1, count, -1), items], dim=2)
        own = self.places(x.shape[1])
        others = sorted(set(range(x.shape[1] + width)) - set(own))
        order = torch.tensor([*others, *own], device=x.device).argsort()
        return together[:, :, order].flatten(0, 1)

    def _costs(self, x: Tensor, model: Callable[[Tensor], Tensor]) -> Tensor:
        if x.ndim != 2:
            raise PredictorError(
                f"PerItem needs contexts of shape (rows, features), got {tuple(x.shape)}."
            )
        count, width = self.items.shape
        at_once = max(1, _NUMBERS_AT_ONCE // (count * (x.shape[1] + width)))
        parts = []
        for part in torch.split(x, at_once):
            costs = model(self.rows(part))
            if costs.numel() != count * len(part):
                raise PredictorError(
                    "PerItem needs a model of a single cost, "
                    f"({count * len(part)}, {x.shape[1] + width}) to ({count * len(part)}, 1); "
                    f"got {tuple(costs.shape)}."
                )
            parts.append(costs.reshape(len(part), count))
        return torch.cat(parts)


class _Called(nn.Module):
    """A predictor that is not a module."""

    def __init__(self, predictor: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, x: Tensor) -> Tensor:
        return self.predictor(x)


def _numbers(items: Any) -> Array:
    """Items as numbers, `(n, q)`."""
    if isinstance(items, pd.DataFrame):
        items = Columns([*map(str, items.columns)]).encode(items)
    given = items.detach().cpu().numpy() if isinstance(items, Tensor) else items
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"PerItem needs items that are numbers: {error}.") from error
    if values.ndim != 2 or not values.size:
        raise InputError(
            f"PerItem needs a row of features for each item, (n, q); got shape {values.shape}."
        )
    return values


def _shared_out(every: Columns, items: Any) -> tuple[Columns, Columns]:
    """The columns of contexts and those of items, both in the order of the model's."""
    if not isinstance(items, pd.DataFrame):
        raise InputError(
            "PerItem needs items as a DataFrame, since the model knows its columns by name "
            f"({join_words(every.names, 'and', 8)}); got {type(items).__name__}."
        )
    given = {str(name) for name in items.columns}
    unknown = sorted(given - set(every.names))
    if unknown:
        raise InputError(
            f"PerItem: items have a column {unknown[0]!r} that the model does not read; it reads "
            f"{join_words(every.names, 'and', 8)}. Leave the column out."
        )
    if not len(items) or not given or given == set(every.names):
        raise InputError(
            "PerItem needs items with some of the model's columns, and contexts with the others; "
            f"items have {len(given)} of {len(every.names)}, and {len(items)} rows."
        )
    return _some(every, set(every.names) - given), _some(every, given)


def _some(every: Columns, kept: set[str]) -> Columns:
    return replace(
        every,
        names=tuple(name for name in every.names if name in kept),
        categories={name: taken for name, taken in every.categories.items() if name in kept},
        dtypes={name: dtype for name, dtype in every.dtypes.items() if name in kept},
    )
