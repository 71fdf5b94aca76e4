"""The configuration of a run: a TOML file as typed tables. No model is loaded yet."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo, create_model
from pydantic import model_validator as after

from cfopt import registry
from cfopt.app.schema import Table, TableError, build, kind_of, settings_of
from cfopt.app.trust import Trust
from cfopt.errors import InputError
from cfopt.features import Features, LinearLimit
from cfopt.names import nearest
from cfopt.plausibility import Plausibility
from cfopt.proximity import L2, Proximity
from cfopt.question import Criterion
from cfopt.search import Auto, Search

#: No result depends on these.
_IRRELEVANT = ("title", "output", "training")


def _path(given: Any, info: ValidationInfo) -> Path:
    """A file or folder, from the configuration's own folder; whether it exists is not asked."""
    if not isinstance(given, str):
        raise TableError(f"{info.field_name} needs text, got {given!r:.60}.")
    folder: Path = (info.context or {})["folder"]
    return folder / Path(given).expanduser()


File = Annotated[Path, PlainValidator(_path)]
Class = Annotated[str | None, Field(alias="class")]


class ModelSource(Table):
    """Where a model comes from: a name or an import path, its arguments and its weights."""

    kind: str | None = None
    built: Class = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    weights: File | None = None

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self.built or self.kind or "?"


class PredictorSource(ModelSource):
    """Where the predictor comes from, and whether its owner declares it to be affine."""

    archive: File | None = None
    affine: bool = False

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self.built or self.kind or str(self.archive)

    @after(mode="after")
    def _check(self) -> PredictorSource:
        given = {"kind": self.kind, "class": self.built, "archive": self.archive}
        _exactly_one(given)
        if self.archive is not None and (self.arguments or self.weights):
            raise TableError("arguments and weights are for a class; an archive has its own.")
        return self


class GenerativeSource(ModelSource):
    """Where the generative model comes from, and what its codes should be like."""

    plausibility: Annotated[
        Plausibility | None, PlainValidator(partial(build, registry.plausibilities, None))
    ] = None

    @after(mode="after")
    def _check(self) -> GenerativeSource:
        _exactly_one({"kind": self.kind, "class": self.built})
        return self


class ProblemSource(Table):
    """Where the problem comes from: a name, an import path, or an MPS or LP file."""

    kind: str | None = None
    built: Class = None
    file: File | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    names: list[Any] | None = None

    @after(mode="after")
    def _check(self) -> ProblemSource:
        _exactly_one({"kind": self.kind, "file": self.file, "class": self.built})
        return self


def _exactly_one(given: Mapping[str, Any]) -> None:
    found = [key for key, value in given.items() if value is not None]
    if len(found) != 1:
        got = " and ".join(found) if found else "none of them"
        raise TableError(f"needs exactly one of {', '.join(given)}; got {got}.")


def _rows(given: Any) -> Any:
    if isinstance(given, list) and given and all(type(row) is int and row >= 0 for row in given):
        return tuple(given)
    if given is not None and not (type(given) is int and given > 0):
        raise TableError(
            f"rows needs how many rows, or a list of row numbers from 0; got {given!r:.60}."
        )
    return given


class TableSource(Table):
    """Contexts in a CSV, Parquet or NumPy file: which rows, and the column with their labels."""

    file: File
    label: str | None = None
    rows: Annotated[int | tuple[int, ...] | None, PlainValidator(_rows)] = None


class ReferenceSource(Table):
    """A file of known contexts."""

    file: File


class Run(Table):
    """How many rows are explained at once, at most; None for a default."""

    batch: int | None = Field(default=None, ge=1)


class Output(Table):
    """What is written: the folder, and how many rows are drawn at most."""

    folder: File | None = None
    pictures: int = Field(default=12, ge=0)


_Count = Annotated[int, Field(ge=1, lt=2**63)]


class TrainingSource(Table):
    """What `cfopt train` needs to know."""

    contexts: File | None = None
    costs: File | None = None
    loss: Annotated[
        Literal["MSE", "SPO+"], BeforeValidator(lambda given: _pick("loss", given, "MSE", "SPO+"))
    ] = "MSE"
    epochs: _Count = 100
    learning_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    batch_size: _Count = 32
    seed: int = Field(default=0, ge=0, lt=2**63)
    alpha: float = Field(default=0.0, ge=0, allow_inf_nan=False)


def _pick(what: str, given: Any, *known: str) -> str:
    found = next((name for name in known if name.lower() == str(given).lower()), None)
    if found is None:
        raise TableError(nearest(what, str(given), known))
    return found


class _Asked(Table):
    """What every criterion can be given."""

    margin: float = 0.0


class _Contrast(_Asked):
    """Where the alternatives of a criterion come from."""

    alternatives: File | None = None
    decision_of_row: Any = None
    optimum_of_row: Any = None
    costs: File | None = None

    @after(mode="after")
    def _check(self) -> _Contrast:
        how = ("alternatives", "decision_of_row", "optimum_of_row")
        _exactly_one({key: getattr(self, key) for key in how})
        if self.costs is not None and self.optimum_of_row is None:
            known = [key for key in self.known_keys() if key != "costs"]
            raise TableError(nearest("key", "costs", known))
        if self.optimum_of_row is not None and self.costs is None:
            raise TableError("costs is missing.")
        return self


@dataclass(frozen=True)
class CriterionSource:
    """The criterion, and where its alternatives come from.

    Arguments:
        kind: its class.
        settings: its fields that are not of a row.
        margin: by which fraction it must hold.
        alternatives: a file of decisions.
        decision_of_row: rows whose decisions are the alternatives: one for all, or one each.
        optimum_of_row: rows whose true optima are the alternatives; "own" for each its own.
        costs: the file of true costs.
    """

    kind: type[Criterion]
    settings: Mapping[str, Any] = field(default_factory=dict)
    margin: float = 0.0
    alternatives: Path | None = None
    decision_of_row: Any = None
    optimum_of_row: Any = None
    costs: Path | None = None


def criterion_table(kind: type[Criterion]) -> type[Table]:
    """The table of a criterion: what all have, where alternatives come from, and its own fields."""
    own = settings_of(kind, skip=kind.row_fields())
    entries: dict[str, Any] = {
        "kind": (Any, None),
        "built": (Any, Field(None, alias="class")),
    }
    entries |= {name: (one.annotation, one) for name, one in own.model_fields.items()}
    return create_model(kind.__name__, __base__=_Contrast if kind.contrasts else _Asked, **entries)


def _criterion(given: Any, info: ValidationInfo) -> CriterionSource | None:
    if not isinstance(given, dict):
        raise TableError(f"criterion needs a table, got {given!r:.60}.")
    kind = kind_of(registry.criteria, None, given, info.context)
    if kind is None:
        return None
    if not (isinstance(kind, type) and issubclass(kind, Criterion)):
        raise TableError(f"{given['class']!r} is not a criterion.")
    read = criterion_table(kind).read(given, info.context)
    known = {one.name for one in fields(CriterionSource)}
    set_keys = read.model_fields_set - {"kind", "built"}
    where = {name: getattr(read, name) for name in set_keys & known}
    return CriterionSource(kind, {name: getattr(read, name) for name in set_keys - known}, **where)


def _features(given: Any) -> Features:
    """Names, scales and limits, as the arguments of `Features`.

    In `lower`, `upper` and coefficients, features without a name go by their number: "0", "1".
    """
    if not isinstance(given, dict):
        raise TableError(f"features needs a table, got {given!r:.60}.")
    known = [one.name for one in fields(Features)]
    for key in given:
        if key not in known:
            raise TableError(nearest("key", key, known))
    given = dict(given)
    for key in ("lower", "upper"):
        value = given[key] = _by_feature(given.get(key))
        every = value.values() if isinstance(value, dict) else value
        if any(isinstance(one, bool) for one in (every if np.iterable(every) else [every])):
            raise TableError(f"{key} needs numbers, got true or false.")
    try:
        given["linear"] = [_limit(one) for one in given.get("linear", [])]
        return Features(**given)
    except TableError:
        raise
    except InputError as error:
        raise TableError(str(error)) from error
    except TypeError as error:
        raise TableError(f"features cannot be read: {error}") from error


class _Limit(Table):
    coefficients: Any
    lower: float = -np.inf
    upper: float = np.inf


def _limit(given: Any) -> LinearLimit:
    if not isinstance(given, dict):
        raise TableError(f"linear needs tables with coefficients, got {given!r:.60}.")
    try:
        read = _Limit.read(given)
    except TableError as mistake:
        raise TableError(str(mistake), ("linear",)) from mistake
    return LinearLimit(_by_feature(read.coefficients), read.lower, read.upper)


def _by_feature(values: Any) -> Any:
    """TOML has only text for keys: digits are the number of a feature."""
    if not isinstance(values, dict):
        return values
    return {int(key) if key.isdigit() else key: value for key, value in values.items()}


class Tables(Table):
    """All tables of a configuration.

    Arguments:
        title: of the report.
        predictor, problem, contexts, criterion: what is to be explained, and what is asked.
        features, proximity, search: the objects of these names.
        generative: a model of plausible contexts, if any.
        reference: a file of known contexts, if any.
        run, output: in which pieces, and where to.
        training: for `cfopt train`.
    """

    title: str | None = None
    predictor: PredictorSource
    problem: ProblemSource
    contexts: TableSource
    features: Annotated[Features, PlainValidator(_features)] = Features()
    criterion: Annotated[CriterionSource, PlainValidator(_criterion)]
    proximity: Annotated[Proximity, PlainValidator(partial(build, registry.proximities, L2))] = L2()
    search: Annotated[Search, PlainValidator(partial(build, registry.searches, Auto))] = Auto()
    generative: GenerativeSource | None = None
    reference: ReferenceSource | None = None
    run: Run = Run()
    output: Output = Output()
    training: TrainingSource = TrainingSource()


@dataclass(frozen=True)
class Config:
    """All that a run needs to know.

    Arguments:
        path: of the file.
        trust: whether what it names may execute code.
        tables: what it says.
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
        """What is wrong within is said with its place in the file."""
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
        path: of the file.
        trusted: whether classes that can execute code may be used; None to leave them aside.
    """
    content = _read_toml(path)
    trust = Trust(bool(trusted), path.parent)
    context = {"folder": path.parent, "trust": None if trusted is None else trust}
    try:
        tables = Tables.read(content, context)
    except TableError as mistake:
        place = f"{path}, [{'.'.join(mistake.within)}]" if mistake.within else str(path)
        raise InputError(f"{place}: {mistake}") from mistake
    return Config(path, trust, tables, content)


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"There is no configuration {path}. `cfopt init` writes an example.")
    try:
        # Some editors begin a file with a mark of its encoding.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    # Beside its own errors: numbers with too many digits, tables within tables without end.
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"{path} is not a TOML file: {error}.") from error
