"""All that a run explains, loaded and checked, ready to be explained in batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

import cfopt
from cfopt.app.config import Config
from cfopt.app.models import build_generative, build_predictor, build_problem
from cfopt.app.question import build_criterion
from cfopt.app.reading import chosen_rows, read_contexts, read_more
from cfopt.app.trust import digest, source_digest
from cfopt.engine.progress import Progress
from cfopt.errors import InputError, PredictorError
from cfopt.explaining.explain import answer
from cfopt.pipeline import Pipeline
from cfopt.pipeline.contexts import Contexts
from cfopt.question import Question
from cfopt.question.prices import Prices
from cfopt.question.robustness import Robustness
from cfopt.result.explanation import Explanation
from cfopt.search import Auto
from cfopt.search.dry_run import DryRun

#: Rows explained at once: the first batch, and the largest of vectors and of images.
_FIRST, _VECTORS, _IMAGES = 16, 128, 16


@dataclass(frozen=True, eq=False)
class Job:
    """Contexts and everything else that `explain` takes.

    Arguments:
        config: the configuration that all this was built from.
        contexts: those to explain, `(B, ...)`, with names and labels.
        pipeline: predictor and problem.
        question: what is asked, of all rows.
        settings: all that results depend on, digests of files included.
        notes: what a user may want to know before it starts.
    """

    config: Config
    contexts: Contexts
    pipeline: Pipeline
    question: Question
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
        most = self.config.tables.run.batch or (_VECTORS if self.contexts.x.ndim == 2 else _IMAGES)
        return list(_growing(len(self), most))

    def explain(
        self, rows: range, on_progress: Callable[[Progress], None] | None = None
    ) -> Explanation:
        """Explain some rows."""
        return self._ask(self.question, rows, on_progress)

    def trial(self, rows: range) -> Explanation:
        """Try everything but the search on some rows: what raises here would do so later."""
        search = DryRun(self.question.search or Auto())
        # To start from known contexts is a search of its own.
        return self._ask(replace(self.question, search=search, reference=None), rows)

    def _ask(
        self,
        question: Question,
        rows: range,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Explanation:
        index = torch.arange(rows.start, rows.stop)
        found = answer(self.contexts.x[index], self.pipeline, question[index], on_progress)
        # As it was asked, also where it was only tried.
        found = replace(found, asked=replace(found.asked, search=self.question.search))
        labels = self.contexts.labels
        labels = None if labels is None else labels[rows.start : rows.stop]
        return replace(found, labels=labels, columns=self.contexts.columns)


@contextmanager
def placed(config: Config) -> Iterator[None]:
    """The user's models and solvers run within: what they raise is reported with its place."""
    try:
        yield
    except InputError as error:
        has_place = str(error).startswith(str(config.path))
        raise error if has_place else InputError(f"{config.path}: {error}") from error
    except PredictorError as error:
        raise InputError(f"{config.path}, [predictor]: {error}") from error
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


def load(config: Config) -> Job:
    """Build and read everything that a configuration names.

    Arguments:
        config: what to build.
    """
    tables, trust = config.tables, config.trust
    with config.at("problem"):
        problem = build_problem(tables.problem, trust)
    with config.at("predictor"):
        predictor = build_predictor(tables.predictor, trust)
    pipeline = Pipeline(predictor, problem)
    generative, plausibility = None, None
    if tables.generative is not None:
        plausibility = tables.generative.plausibility
        with config.at("generative"):
            generative = build_generative(tables.generative, trust)
        if isinstance(generative, nn.Module) and isinstance(predictor, nn.Module):
            # In the predictor's precision: contexts pass through both.
            dtype = next((weight.dtype for weight in predictor.parameters()), None)
            generative = generative if dtype is None else generative.to(dtype)
    with config.at("contexts"):
        source = tables.contexts
        every, labels, notes = read_contexts(source, tables.features, pipeline, generative)
        rows = chosen_rows(source, len(every.x))
    reference = None
    if tables.reference is not None:
        with config.at("reference"):
            reference = read_more(tables.reference, every, pipeline)
    with placed(config), config.at("criterion"):
        criterion = build_criterion(tables.criterion, pipeline, every, rows)
    chosen = torch.tensor(rows)
    question = Question(
        criterion,
        tables.criterion.margin,
        tables.proximity,
        plausibility,
        tables.search,
        every.features,
        generative,
        reference,
        tables.run.time_limit,
        options=tables.criterion.options,
        robust=_robust(config),
        prices=None if tables.prices is None else Prices(tables.prices.proximity),
    )
    return Job(
        config,
        replace(every, x=every.x[chosen], labels=tuple(labels[row] for row in rows)),
        pipeline,
        question,
        _settings(config),
        tuple(notes),
    )


def _robust(config: Config) -> Robustness | None:
    """What answers have to stand up to; models are not read from files."""
    robust = config.tables.robust
    if robust is not None and robust.ball is None:
        with config.at("robust"):
            raise InputError(
                f"{type(robust).__name__} needs models, which a configuration does not load; use "
                'kind = "Ball" here, or explain(robust=...) in Python.'
            )
    return robust


def _settings(config: Config) -> dict[str, Any]:
    """What was asked for, and digests of all files and classes that it names."""
    tables = config.tables
    asked, problem, predictor = tables.criterion, tables.problem, tables.predictor
    files = [tables.contexts.file, asked.alternatives, asked.costs, problem.file]
    files += [predictor.weights, predictor.file, predictor.archive]
    files += [predictor.items.file] if predictor.items is not None else []
    files += [tables.generative.weights] if tables.generative is not None else []
    files += [tables.reference.file] if tables.reference is not None else []
    files += [config.path.parent / name for name in _named_files(problem.arguments)]
    named = [table["class"] for table in _tables(config.settings) if "class" in table]
    return {
        "cfopt": cfopt.__version__,
        "configuration": config.settings,
        "files": {
            Path(os.path.relpath(path, config.path.parent)).as_posix(): digest(path)
            for path in files
            if path is not None
        },
        "code": {path: source_digest(config.trust.find(path)) for path in named},
    }


def _tables(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All tables, and those within them, but for arguments, which may have keys of any name."""
    for name, table in content.items():
        if isinstance(table, dict) and name != "arguments":
            yield table
            yield from _tables(table)


def _named_files(arguments: Any) -> list[str]:
    tables = [value for value in arguments.values() if isinstance(value, dict)]
    return [str(table["file"]) for table in tables if table.keys() == {"file"}]
