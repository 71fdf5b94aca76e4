"""The tables of a configuration: where models, contexts and results are, and how a run is made."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo

from cfopt import registry
from cfopt.app.schema import Table, TableError, build, member
from cfopt.question.proximity import L1, Proximity


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

    With items, the model predicts the cost of one of them. A treelite file may leave open whether
    the model rounds contexts to float32.
    """

    file: File | None = None
    archive: File | None = None
    items: ItemSource | None = None
    affine: bool = False
    rounding: bool | None = None
    one_of: ClassVar[tuple[str, ...]] = ("kind", "class", "file", "archive")

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return str(self.file or self.archive or super().name)


class GenerativeSource(ModelSource):
    """Where the generative model comes from.

    Arguments:
        anchored: the squared change beyond which a detail of the context is the model's own; what
            changes less keeps its details. Left out, all of an answer is as the model draws it.
    """

    anchored: float | None = Field(default=None, gt=0, allow_inf_nan=False)


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
        measures: for how many answers at most the report has the measures that need further
            solves: changes that were not needed, noise, known contexts that explain as well.
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
