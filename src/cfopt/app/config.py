"""The configuration of a run: a TOML file as frozen dataclasses. Nothing is loaded yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfopt.app.section import Section, read_toml

#: No result depends on these.
_IRRELEVANT = ("title", "output", "training")
_CRITERIA = ("Relative", "Absolute", "Epsilon")
_SECTIONS = (
    *("title", "predictor", "problem", "contexts", "features", "criterion", "proximity", "search"),
    *("generative", "reference", "run", "output", "training"),
)


@dataclass(frozen=True)
class ModelSource:
    """Where a module comes from.

    Arguments:
        section: where the configuration says so, for messages.
        built: the import path of its class or of a function that builds it, None for an archive.
        arguments: of that class.
        weights: the file of its weights; None for a class that loads its own.
        archive: a `torch.export` archive, in place of all that.
        affine: whether its owner declares it to be affine.
    """

    section: Section
    built: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    weights: Path | None = None
    archive: Path | None = None
    affine: bool = False


@dataclass(frozen=True)
class ProblemSource:
    """Where a problem comes from.

    Arguments:
        section: where the configuration says so.
        kind: the name of a built-in problem, or None.
        built: the import path of a class or function, or None.
        file: an MPS or LP file, or None.
        arguments: of whichever it is.
        names: of the entries of a decision; None for those that the problem has itself.
    """

    section: Section
    kind: str | None
    built: str | None
    file: Path | None
    arguments: Mapping[str, Any]
    names: list[Any] | None = None


@dataclass(frozen=True)
class TableSource:
    """Contexts in a file.

    Arguments:
        section: where the configuration says so.
        file: CSV, Parquet or NumPy.
        label: the column that says what rows are called, if any.
        rows: the first so many, or those with these numbers; None for all.
    """

    section: Section
    file: Path
    label: str | None = None
    rows: int | tuple[int, ...] | None = None


@dataclass(frozen=True)
class Question:
    """The criterion, and where its alternatives come from.

    Arguments:
        section: where the configuration says so.
        kind: "Relative", "Absolute" or "Epsilon".
        margin: by which the alternative must win.
        epsilon: of Epsilon.
        file: of alternatives.
        decision_of_row: rows whose decisions are the alternatives: one for all, or one each.
        optimum_of_row: rows whose true optima are the alternatives; "own" for each its own.
        costs: the file of true costs.
    """

    section: Section
    kind: str
    margin: float = 0.0
    epsilon: float | None = None
    file: Path | None = None
    decision_of_row: Any = None
    optimum_of_row: Any = None
    costs: Path | None = None


@dataclass(frozen=True)
class Output:
    """What is written, and in which pieces; no result depends on it.

    Arguments:
        folder: for the results.
        title: of the report.
        pictures: how many rows are drawn, at most.
    """

    folder: Path
    title: str
    pictures: int = 12


@dataclass(frozen=True)
class Config:
    """All that a run needs to know.

    Arguments:
        path: of the file.
        predictor, problem, contexts, question: what is to be explained.
        features, proximity, search, plausibility: tables for the objects of these names.
        generative: a model of plausible contexts, if any.
        reference: a file of known contexts, if any.
        batch: rows that are explained at once, at most; None for a default.
        output: where to write what.
        training: what `cfopt train` needs to know.
        settings: the file as it was read, but for [output] and [training].
    """

    path: Path
    predictor: ModelSource
    problem: ProblemSource
    contexts: TableSource
    question: Question
    features: Section
    proximity: Section
    search: Section
    plausibility: Section
    generative: ModelSource | None
    reference: TableSource | None
    batch: int | None
    output: Output
    training: Section
    settings: Mapping[str, Any]


def read_config(path: Path) -> Config:
    """Read a configuration; whatever is unknown, missing or of the wrong kind is told."""
    top = read_toml(path).only(*_SECTIONS)
    generative = top.section("generative")
    run = top.section("run").only("batch")
    batch = run.take("batch", int, None)
    if batch is not None and batch < 1:
        raise run.error(f"batch needs to be at least 1, got {batch}.")
    reference = top.section("reference").only("file")
    return Config(
        path=path,
        predictor=_predictor(top.section("predictor")),
        problem=_problem(top.section("problem")),
        contexts=_contexts(top.section("contexts")),
        question=_question(top.section("criterion")),
        features=top.section("features"),
        proximity=top.section("proximity"),
        search=top.section("search"),
        plausibility=generative.section("plausibility"),
        generative=_generative(generative) if generative.content else None,
        reference=TableSource(reference, reference.path("file")) if reference.content else None,
        batch=batch,
        output=_output(top.section("output"), path, top.take("title", str, path.stem)),
        training=top.section("training"),
        settings={k: v for k, v in top.content.items() if k not in _IRRELEVANT},
    )


def _predictor(section: Section) -> ModelSource:
    section.only("class", "arguments", "weights", "archive", "affine")
    if section.one_of("class", "archive") == "class":
        return _module(section)
    section.only("archive", "affine")
    archive, affine = section.path("archive"), section.take("affine", bool, False)
    return ModelSource(section, archive=archive, affine=affine)


def _generative(section: Section) -> ModelSource:
    return _module(section.only("class", "arguments", "weights", "plausibility"))


def _module(section: Section) -> ModelSource:
    return ModelSource(
        section,
        section.take("class", str),
        section.take("arguments", dict, {}),
        section.path_if_any("weights"),
        affine=section.take("affine", bool, False),
    )


def _problem(section: Section) -> ProblemSource:
    section.only("kind", "file", "class", "arguments", "names")
    how = section.one_of("kind", "file", "class")
    return ProblemSource(
        section,
        section.take("kind", str) if how == "kind" else None,
        section.take("class", str) if how == "class" else None,
        section.path_if_any("file"),
        section.take("arguments", dict, {}),
        section.take("names", list, None),
    )


def _contexts(section: Section) -> TableSource:
    rows = section.only("file", "label", "rows").any("rows")
    if isinstance(rows, list) and rows and all(type(row) is int and row >= 0 for row in rows):
        rows = tuple(rows)
    elif rows is not None and not (type(rows) is int and rows > 0):
        raise section.error(
            f"rows needs how many rows, or a list of row numbers from 0; got {rows!r:.60}."
        )
    return TableSource(section, section.path("file"), section.take("label", str, None), rows)


def _question(section: Section) -> Question:
    section.only(
        "kind", "margin", "epsilon", "alternatives", "decision_of_row", "optimum_of_row", "costs"
    )
    kind = section.pick("criterion", section.take("kind", str), _CRITERIA)
    margin = section.take("margin", float, 0.0)
    if kind == "Epsilon":
        section.only("kind", "margin", "epsilon")
        return Question(section, kind, margin, epsilon=section.take("epsilon", float))
    how = section.one_of("alternatives", "decision_of_row", "optimum_of_row")
    section.only("kind", "margin", how, *(["costs"] if how == "optimum_of_row" else []))
    return Question(
        section,
        kind,
        margin,
        file=section.path_if_any("alternatives"),
        decision_of_row=section.any("decision_of_row"),
        optimum_of_row=section.any("optimum_of_row"),
        costs=section.path("costs") if how == "optimum_of_row" else None,
    )


def _output(section: Section, path: Path, title: str) -> Output:
    pictures = section.only("folder", "pictures").take("pictures", int, 12)
    if pictures < 0:
        raise section.error(f"pictures needs to be at least 0, got {pictures}.")
    folder = section.path_if_any("folder")
    return Output(path.parent / "results" if folder is None else folder, title, pictures)
