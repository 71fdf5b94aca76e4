"""The configuration of a run: a TOML file as typed tables. No model is loaded yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainValidator

from cfopt import registry
from cfopt.app.criterion_source import CriterionSource
from cfopt.app.features import read_features
from cfopt.app.files import read_toml
from cfopt.app.schema import Table, TableError, build
from cfopt.app.sources import (
    GenerativeSource,
    Output,
    PredictorSource,
    PricesSource,
    ProblemSource,
    ReferenceSource,
    Run,
    TableSource,
    TrainingSource,
)
from cfopt.app.trust import Trust
from cfopt.errors import InputError
from cfopt.question.features import Features
from cfopt.question.plausibility import Plausibility
from cfopt.question.proximity import L2, Proximity
from cfopt.question.robustness import Robustness
from cfopt.search import Auto, Search

#: No result depends on these.
_IRRELEVANT = ("title", "output", "training")


class Tables(Table):
    """All tables of a configuration.

    Arguments:
        title: the title of the report.
        predictor: the model that predicts costs.
        problem: what is optimised, at these costs.
        contexts: the situations whose decisions are explained.
        features: what is known of contexts: names, units, limits.
        criterion: what is asked.
        proximity: how the distance to an answer is measured.
        search: how answers are looked for.
        generative: a model of plausible contexts, if any.
        reference: a file of known contexts, if any.
        plausibility: what answers should be like, if that matters.
        robust: what answers have to stand up to, if anything.
        prices: what is asked about costs besides; None if nothing is.
        run, output: the size of batches, and where results go.
        training: the settings of `cfopt train`.
    """

    title: str | None = None
    predictor: PredictorSource
    problem: ProblemSource
    contexts: TableSource
    features: Annotated[Features, PlainValidator(read_features)] = Features()
    criterion: Annotated[CriterionSource, PlainValidator(CriterionSource.of)]
    proximity: Annotated[Proximity, PlainValidator(partial(build, registry.proximities, L2))] = L2()
    search: Annotated[Search, PlainValidator(partial(build, registry.searches, Auto))] = Auto()
    generative: GenerativeSource | None = None
    reference: ReferenceSource | None = None
    plausibility: Annotated[
        Plausibility | None, PlainValidator(partial(build, registry.plausibilities, None))
    ] = None
    robust: Annotated[
        Robustness | None, PlainValidator(partial(build, registry.robustness, None))
    ] = None
    prices: PricesSource | None = None
    run: Run = Run()
    output: Output = Output()
    training: TrainingSource = TrainingSource()


@dataclass(frozen=True)
class Config:
    """All that a run needs to know.

    Arguments:
        path: the file to read.
        trust: whether what it names may execute code.
        tables: its content, validated.
        content: the file as it was read.
    """

    path: Path
    trust: Trust
    tables: Tables
    content: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The title of the report."""
        return self.tables.title or self.path.stem

    @property
    def folder(self) -> Path:
        """Where results go."""
        return self.tables.output.folder or self.path.parent / "results"

    @property
    def settings(self) -> dict[str, Any]:
        """What results depend on."""
        return {key: value for key, value in self.content.items() if key not in _IRRELEVANT}

    @contextmanager
    def at(self, table: str) -> Iterator[None]:
        """Report what is wrong within with its place in the file."""
        try:
            yield
        except InputError as error:
            place = f"{self.path}, [{table}]"
            raise (
                error if str(error).startswith(str(self.path)) else InputError(f"{place}: {error}")
            ) from error


def read_config(path: Path, trusted: bool | None = False) -> Config:
    """Read a configuration; whatever is unknown, missing or of the wrong kind is an error.

    Arguments:
        path: the file to read.
        trusted: whether classes that can execute code may be used; None to ignore them.
    """
    content = read_toml(path)
    trust = Trust(bool(trusted), path.parent)
    context = {"folder": path.parent, "trust": None if trusted is None else trust}
    try:
        tables = Tables.read(content, context)
    except TableError as mistake:
        place = f"{path}, [{'.'.join(mistake.within)}]" if mistake.within else str(path)
        raise InputError(f"{place}: {mistake}") from mistake
    return Config(path, trust, tables, content)
