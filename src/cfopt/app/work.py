"""All that a run explains, loaded and checked, ready to be explained in batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

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
from cfopt.app.reading import chosen_rows, read_contexts, read_more
from cfopt.app.section import Section
from cfopt.app.trust import Trust, digest, source_digest
from cfopt.contexts import Contexts
from cfopt.errors import InputError, PredictorError
from cfopt.explain import explain
from cfopt.explanation import Explanation
from cfopt.generative.base import GenerativeModel
from cfopt.pipeline import Pipeline
from cfopt.plausibility import Plausibility
from cfopt.proximity import Proximity
from cfopt.question import Criterion
from cfopt.search import Search
from cfopt.search.trial import Trial
from cfopt.types import Progress

#: Rows explained at once: the first batch, and the largest of vectors and of images.
_FIRST, _VECTORS, _IMAGES = 16, 128, 16


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

    def trial(self, rows: range) -> Explanation:
        """Try everything but the search on some rows: what raises here would do so later."""
        tried = replace(self, reference=None)  # which is a search of its own
        return tried._explain(rows, Trial(self.search))

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
def placed(config: Config) -> Iterator[None]:
    """The user's models and solvers run within: what they raise is told with its place."""
    try:
        yield
    except InputError as error:
        has_place = str(error).startswith(str(config.path))
        raise error if has_place else InputError(f"{config.path}: {error}") from error
    except PredictorError as error:
        raise config.predictor.section.error(str(error)) from error
    # Any: it is their code, which may also want to end the process.
    except (Exception, SystemExit) as error:
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
    predictor = build_module(config.predictor, trust)
    pipeline = Pipeline(predictor, problem)
    generative = None
    if config.generative is not None:
        model = build_module(config.generative, trust)
        # In the predictor's precision: contexts pass through both.
        dtype = next((weight.dtype for weight in predictor.parameters()), None)
        generative = cast(GenerativeModel, model if dtype is None else model.to(dtype))
    every, labels, notes = read_contexts(config.contexts, features, pipeline, generative)
    rows = chosen_rows(config.contexts, len(every.x))
    chosen = torch.tensor(rows)
    known = config.reference
    reference = None if known is None else read_more(known, every, pipeline)
    with placed(config):
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


def _settings(config: Config, trust: Trust) -> dict[str, Any]:
    """What was asked for, and digests of all files and classes that it names."""
    question, problem = config.question, config.problem
    files = [config.contexts.file, question.file, question.costs, problem.file]
    files += [config.reference.file] if config.reference is not None else []
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
