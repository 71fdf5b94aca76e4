"""All that a run explains, loaded and checked, ready to be explained in batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import cfopt
from cfopt.app.config import Config, ModelSource
from cfopt.app.models import build_module, build_problem
from cfopt.app.question import (
    build_criterion,
    build_features,
    build_plausibility,
    build_proximity,
    build_search,
)
from cfopt.app.section import Section
from cfopt.app.tables import read_table, select
from cfopt.app.trust import Trust, digest, source_digest
from cfopt.contexts import Contexts
from cfopt.criteria import Criterion
from cfopt.errors import InputError, PredictorError
from cfopt.explain import explain
from cfopt.explanation import Explanation
from cfopt.features import Features
from cfopt.generative.base import GenerativeModel
from cfopt.pipeline import Pipeline
from cfopt.plausibility import Plausibility
from cfopt.proximity import Proximity
from cfopt.running.names import nearest
from cfopt.search import Search
from cfopt.search.trial import Trial
from cfopt.types import Progress

#: Rows explained at once: the first batch, and the largest of vectors and of images.
_FIRST, _VECTORS, _IMAGES = 16, 128, 16
#: Rows on which everything is tried before the run.
_TRIED = 4


@dataclass(frozen=True, eq=False)
class Work:
    """Contexts and everything else that `explain` takes.

    Arguments:
        config: that all this was built from.
        contexts: those to explain, `(B, ...)`, with names and labels.
        pipeline, criterion, generative, proximity, plausibility, search, reference: for `explain`.
        settings: all that results depend on, digests of files included.
        notes: what a user may want to know before it starts.
    """

    config: Config
    contexts: Contexts
    pipeline: Pipeline
    criterion: Criterion
    proximity: Proximity
    search: Search
    generative: GenerativeModel | None
    plausibility: Plausibility | None
    reference: Tensor | None
    settings: dict[str, Any]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.contexts.x)

    @cached_property
    def batches(self) -> list[range]:
        """Which rows are explained at once.

        Numbers in a batch are rounded a little differently than alone. So batches depend on nothing
        but the number of rows: a run that was killed gives the same results to the last digit.
        They grow: the first results come soon, and all of them in little more time than at once.
        """
        most = self.config.batch or (_VECTORS if self.contexts.x.ndim == 2 else _IMAGES)
        return list(_growing(len(self), most))

    def explain(
        self, rows: range, on_progress: Callable[[Progress], None] | None = None
    ) -> Explanation:
        """Explain some rows."""
        return self._explain(rows, self.search, on_progress)

    def check(self) -> Explanation:
        """Try everything but the search on the first rows; what raises here would do so later.

        Returns these rows, of which some may be rejected.
        """
        tried = replace(self, reference=None)  # which is a search of its own
        with _tried(self.config):
            return tried._explain(range(min(_TRIED, len(self))), Trial(self.search))

    def _explain(
        self,
        rows: range,
        search: Search,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Explanation:
        index = torch.arange(rows.start, rows.stop)
        found = explain(
            self.contexts.x[index],
            self.pipeline,
            self.criterion[index],
            generative=self.generative,
            proximity=self.proximity,
            plausibility=self.plausibility,
            search=search,
            features=self.contexts.features,
            reference=self.reference,
            margin=self.config.question.margin,
            on_progress=on_progress,
        )
        labels = self.contexts.labels
        return replace(found, labels=None if labels is None else labels[rows.start : rows.stop])


@contextmanager
def _tried(config: Config) -> Iterator[None]:
    """The user's models and solvers run here: what they raise is told with its place."""
    try:
        yield
    except InputError as error:
        placed = str(error).startswith(str(config.path))
        raise error if placed else InputError(f"{config.path}: {error}") from error
    except PredictorError as error:
        raise config.predictor.section.error(str(error)) from error
    # Any: it is their code.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{config.path}: the pipeline fails on its contexts: {reason}") from error


def _growing(count: int, most: int) -> Iterator[range]:
    start, size = 0, min(_FIRST, most)
    while start < count:
        stop = min(start + size, count)
        yield range(start, stop)
        start, size = stop, min(2 * size, most)


def load(config: Config, trusted: bool) -> Work:
    """Build and read everything that a configuration names.

    Arguments:
        config: what to build.
        trusted: whether files and classes that can execute code may be used.
    """
    trust = Trust(trusted, config.path.parent)
    features = build_features(config.features)
    search, proximity = build_search(config.search), build_proximity(config.proximity)
    plausibility = build_plausibility(config.plausibility)
    problem = build_problem(config.problem, trust)
    pipeline = Pipeline(build_module(config.predictor, trust), problem)
    generative = None
    if config.generative is not None:
        generative = cast(GenerativeModel, build_module(config.generative, trust))
    every, labels, notes = _read_contexts(config, features, pipeline, generative)
    rows = _chosen(config, len(every.x))
    chosen = torch.tensor(rows)
    reference = None
    if config.reference is not None:
        known = _table(config.reference, every.features, None)[0]
        reference = every.alike(known, pipeline)
    with _tried(config):
        criterion = build_criterion(config.question, pipeline, every.x, rows)
    return Work(
        config,
        replace(every, x=every.x[chosen], labels=tuple(labels[row] for row in rows)),
        pipeline,
        criterion,
        proximity,
        search,
        generative,
        plausibility,
        reference,
        _settings(config, trust),
        tuple(notes),
    )


def _read_contexts(
    config: Config, features: Features, pipeline: Pipeline, generative: GenerativeModel | None
) -> tuple[Contexts, list[Any], list[str]]:
    source = config.contexts
    table, labels, notes = _table(source.file, features, source.label)
    shape = getattr(generative, "context_shape", None)
    try:
        contexts = Contexts.of(table, pipeline, features, shape=shape)
    except InputError as error:
        raise source.section.error(f"{source.file}: {error}") from error
    return contexts, labels, notes


def _table(path: Path, features: Features, label: str | None) -> tuple[Any, list[Any], list[str]]:
    """Contexts of a file, what rows are called, and what was left out."""
    table = read_table(path)
    if isinstance(table, np.ndarray):
        if label is not None:
            raise InputError(f"{path} has no columns, so that none can be the label {label!r}.")
        if table.ndim in (1, 3):
            table = table[None]
        return table, list(range(len(table))), []
    labels: list[Any] = list(range(len(table)))
    if label is not None:
        labels = _labels(table, label, path)
        table = table.drop(columns=label)
    names = None if features.names is None else tuple(features.names)
    picked = select(table, names, path)
    left = [str(column) for column in table.columns if str(column) not in picked.columns]
    notes = [f"{path.name}: left out, as no feature: {', '.join(left)}"] if left else []
    return picked, labels, notes


def _labels(table: pd.DataFrame, label: str, path: Path) -> list[Any]:
    """What rows are called: the values of a column, which is no feature."""
    if label not in table.columns:
        names = [str(column) for column in table.columns]
        raise InputError(f"{path}: {nearest('column', label, names)}")
    return [str(value) for value in table[label]]


def _chosen(config: Config, total: int) -> list[int]:
    rows = config.contexts.rows
    if rows is None:
        return list(range(total))
    if isinstance(rows, int):
        return list(range(min(rows, total)))
    beyond = [row for row in rows if row >= total]
    if beyond:
        raise config.contexts.section.error(
            f"rows names row {beyond[0]}, but {config.contexts.file} has rows 0 to {total - 1}."
        )
    return list(rows)


def _settings(config: Config, trust: Trust) -> dict[str, Any]:
    """What was asked for, and digests of all files and classes that it names."""
    question, problem = config.question, config.problem
    files = [config.contexts.file, config.reference, question.file, question.costs, problem.file]
    files += [problem.section.file.parent / name for name in _named_files(problem.arguments)]
    sources: list[tuple[Section, str | None]] = [(problem.section, problem.built)]
    models: list[ModelSource] = [config.predictor]
    models += [config.generative] if config.generative is not None else []
    for model in models:
        files += [model.weights, model.archive]
        sources.append((model.section, model.built))
    code = {path: source_digest(trust.find(section, path)) for section, path in sources if path}
    return {
        "cfopt": cfopt.__version__,
        "configuration": dict(config.settings),
        "files": {
            Path(os.path.relpath(path, config.path.parent)).as_posix(): digest(path)
            for path in files
            if path is not None
        },
        "code": code,
    }


def _named_files(arguments: Any) -> list[str]:
    tables = [value for value in arguments.values() if isinstance(value, dict)]
    return [str(table["file"]) for table in tables if table.keys() == {"file"}]
