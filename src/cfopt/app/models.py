"""Predictors, generative models and problems, built as a configuration describes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, signature
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeVar

import pandas as pd
import torch
from torch import Tensor, nn

from cfopt import registry
from cfopt.app.model_files import load_model
from cfopt.app.sources import (
    GenerativeSource,
    ItemSource,
    ModelSource,
    PredictorSource,
    ProblemSource,
)
from cfopt.app.trust import Trust, is_known
from cfopt.errors import InputError
from cfopt.exact.affine import Affine
from cfopt.generative.anchored import Anchored
from cfopt.generative.protocol import GenerativeModel, check_attributes
from cfopt.names import nearest
from cfopt.pipeline import PerItem
from cfopt.pipeline.adapted import as_predictor
from cfopt.problems import MILP, Problem, PyEPOProblem
from cfopt.registry import Registry
from cfopt.storage import weights
from cfopt.storage.tables import pick, read_argument, read_table

T = TypeVar("T")
_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt")


def build_predictor(
    source: PredictorSource, trust: Trust, *, with_weights: bool = True
) -> Callable[[Tensor], Tensor]:
    """The predictor, in eval mode, with its weights.

    Arguments:
        source: class, arguments and weights, a file of the model's library, or an archive; and
            the items, if it is a model of one cost.
        trust: decides whether classes and files that can execute code are allowed.
        with_weights: False for a model that is still to be trained.
    """
    if source.archive is not None:
        model: Any = _load_archive(source.archive, trust)
    elif source.file is not None:
        _check_file(source.file)
        model = load_model(source.file, trust, source.rounding)
    else:
        model = _build(registry.predictors, source, trust, with_weights)
    try:
        predictor = as_predictor(model)
    except InputError as error:
        raise InputError(f"{source.name!r}: {error}") from error
    predictor = Affine(predictor) if source.affine else predictor
    return predictor if source.items is None else PerItem(predictor, _items(source.items))


def _items(source: ItemSource) -> Any:
    """What is known of each item: the columns of a table, or an array."""
    table = read_table(source.file)
    if source.columns is None:
        return table
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"{source.file} has no columns that could be picked by name.")
    return pick(table, source.columns, source.file)


def build_generative(
    source: GenerativeSource, trust: Trust, *, with_weights: bool = True
) -> GenerativeModel:
    """A generative model: a module in eval mode with its weights, or anything that is one.

    Arguments:
        source: class, arguments and weights, and whether details are kept.
        trust: decides whether classes and files that can execute code are allowed.
        with_weights: False for a model that is still to be trained.
    """
    model = check_attributes(_build(registry.generative_models, source, trust, with_weights))
    if source.anchored is None or not with_weights:
        return model
    return Anchored(model, source.anchored).eval()


def _build(known: Registry, source: ModelSource, trust: Trust, with_weights: bool) -> Any:
    found = trust.find(source.built) if source.built else known.find(str(source.kind))
    # Forked: first weights are drawn at random, and the caller's random numbers stay as is.
    with torch.random.fork_rng(devices=[]):
        model = _call(found, source.name, source.arguments)
    if not isinstance(model, nn.Module):
        if source.weights is not None:
            raise InputError(
                f"weights need a torch.nn.Module; {source.name!r} builds a "
                f"{type(model).__name__}, which needs to load its own."
            )
        return model
    if source.weights is not None and with_weights:
        _load(model, source.weights, source.name, trust)
    elif with_weights and list(model.parameters()) and is_known(found):
        raise InputError("weights is missing: without it, the model would be random.")
    return model.eval()


def _load_archive(path: Path, trust: Trust) -> nn.Module:
    _check_file(path)
    trust.need(f"{path} is a torch.export archive, which can execute code")
    try:
        with _silent("torch.export"):
            return torch.export.load(path).module()
    # Any: a damaged archive may raise anything.
    except Exception as error:
        raise InputError(f"{path} is not a torch.export archive: {_line(error)}") from error


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Without the messages of a logger, which repeat at length what one line says."""
    logger = logging.getLogger(name)
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = disabled


def _load(model: nn.Module, path: Path, name: str, trust: Trust) -> None:
    """Weights into a model, which takes their precision."""
    _check_file(path)
    tensors = _tensors(path, trust)
    broken = [key for key, t in tensors.items() if not bool(t.isfinite().all())]
    if broken:
        raise InputError(
            f"the weights in {path} are not all finite: {broken[0]} has NaN or infinite values."
        )
    kinds = {t.dtype for t in tensors.values() if t.is_floating_point()}
    if kinds == {torch.float64}:  # else digits would be lost on the way into the model
        model.double()
    try:
        model.load_state_dict(tensors)
    except (RuntimeError, TypeError) as error:
        reason = "; ".join(part.strip() for part in str(error).splitlines()[1:3]) or str(error)
        raise InputError(f"the weights in {path} do not fit {name}: {reason:.300}") from error


def _tensors(path: Path, trust: Trust) -> dict[str, Tensor]:
    if path.suffix.lower() not in _PICKLES:
        return weights.read(path)[0]
    trust.need(
        f"{path} is a pickle, which can execute code on loading; convert it with "
        "safetensors.torch.save_file",
    )
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:  # whose message advises to load the file unsafely
        raise InputError(
            f"{path} is not a file of tensors alone, and cfopt reads nothing else. Save "
            "model.state_dict() with safetensors.torch.save_file."
        ) from error
    # Any: a damaged file may raise anything.
    except Exception as error:
        raise InputError(f"{path} holds no state dict: {_line(error)}") from error
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise InputError(
            f"{path} needs to hold a state dict, tensors by their names; got "
            f"{type(content).__name__} of {_kinds(content)}."
        )
    return content


def _kinds(content: Any) -> str:
    """What is in a container, for a message."""
    inside = content.values() if isinstance(content, dict) else content
    try:
        return ", ".join(sorted({type(value).__name__ for value in inside}))
    except TypeError:
        return "nothing else"


def build_problem(source: ProblemSource, trust: Trust) -> Problem:
    """A built-in problem, an MPS or LP file, or what an import path builds.

    Arguments:
        source: name and arguments; an argument that is a table with a `file` is read from that.
        trust: decides whether classes that can execute code are allowed.
    """
    problem = _problem(source, trust)
    if source.names is None:
        return problem
    if problem.cached_scene.named_by_places:
        raise InputError("names cannot be given: routes are named by the places they pass.")
    try:
        return problem.named(source.names)
    except InputError as error:
        raise InputError(f"names: {error}") from error


def _problem(source: ProblemSource, trust: Trust) -> Problem:
    if source.file is not None:
        _check_file(source.file)
        return _call(MILP.from_file, "MILP.from_file", source.arguments, source.file)
    built = trust.find(source.built) if source.built else registry.problems.find(str(source.kind))
    name = source.built or built.__name__
    arguments = {key: _argument(trust.folder, value) for key, value in source.arguments.items()}
    problem = _call(built, name, source.arguments, **arguments)
    if isinstance(problem, Problem):
        return problem
    try:
        return PyEPOProblem(problem)
    except InputError as error:
        raise InputError(f"{name!r} needs to build a Problem: {error}") from error


def _argument(folder: Path, value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"file"}:
        return read_argument(folder / str(value["file"]))
    return value


def _call(
    built: Callable[..., T], name: str, written: Mapping[str, Any], *first: Any, **given: Any
) -> T:
    """What a class or function makes of its arguments.

    Arguments:
        built: the one that is built.
        name: what it is called in messages.
        written: its arguments as they were written; they are passed unless others are given.
    """
    unknown = _unknown_argument(built, written)
    if unknown:
        raise InputError(f"{name}: {unknown}")
    try:
        return built(*first, **(given or written))
    except InputError:
        raise
    # Any: it may be the user's own code that runs here.
    except Exception as error:
        # As they were written: numbers that were read from a file would fill lines.
        raise InputError(
            f"{name} cannot be built with {dict(written)!r:.120}: {_line(error)}"
        ) from error


def _unknown_argument(built: Callable[..., Any], written: Mapping[str, Any]) -> str:
    """What to say of an argument that a class or function does not take, or ""."""
    try:
        parameters = signature(built).parameters.values()
    except (TypeError, ValueError):
        return ""  # it does not say what it takes
    if not parameters or any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        return ""
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    known = [one.name for one in parameters if one.kind in by_name]
    unknown = [argument for argument in written if argument not in known]
    return nearest("argument", unknown[0], known) if unknown else ""


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"there is no file {path}.")


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")
