"""The contexts that a caller gives, in whatever form, as one checked batch."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from cfopt.errors import CfoptError, InputError, PredictorError
from cfopt.names import join_words, nearest
from cfopt.pipeline.adapted import Adapted
from cfopt.pipeline.columns import Columns
from cfopt.pipeline.function import Function
from cfopt.pipeline.images import as_read, check_cells
from cfopt.question.features import Features
from cfopt.question.scales import in_usual_units

if TYPE_CHECKING:
    from cfopt.pipeline import Pipeline

#: How far a translation's costs may be from the model's own, as a fraction of the largest.
_TRANSLATED = 1e-5


@dataclass(frozen=True)
class Contexts:
    """A batch of contexts.

    Arguments:
        x: the contexts, `(B, ...)`.
        features: their names and scales.
        labels: a label for each row, from a DataFrame's index.
        columns: the columns of a DataFrame that contexts stand for, if they do.
    """

    x: Tensor
    features: Features
    labels: tuple[Hashable, ...] | None = None
    columns: Columns | None = None

    @classmethod
    def of(
        cls,
        given: Any,
        pipeline: Pipeline,
        features: Features | None,
        name: str = "explain",
        shape: tuple[int, ...] | None = None,
    ) -> Contexts:
        """Read a tensor, an array, a list, images, a DataFrame or one row of it.

        A vector or a single image becomes a batch of one. Tensors keep dtype and device; anything
        else takes those of the predictor. Images as uint8, or for a predictor that declares a
        `value_range`, become floats with the channels first, and features count in that order.

        Arguments:
            given: the contexts; those that have been read are returned as they are.
            pipeline: the pipeline that reads them.
            features: what is known of them.
            name: the name of the caller, for messages.
            shape: the shape of one context, where a generative model declares its `context_shape`.
        """
        if isinstance(given, Contexts):
            return given
        labels = None
        known = features if features is not None else Features()
        given = _as_frame(given)
        if isinstance(given, pd.DataFrame):
            labels = tuple(given.index)
        columns = _columns(given, pipeline, known)
        if columns is not None:
            known = _described(known, columns)
            given = columns.encode(given) if isinstance(given, pd.DataFrame) else given
        x = as_batch(given, pipeline, name, shape).detach().clone()
        if not x.numel():
            raise _unreadable(x, name)
        known.check(x[0].numel())
        return cls(x, known, labels, columns)

    def beside(self, given: Any, pipeline: Pipeline) -> tuple[Contexts, Tensor | None]:
        """These contexts in units that known ones suggest, and the known ones: `(N, ...)`.

        Arguments:
            given: the known contexts in any form; None without.
            pipeline: the pipeline that reads them.
        """
        if given is None:
            return self, None
        shape = tuple(self.x.shape[1:])
        x = Contexts.of(given, pipeline, self.features, "reference", shape).x
        if x.shape[1:] != shape:
            raise InputError(
                f"reference needs contexts of shape {shape}, as x0 has; got {tuple(x.shape[1:])}."
            )
        return replace(self, features=in_usual_units(self.features, x)), x

    @property
    def finite(self) -> Tensor:
        """Which rows have only finite values, `(B,)`."""
        return self.x.flatten(1).isfinite().all(1)

    def not_finite(self) -> dict[int, str]:
        """What is wrong with the rows that have other values, with the features' names, by row."""
        rows = (~self.finite).nonzero().flatten().tolist()
        fault = "the context has values that are not finite"
        if self.features.names is None:
            return dict.fromkeys(rows, fault)
        names = self.features.labels(self.x[0].numel())
        broken = ~self.x.flatten(1).isfinite().cpu()
        listed = {row: [names[j] for j in broken[row].nonzero().flatten()] for row in rows}
        return {row: f"{fault}: {join_words(named, most=3)}" for row, named in listed.items()}


def as_batch(
    given: Any, pipeline: Pipeline, name: str, shape: tuple[int, ...] | None = None
) -> Tensor:
    """Contexts in any form as the predictor reads them: a batch, contiguous, `(B, ...)`.

    What `Contexts.of` says, without names; a tensor that needs no change is not copied, and keeps
    its gradient.

    Arguments:
        given: the contexts.
        pipeline: the pipeline that reads them.
        name: the name of the caller, for messages.
        shape: the shape of one context, if it is known.
    """
    given = _as_frame(given)
    if isinstance(given, pd.DataFrame):
        columns = _columns(given, pipeline, Features())
        given = given if columns is None else columns.encode(given)
    parameter, predictor = _first_parameter(pipeline), pipeline.predictor
    dtype = getattr(predictor, "dtype", torch.get_default_dtype())
    dtype = dtype if parameter is None else parameter.dtype
    device = None if parameter is None else parameter.device
    x = given if isinstance(given, Tensor) else _tensor(given, dtype, device, name)
    single = x.ndim in (1, 3)
    if isinstance(predictor, Function) and x is not given and x.ndim in (1, 2) and len(x):
        on_arrays = predictor.on_arrays(x[None] if single else x)
        x = _tensor(given, torch.float64, device, name) if on_arrays else x
    if single:
        x = x[None]
    if x.ndim not in (2, 4):
        raise _unreadable(x, name)
    if x.ndim == 4:
        x = as_read(x, pipeline.predictor, shape, dtype)
    if not x.is_floating_point():
        x = x.to(dtype)
    if parameter is not None and (x.dtype, x.device) != (parameter.dtype, parameter.device):
        raise InputError(
            f"The contexts are {x.dtype} on {x.device}, the predictor is {parameter.dtype} on "
            f"{parameter.device}. Move one to the other with .to(...)."
        )
    return x.contiguous()  # a model may use .view


def _unreadable(x: Tensor, name: str) -> InputError:
    return InputError(
        f"{name} needs at least one context: a batch of vectors (rows, features) or of images "
        "(rows, channels, height, width), or a single one of these; got shape "
        f"{tuple(x.shape)}."
    )


class Prediction(NamedTuple):
    """The costs of some contexts, `(B, n)`, and whether they have a gradient by these."""

    costs: Tensor
    differentiable: bool


def check_predictor(x: Tensor, pipeline: Pipeline) -> Prediction:
    """What is predicted for finite contexts, `(B, ...)`, if the predictor can be explained.

    It must return costs of the right shape, the same ones each time, each row's regardless of the
    rows around it.
    """
    check_cells(x, pipeline.predictor, pipeline.problem.num_costs)
    probe = x.clone().requires_grad_()
    try:
        with torch.enable_grad():
            costs = pipeline.predict(probe)
    except (RuntimeError, ValueError, IndexError) as error:
        if isinstance(error, CfoptError):  # it says itself what is wrong
            raise
        raise PredictorError(
            f"The predictor fails on contexts of shape {tuple(x.shape)}: {error}"
        ) from error
    gradient = None
    if costs.requires_grad:
        (gradient,) = torch.autograd.grad(costs.sum(), probe, allow_unused=True)
    costs = costs.detach()
    if isinstance(pipeline.predictor, Adapted):
        # The model itself is asked, which says more than its translation asked again.
        costs = _own_costs(x, costs, pipeline, pipeline.predictor.name)
    else:
        _check_repeatable(x, costs, pipeline)
    return Prediction(costs, gradient is not None)


def _own_costs(x: Tensor, costs: Tensor, pipeline: Pipeline, name: str) -> Tensor:
    """The costs as the model itself gives them; PredictorError where its translation differs."""
    own = pipeline.deployed(x)
    size = own.abs().amax(1, keepdim=True)
    wrong = ((own - costs).abs() > _TRANSLATED * size).any(1) & own.isfinite().all(1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        off = float((own - costs).abs()[row].max())
        raise PredictorError(
            f"{name} was translated, and its own predictions differ by {off:.3g}"
            " from those of the translation. Pass Function(model.predict), which is explained "
            "without a translation."
        )
    return own


def _check_repeatable(x: Tensor, costs: Tensor, pipeline: Pipeline) -> None:
    """Raise PredictorError if costs change when they are asked for again, or for a row alone."""
    known = costs.isfinite().all(1).nonzero().flatten()
    if not len(known):
        return
    first = known[:1]
    with torch.no_grad():
        try:
            again = pipeline.predict(x)
            alone = again if len(x) == 1 else pipeline.predict(x[first])
        except (ValueError, RuntimeError) as error:
            raise PredictorError(f"The predictor fails on one context alone: {error}") from error
    size = costs[known].abs().amax(1, keepdim=True).clamp(min=1e-12)
    differs = (again[known] - costs[known]).abs() > 1e-3 * size
    if differs.any() or ((alone - costs[first]).abs() > 1e-3 * size[:1]).any():
        raise PredictorError(
            "The predictor gives other costs for the same context when it is called again, or with "
            "it alone: dropout or batch normalisation seems to be in training mode. Pass the "
            "module itself, which explain puts into eval mode, or call .eval() on what your "
            "function uses."
        )


def _first_parameter(pipeline: Pipeline) -> Tensor | None:
    if not isinstance(pipeline.predictor, nn.Module):
        return None
    return next((p for p in pipeline.predictor.parameters() if p.is_floating_point()), None)


def _as_frame(given: Any) -> Any:
    """One row of a DataFrame as a DataFrame; anything else as it is."""
    return given.to_frame().T.infer_objects() if isinstance(given, pd.Series) else given


def _columns(given: Any, pipeline: Pipeline, features: Features) -> Columns | None:
    """The columns that contexts stand for: those the predictor knows, or Features, or the frame."""
    known: Columns | None = getattr(pipeline.predictor, "columns", None)
    named = None if features.names is None else tuple(features.names)
    is_frame, what = isinstance(given, pd.DataFrame), "the columns that the predictor reads"
    if known is None and is_frame:
        known, what = (
            Columns([*map(str, given.columns)], features.categories),
            "the DataFrame's columns",
        )
    elif known is None and features.layout is not None:
        known = Columns(features.layout.names, features.categories)
    if known is not None and named not in (None, known.names):
        raise _disagree(known.names, named or (), what)
    return known.typed(given) if known is not None and is_frame else known


def _disagree(columns: Sequence[str], names: Sequence[str], what: str) -> InputError:
    unknown = [name for name in names if name not in columns]
    missing = [name for name in columns if name not in names]
    why = "The order differs."
    if unknown:
        why = nearest("column", unknown[0], columns)
    elif missing:
        why = f"names does not have {missing[0]!r}."
    return InputError(f"The names of Features and {what} disagree. {why}")


def _described(features: Features, columns: Columns) -> Features:
    """Features that speak of the columns: their names, categories, and what is true or false.

    Of a category that the predictor knows, Features may name some values: the others are ruled out.
    """
    ruled_out: dict[str, float] = {}
    for name, allowed in features.categories.items():
        taken = columns.categories.get(name)
        if taken is None:
            raise InputError(
                f"Features has a category {name!r}, which the predictor reads as a number, or not "
                "at all. Pass Function(model.predict, like=its training data)."
            )
        unknown = [value for value in allowed if value not in taken]
        if unknown:
            raise InputError(
                f"The predictor does not know all values of the category {name!r}. "
                f"{nearest('value', str(unknown[0]), map(str, taken))}"
            )
        ruled_out |= {f"{name}={value}": 0.0 for value in taken if value not in allowed}
    described = replace(features, names=columns.names, categories=columns.categories)
    flags = columns.flags
    if not flags and not ruled_out:
        return described
    described = replace(described, integer=[*described.integer, *flags])
    upper = dict.fromkeys(flags, 1.0) | ruled_out
    return described.within(len(columns.layout.labels), dict.fromkeys(flags, 0.0), upper)


def _tensor(given: Any, dtype: torch.dtype, device: torch.device | None, name: str) -> Tensor:
    """Numbers in the given dtype; bytes as they are, since they may be pixels."""
    try:
        array = np.asarray(given)
        array = array if array.dtype == np.uint8 else np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} needs contexts as a tensor, array or DataFrame; got {type(given).__name__}."
        ) from error
    return torch.tensor(array, dtype=torch.uint8 if array.dtype == np.uint8 else dtype).to(device)
