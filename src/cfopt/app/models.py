"""Predictors, generative models and problems, built as a configuration describes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from cfopt import problems, weights
from cfopt.affine import Affine
from cfopt.app.config import ModelSource, ProblemSource
from cfopt.app.section import Section
from cfopt.app.tables import read_numbers
from cfopt.app.trust import Trust, is_known
from cfopt.errors import InputError
from cfopt.problems import MILP, Problem, PyEPOProblem

T = TypeVar("T")
_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt")
_BUILT_IN = ("GridShortestPath", "TerrainShortestPath", "Knapsack", "Finite", "MILP")


def build_module(source: ModelSource, trust: Trust, *, with_weights: bool = True) -> nn.Module:
    """A predictor or a generative model in eval mode, with its weights.

    Arguments:
        source: class, arguments and weights, or an archive.
        trust: for classes and files that can execute code.
        with_weights: False for a model that is yet to be trained.
    """
    if source.archive is not None:
        return _declared(source, _load_archive(source, source.archive, trust))
    assert source.built is not None
    found = trust.find(source.section, source.built)
    # Forked: first weights are drawn at random, and the caller's random numbers stay as is.
    with torch.random.fork_rng(devices=[]):
        model = _call(found, source.section, source.built, source.arguments)
    if not isinstance(model, nn.Module):
        raise source.section.error(
            f"{source.built!r} needs to build a torch.nn.Module, got {type(model).__name__}."
        )
    if source.weights is not None and with_weights:
        _load(model, source.weights, source, trust)
    elif with_weights and list(model.parameters()) and (not trust.given or is_known(found)):
        raise source.section.error("weights is missing: the model would have random ones.")
    return _declared(source, model.eval())


def _declared(source: ModelSource, model: nn.Module) -> nn.Module:
    return Affine(model) if source.affine else model


def _load_archive(source: ModelSource, path: Path, trust: Trust) -> nn.Module:
    _check_file(source.section, path)
    trust.need(source.section, f"{path} is a torch.export archive, which can execute code")
    try:
        with _silent("torch.export"):
            return torch.export.load(path).module()
    # Any: a damaged archive raises whatever.
    except Exception as error:
        raise source.section.error(f"{path} is no torch.export archive: {_line(error)}") from error


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Without the messages of a logger, which repeat at length what is told in a line."""
    logger = logging.getLogger(name)
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = disabled


def _load(model: nn.Module, path: Path, source: ModelSource, trust: Trust) -> None:
    """Weights into a model, which takes their precision."""
    _check_file(source.section, path)
    tensors = _tensors(path, source.section, trust)
    broken = [name for name, t in tensors.items() if not bool(t.isfinite().all())]
    if broken:
        raise source.section.error(
            f"the weights in {path} are not all finite: {broken[0]} has NaN or infinite values."
        )
    kinds = {t.dtype for t in tensors.values() if t.is_floating_point()}
    if kinds == {torch.float64}:  # else digits would be lost on the way into the model
        model.double()
    try:
        model.load_state_dict(tensors)
    except (RuntimeError, TypeError) as error:
        reason = "; ".join(part.strip() for part in str(error).splitlines()[1:3]) or str(error)
        raise source.section.error(
            f"the weights in {path} do not fit {source.built}: {reason:.300}"
        ) from error


def _tensors(path: Path, section: Section, trust: Trust) -> dict[str, Tensor]:
    if path.suffix.lower() not in _PICKLES:
        try:
            return weights.read(path)[0]
        except InputError as error:
            raise section.error(str(error)) from error
    trust.need(
        section,
        f"{path} is a pickle, which can execute code on loading; convert it with "
        "safetensors.torch.save_file",
    )
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    # Any: a damaged file raises whatever.
    except Exception as error:
        raise section.error(f"{path} holds no state dict: {_line(error)}") from error
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise section.error(
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
        source: which, and its arguments; an argument that is a table with a `file` is read from it.
        trust: for classes that can execute code.
    """
    problem = _problem(source, trust)
    if source.names is None:
        return problem
    if problem.cached_scene.named_by_places:
        raise source.section.error(
            "names cannot be given: routes are told by the places they pass."
        )
    try:
        return problem.named(source.names)
    except InputError as error:
        raise source.section.error(f"names: {error}") from error


def _problem(source: ProblemSource, trust: Trust) -> Problem:
    section = source.section
    if source.file is not None:
        _check_file(section, source.file)
        return _call(MILP.from_file, section, "MILP.from_file", source.arguments, source.file)
    if source.kind is not None:
        name = section.pick("problem", source.kind, _BUILT_IN)
        built: Callable[..., Any] = getattr(problems, name)
    else:
        assert source.built is not None
        name, built = source.built, trust.find(section, source.built)
    arguments = {key: _argument(section, value) for key, value in source.arguments.items()}
    problem = _call(built, section, name, arguments)
    if isinstance(problem, Problem):
        return problem
    try:
        return PyEPOProblem(problem)
    except InputError as error:
        raise section.error(f"{name!r} needs to build a Problem: {error}") from error


def _argument(section: Section, value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"file"}:
        return read_numbers(section.file.parent / str(value["file"]))
    return value


def _call(
    built: Callable[..., T],
    section: Section,
    name: str,
    arguments: Mapping[str, Any],
    *first: Any,
) -> T:
    """What a class or function makes of its arguments."""
    try:
        return built(*first, **arguments)
    except InputError as error:
        raise section.error(str(error)) from error
    # Any: it may be the user's own code that runs here.
    except Exception as error:
        # As they were written: numbers that were read from a file would fill lines.
        given = section.any("arguments", {})
        raise section.error(
            f"{name} cannot be built with {given!r:.120}: {_line(error)}"
        ) from error


def _check_file(section: Section, path: Path) -> None:
    if not path.is_file():
        raise section.error(f"there is no file {path}.")


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")
