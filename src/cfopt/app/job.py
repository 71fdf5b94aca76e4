"""All that a run explains, loaded and checked, ready to be explained in parts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

import cfopt
from cfopt.app.config import Config, read_config
from cfopt.app.models import build_generative, build_predictor, build_problem
from cfopt.app.question import Asked as AskedRows
from cfopt.app.reading import chosen_rows, open_contexts, read_more
from cfopt.app.trust import source_file
from cfopt.errors import InputError, PredictorError, in_words
from cfopt.fleet.finished import versions
from cfopt.fleet.source import ContextSource
from cfopt.fleet.work import Asked, Work
from cfopt.pipeline import Pipeline
from cfopt.pipeline.contexts import Contexts
from cfopt.question import Question
from cfopt.question.prices import Prices
from cfopt.question.robustness import Robustness
from cfopt.running.surroundings import surroundings
from cfopt.storage.digests import digest, digest_json
from cfopt.storage.watched import Watched


class Job(Work):
    """What a configuration says is to be explained.

    Arguments:
        config: the configuration that all this was built from.
        source: the contexts of its file.
        chosen: the numbers there of the rows that are explained.
        pipeline: predictor and problem.
        asked: the criterion of any of the rows.
        common: everything else that is asked, of all rows.
        notes: what a user may want to know before it starts.
        files: all files that it names, as they were before they were read.
    """

    def __init__(
        self,
        config: Config,
        source: ContextSource,
        chosen: Sequence[int],
        pipeline: Pipeline,
        asked: AskedRows,
        common: Mapping[str, Any],
        notes: tuple[str, ...],
        files: Watched,
    ) -> None:
        run = config.tables.run
        super().__init__(
            pipeline,
            _settings(config, files) | {"usual changes": source.features.usual},
            files=files,
            batch=run.batch,
            part=run.part,
            title=config.title,
            notes=notes,
        )
        self.config, self.source = config, source
        self._chosen, self._asked, self._common = chosen, asked, common

    def __len__(self) -> int:
        return len(self._chosen)

    def read(self, rows: range) -> Asked:
        """Some rows, and what is asked of them."""
        contexts = self.source_rows(rows)
        with placed(self.config), self.config.at("criterion"):
            criterion = self._asked.criterion(rows)
        return Asked(contexts, Question(criterion, features=contexts.features, **self._common))

    def source_rows(self, rows: range) -> Contexts:
        """The contexts of some rows, without what is asked of them."""
        return self.source.read(self._chosen[rows.start : rows.stop])

    @cached_property
    def _every(self) -> Asked:
        return self.read(range(len(self)))

    @property
    def contexts(self) -> Contexts:
        """All contexts that are explained, for those who need them at once."""
        return self._every.contexts

    @property
    def question(self) -> Question:
        """What is asked of all of them."""
        return self._every.question

    @property
    def pictures(self) -> int:
        """How many rows are drawn, at most."""
        return self.config.tables.output.pictures

    @property
    def measured(self) -> int:
        """Of how many answers the measures of the field are taken, at most."""
        return self.config.tables.output.measures

    @property
    def threads(self) -> int | None:
        """How many threads a run in one process uses; None for a default."""
        return self.config.tables.run.threads

    def origin(self) -> dict[str, Any]:
        """Where the configuration is."""
        return {"configuration": str(self.config.path.resolve())}

    def identity(self) -> dict[str, Any]:
        """By which a finished run is recognised before anything is loaded."""
        files = _code(self.config).values()
        code = {str(file): digest(file) for file in files if file is not None}
        return {"content": digest_json(self.config.content), "code": code}

    def described(self) -> dict[str, str]:
        """What a reader of the report may want to know about the run."""
        tables, question = self.config.tables, self.first.question
        sources = {
            "Configuration": self.config.path.name,
            "Contexts": Path(tables.contexts.file).name,
            "Predictor": tables.predictor.name,
            "Problem": type(self.pipeline.problem).__name__,
            "Search": self.search_in_words(),
            "Proximity": type(question.proximity).__name__,
        }
        if tables.generative is not None:
            sources["Generative model"] = tables.generative.name
        if question.plausibility is not None:
            sources["Plausibility"] = str(question.plausibility)
        made = surroundings()
        known = ", ".join(f"{name} {made[name]}" for name in ("cfopt", "torch", "highspy"))
        return sources | {"Made with": known}

    def search_in_words(self) -> str:
        """The search's name, and its settings."""
        given = self.config.content.get("search", {})
        own = [f"{key} = {value}" for key, value in given.items() if key not in ("kind", "class")]
        name = type(self._common["search"]).__name__
        return f"{name} ({', '.join(own)})" if own else name


@dataclass(frozen=True)
class JobRecipe:
    """What another process needs to load the same job.

    Arguments:
        path: the configuration.
        trusted: whether what it names may execute code.
    """

    path: Path
    trusted: bool

    def open(self) -> Job:
        """Load it."""
        return load(read_config(self.path, self.trusted))


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
        reason = in_words(error)
        raise InputError(f"{config.path}: the pipeline fails on its contexts: {reason}") from error


def load(config: Config) -> Job:
    """Build and read everything that a configuration names.

    Arguments:
        config: what to build.
    """
    tables, trust = config.tables, config.trust
    files = Watched(_files(config))
    with config.at("problem"):
        problem = build_problem(tables.problem, trust)
    with config.at("predictor"):
        predictor = build_predictor(tables.predictor, trust)
    pipeline = Pipeline(predictor, problem)
    generative = None
    if tables.generative is not None:
        with config.at("generative"):
            generative = build_generative(tables.generative, trust)
        if isinstance(generative, nn.Module) and isinstance(predictor, nn.Module):
            # In the predictor's precision: contexts pass through both.
            dtype = next((weight.dtype for weight in predictor.parameters()), None)
            generative = generative if dtype is None else generative.to(dtype)
    with config.at("contexts"):
        source, notes = open_contexts(tables.contexts, tables.features, pipeline, generative)
        rows = chosen_rows(tables.contexts, len(source))
    reference = None
    if tables.reference is not None:
        with config.at("reference"):
            reference = read_more(tables.reference, source)
            source = source.in_units_of(reference)
    with placed(config), config.at("criterion"):
        asked = AskedRows(tables.criterion, pipeline, source, rows)
    common = {
        "margin": tables.criterion.margin,
        "proximity": tables.proximity,
        "plausibility": tables.plausibility,
        "search": tables.search,
        "generative": generative,
        "reference": reference,
        "time_limit": tables.run.time_limit,
        "options": tables.criterion.options,
        "robust": _robust(config),
        "prices": None if tables.prices is None else Prices(tables.prices.proximity),
    }
    job = Job(config, source, rows, pipeline, asked, common, tuple(notes), files)
    files.check()
    _ = job.first  # so that what cannot be read or asked is reported now
    return job


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


def _files(config: Config) -> dict[str, Path | str]:
    """The files that a configuration names, those of classes apart."""
    tables = config.tables
    asked, problem, predictor = tables.criterion, tables.problem, tables.predictor
    files: list[Path | str | None] = [
        tables.contexts.file,
        asked.alternatives,
        asked.costs,
        problem.file,
    ]
    files += [predictor.weights, predictor.file, predictor.archive]
    files += [predictor.items.file] if predictor.items is not None else []
    files += [tables.generative.weights] if tables.generative is not None else []
    files += [tables.reference.file] if tables.reference is not None else []
    files += [config.path.parent / name for name in _named_files(problem.arguments)]
    return {_name(config, path): path for path in files if path is not None}


def _settings(config: Config, files: Watched) -> dict[str, Any]:
    """What was asked for, and digests of all files and classes that it names."""
    return {
        "cfopt": cfopt.__version__,
        "versions": versions(),
        "configuration": config.settings,
        "files": files.digests,
        "code": {
            name: None if file is None else digest(file) for name, file in _code(config).items()
        },
    }


def _name(config: Config, path: Path | str) -> str:
    """A file as seen from the configuration; an address as it is."""
    if isinstance(path, str):
        return path
    return Path(os.path.relpath(path, config.path.parent)).as_posix()


def _code(config: Config) -> dict[str, Path | None]:
    """The files that define the classes that a configuration names."""
    named = [table["class"] for table in _tables(config.settings) if "class" in table]
    return {path: source_file(config.trust.find(path)) for path in named}


def _tables(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All tables, and those within them, but for arguments, which may have keys of any name."""
    for name, table in content.items():
        if isinstance(table, dict) and name != "arguments":
            yield table
            yield from _tables(table)


def _named_files(arguments: Any) -> list[str]:
    tables = [value for value in arguments.values() if isinstance(value, dict)]
    return [str(table["file"]) for table in tables if table.keys() == {"file"}]
