"""The configuration of a run: a TOML file as typed tables. No model is loaded yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo

from cfopt import registry
from cfopt.app.features import read_features
from cfopt.app.files import read_toml
from cfopt.app.schema import Table, TableError, build, kind_of, member, settings_of
from cfopt.app.trust import Trust
from cfopt.errors import InputError
from cfopt.problems.foil import Foil
from cfopt.problems.foil_text import WISHES, foil_of
from cfopt.question import Criterion
from cfopt.question.features import Features
from cfopt.question.plausibility import Plausibility
from cfopt.question.proximity import L1, L2, Proximity
from cfopt.question.robustness import Robustness
from cfopt.search import Auto, Search

#: Where alternatives may come from.
_PLACES = ("alternatives", "decision_of_row", "optimum_of_row")
#: No result depends on these.
_IRRELEVANT = ("title", "output", "training")


def _path(given: Any, info: ValidationInfo) -> Path:
    """A file or folder, from the configuration's own folder; whether it exists is not asked."""
    if not isinstance(given, str):
        raise TableError(f"{info.field_name} needs text, got {given!r:.60}.")
    folder: Path = (info.context or {})["folder"]
    return folder / Path(given).expanduser()


def _data(given: Any, info: ValidationInfo) -> Path | str:
    """A file, a folder of Parquet files, or the address of either, such as s3://bucket/orders."""
    return given if isinstance(given, str) and "://" in given else _path(given, info)


File = Annotated[Path, PlainValidator(_path)]
Data = Annotated[Path | str, PlainValidator(_data)]
Class = Annotated[str | None, Field(alias="class")]


class ModelSource(Table):
    """Where a model comes from: a name or an import path, its arguments and its weights."""

    kind: str | None = None
    built: Class = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    weights: File | None = None
    one_of: ClassVar[tuple[str, ...]] = ("kind", "class")

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self.built or str(self.kind)


class ItemSource(Table):
    """A table with a row for each item, and which of its columns a model of one cost reads."""

    file: File
    columns: list[str] | None = None


class PredictorSource(ModelSource):
    """Where the predictor comes from, and whether its owner declares it to be affine.

    With items, the model predicts the cost of one of them.
    """

    file: File | None = None
    archive: File | None = None
    items: ItemSource | None = None
    affine: bool = False
    one_of: ClassVar[tuple[str, ...]] = ("kind", "class", "file", "archive")

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return str(self.file or self.archive or super().name)


class GenerativeSource(ModelSource):
    """Where the generative model comes from, and what its codes should be like.

    Arguments:
        anchored: the squared change beyond which a detail of the context is the model's own; what
            changes less keeps its details. Left out, all of an answer is as the model draws it.
        plausibility: what codes should be like.
    """

    anchored: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    plausibility: Annotated[
        Plausibility | None, PlainValidator(partial(build, registry.plausibilities, None))
    ] = None


class ProblemSource(Table):
    """Where the problem comes from: a name, an import path, or an MPS or LP file."""

    kind: str | None = None
    built: Class = None
    file: File | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    names: list[Any] | None = None
    one_of: ClassVar[tuple[str, ...]] = ("kind", "file", "class")


def _rows(given: Any) -> Any:
    if isinstance(given, list) and given and all(type(row) is int and row >= 0 for row in given):
        return tuple(given)
    if given is not None and not (type(given) is int and given > 0):
        raise TableError(
            f"rows needs a number of rows, or a list of row numbers from 0; got {given!r:.60}."
        )
    return given


class TableSource(Table):
    """Contexts in a CSV, Parquet or NumPy file, or in a folder of Parquet files.

    Which rows, and the column with their labels.
    """

    file: Data
    label: str | None = None
    rows: Annotated[int | tuple[int, ...] | None, PlainValidator(_rows)] = None


class ReferenceSource(Table):
    """A file of known contexts."""

    file: File


class PricesSource(Table):
    """How changes of the costs are measured, where these are asked about besides."""

    proximity: Annotated[Proximity, PlainValidator(partial(build, registry.proximities, L1))] = L1()


class Run(Table):
    """How many rows are explained at once, at most, in how many seconds, with how many threads.

    None stands for a default.

    Arguments:
        part: how many rows are kept together in one file, at most.
    """

    batch: int | None = Field(default=None, ge=1)
    part: int | None = Field(default=None, ge=1)
    time_limit: float | None = Field(default=None, gt=0)
    threads: int | None = Field(default=None, ge=1, le=1024)


class Output(Table):
    """What is written.

    Arguments:
        folder: where everything is written; "results" beside the configuration by default.
        pictures: how many rows are drawn at most.
        measures: of how many answers at most the report has the measures that need further solves:
            changes that were not needed, noise, known contexts that explain as well.
    """

    folder: File | None = None
    pictures: int = Field(default=12, ge=0)
    measures: int = Field(default=0, ge=0)


_Count = Annotated[int, Field(ge=1, lt=2**63)]


class Loss(StrEnum):
    """What a predictor is trained with."""

    MSE = "MSE"
    SPO = "SPO+"


class TrainingSource(Table):
    """What `cfopt train` needs to know."""

    contexts: File | None = None
    costs: File | None = None
    loss: Annotated[Loss, BeforeValidator(partial(member, Loss))] = Loss.MSE
    epochs: _Count = 100
    learning_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    batch_size: _Count = 32
    seed: int = Field(default=0, ge=0, lt=2**63)
    alpha: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class CriterionSource(Table):
    """The criterion, and where its alternatives come from; its own fields are further keys.

    Arguments:
        margin: the fraction by which it must hold.
        options: how many answers that differ in kind each row gets, at most.
        alternatives: a file of decisions.
        decision_of_row: rows whose decisions are the alternatives: one for all, or one each.
        optimum_of_row: rows whose true optima are the alternatives; "own" gives each row its own.
        costs: the file of true costs.
        uses, avoids, at_least, at_most, conditions: in place of alternatives, a wish.
    """

    margin: float = 0.0
    options: int = Field(default=1, ge=1)
    alternatives: File | None = None
    decision_of_row: Any = None
    optimum_of_row: Any = None
    costs: File | None = None
    uses: Any = None
    avoids: Any = None
    at_least: Any = None
    at_most: Any = None
    conditions: Any = None
    #: What is asked for.
    target: ClassVar[type[Criterion]]

    @classmethod
    def known_keys(cls) -> list[str]:
        """The keys that it may have: without an alternative, none that says where it is."""
        hidden = () if cls.target.contrasts else (*_PLACES, "costs", *WISHES)
        return [key for key in super().known_keys() if key not in hidden]

    def wish(self) -> Foil | None:
        """The wish, if there is one in place of alternatives."""
        given = {key: value for key in WISHES if (value := getattr(self, key)) is not None}
        return foil_of(given) if given else None

    @classmethod
    def of(cls, given: Any, info: ValidationInfo) -> CriterionSource | None:
        """What a table says; None if it names a class that waits for trust."""
        kind = kind_of(registry.criteria, None, given, info)
        if kind is None:
            return None
        if not (isinstance(kind, type) and issubclass(kind, Criterion)):
            raise TableError(f"{given['class']!r} is not a criterion.")
        wished = kind.contrasts and any(key in given for key in WISHES)
        read: CriterionSource = _criterion_table(kind, wished).read(given, info.context)
        named = [key for key in _PLACES if key in given]
        if wished and named:
            raise TableError(f"a wish and {named[0]} exclude each other: give one of them.")
        try:
            read.wish()
        except InputError as error:
            raise TableError(str(error)) from error
        if (read.costs is None) is not (read.optimum_of_row is None):
            raise TableError("costs and optimum_of_row belong together: give both, or neither.")
        return read

    @property
    def settings(self) -> dict[str, Any]:
        """The criterion's own fields."""
        return self.given(*CriterionSource.model_fields)


@cache
def _criterion_table(kind: type[Criterion], wished: bool) -> Any:
    places = _PLACES if kind.contrasts and not wished else ()
    own = {"target": kind, "one_of": places, "__module__": __name__}
    return settings_of(kind, kind.row_fields(), type("_Source", (CriterionSource,), own))


class Tables(Table):
    """All tables of a configuration.

    Arguments:
        title: the title of the report.
        predictor, problem, contexts, criterion: what to explain, and what is asked.
        features, proximity, search: the objects of these names.
        generative: a model of plausible contexts, if any.
        reference: a file of known contexts, if any.
        robust: what answers have to stand up to, if anything.
        prices: that costs are asked about besides, if they are.
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
