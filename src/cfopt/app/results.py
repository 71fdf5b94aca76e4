"""The files of a finished run: a table, JSON, pictures, and the report."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import torch

from cfopt.app.job import Job, placed
from cfopt.question.features import Features
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status
from cfopt.running.surroundings import surroundings
from cfopt.storage.files import write_whole

#: Contexts with more features than this are a list in one column of the table.
_COLUMNS = 1000
#: More numbers than this are not written as JSON: about 20 bytes each.
_JSON = 20_000_000


def write_results(
    explanation: Explanation, work: Job, folder: Path, seconds: float
) -> Iterator[str]:
    """Write explanations.parquet, explanations.json, pictures and report.html, each whole.

    Arguments:
        explanation: the explanation of all rows.
        work: the work that it explains.
        folder: where to write.
        seconds: the time that all rows took.

    Yields a line about each.
    """
    write_whole(folder / "explanations.parquet", to_parquet(explanation))
    numbers = len(explanation) * (3 * explanation.x[0].numel() + 5 * explanation.costs.shape[1])
    if numbers <= _JSON:
        write_whole(folder / "explanations.json", explanation.to_json().encode())
    else:
        yield (
            f"explanations.json is left out: it would hold {numbers:,} numbers. All of them are in "
            f"{folder / 'parts'}, and explanations.parquet has contexts and decisions."
        )
    report = _write_report(explanation, work, folder, seconds)
    yield from _write_pictures(explanation, work.config.tables.output.pictures, folder / "pictures")
    yield explanation.summary()
    yield f"{report} is the report; everything else is in {folder}."


def _write_pictures(explanation: Explanation, most: int, folder: Path) -> Iterator[str]:
    """Draw some rows; one that fails is skipped, with a line that says so."""
    import matplotlib.pyplot as plt

    drawn = _drawn(explanation, most)
    if drawn:
        folder.mkdir(exist_ok=True)
    wanted = {row: folder / f"row-{row:06}.png" for row in drawn}
    for path in set(folder.glob("row-*.png")) - set(wanted.values()):
        path.unlink()  # of an earlier run that was to draw more
    for row, path in wanted.items():
        image = io.BytesIO()
        try:
            explanation[row].plot().savefig(image, format="png")
        # Any: names and numbers of all kinds are drawn here.
        except Exception as error:
            yield f"Row {explanation.label(row)} could not be drawn: {' '.join(str(error).split())}"
        else:
            write_whole(path, image.getvalue())
        finally:
            plt.close("all")


def to_parquet(explanation: Explanation) -> bytes:
    """One row for each context, or for each of its options, with its decisions as lists.

    Contexts have a column for each feature before and after; large ones are lists as well.
    """
    e = explanation.every_option()
    if e.x[0].numel() <= _COLUMNS:
        table = e.to_dataframe()
    else:
        small = torch.empty((len(e), 0), dtype=e.x.dtype)
        asked = replace(e.asked, features=Features())
        table = replace(e, x0=small, x=small, asked=asked, columns=None).to_dataframe()
        table["distance"] = e.distance.tolist()
        table["before"] = e.x0.flatten(1).tolist()
        table["after"] = e.x.flatten(1).tolist()
    if explanation.options is not None:
        table.insert(0, "option", [k + 1 for one in explanation.options for k in range(len(one))])
    for name in ("factual", "alternative", "decision"):
        table[name] = getattr(e, name).double().tolist()
    data = io.BytesIO()
    table.reset_index().to_parquet(data, index=False)
    return data.getvalue()


def _drawn(explanation: Explanation, most: int) -> list[int]:
    """Which rows are drawn: spread over those that have something to show."""
    return _spread([i for i, s in enumerate(explanation.status) if s is not Status.REJECTED], most)


def _spread(rows: list[int], most: int) -> list[int]:
    """So many of the rows, spread evenly over all."""
    return rows if len(rows) <= most else [rows[k * len(rows) // most] for k in range(most)]


def _write_report(explanation: Explanation, work: Job, folder: Path, seconds: float) -> Path:
    from cfopt.report import write_report

    return write_report(
        explanation,
        folder / "report.html",
        title=work.config.title,
        seconds=seconds,
        settings=described(work),
        measures=_measures(explanation, work),
    )


def _measures(explanation: Explanation, work: Job) -> pd.DataFrame | None:
    """The measures of the field; those that need further solves of some answers only."""
    from cfopt.result.measures import evaluate

    most = work.config.tables.output.measures
    rows = _spread([i for i, s in enumerate(explanation.status) if s is Status.VALID], most)
    known = work.question.reference
    if known is not None and (len(known) < 2 or find_spec("sklearn") is None):
        known = None
    if rows:
        with placed(work.config):
            return evaluate(explanation[rows], pipeline=work.pipeline, reference=known)
    if work.contexts.x.dim() > 2:  # pixels are no features to count
        return None
    return evaluate(replace(explanation, problem=None), reference=known)


def search_in_words(work: Job) -> str:
    """The search's name, and its settings."""
    given = work.config.content.get("search", {})
    settings = [f"{key} = {value}" for key, value in given.items() if key not in ("kind", "class")]
    name = type(work.question.search).__name__
    return f"{name} ({', '.join(settings)})" if settings else name


def described(work: Job) -> dict[str, str]:
    """What a reader of the report may want to know about the run."""
    config = work.config
    sources = {
        "Configuration": config.path.name,
        "Contexts": config.tables.contexts.file.name,
        "Predictor": config.tables.predictor.name,
        "Problem": type(work.pipeline.problem).__name__,
        "Search": search_in_words(work),
        "Proximity": type(work.question.proximity).__name__,
    }
    if config.tables.generative is not None:
        model = config.tables.generative.name
        sources["Generative model"] = f"{model}, {work.question.plausibility}"
    made = surroundings()
    versions = ", ".join(f"{name} {made[name]}" for name in ("cfopt", "torch", "highspy"))
    return sources | {"Made with": versions}
