"""The files of a finished run: a table, JSON, pictures, and the report."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import torch
from rich.console import Console

from cfopt.app.job import Job, placed
from cfopt.question.features import Features
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status
from cfopt.running.pace import Display, Pace
from cfopt.running.surroundings import surroundings
from cfopt.storage.files import write_whole

#: Contexts with more features than this are a list in one column of the table.
_COLUMNS = 1000
#: More numbers than this are not written as JSON: about 20 bytes each.
_JSON = 20_000_000
#: Seconds between two lines where there is no terminal.
_EVERY = 5.0


def write_results(
    explanation: Explanation, work: Job, folder: Path, seconds: float, console: Console
) -> None:
    """Write explanations.parquet, explanations.json, report.html and pictures, each whole.

    They have a bar of their own: drawing may take longer than explaining.

    Arguments:
        explanation: the explanation of all rows.
        work: the work that it explains.
        folder: where to write.
        seconds: the time that all rows took.
        console: where to show how far it is, and what is written.
    """
    pictures = _pictures(explanation, work.config.tables.output.pictures, folder / "pictures")
    files: dict[str, Callable[[], str]] = {
        "explanations.parquet": lambda: _write_table(explanation, folder),
        "explanations.json": lambda: _write_json(explanation, folder),
        "report.html": lambda: _write_report(explanation, work, folder, seconds),
    }
    files |= {path.name: _drawing(explanation, row, path) for row, path in pictures.items()}
    pace = Pace([1.0] * len(files))
    with Display(console, pace, len(files), noun="file", every=_EVERY) as display:
        for name, write in files.items():
            display.started(name)
            start = time.perf_counter()
            said = write()
            pace.finished(1.0)
            display.finished(name, time.perf_counter() - start)
            if said:
                display.say(said)
        display.say(explanation.summary())
        display.say(f"{folder / 'report.html'} is the report; everything else is in {folder}.")


def _write_table(explanation: Explanation, folder: Path) -> str:
    write_whole(folder / "explanations.parquet", to_parquet(explanation))
    return ""


def _write_json(explanation: Explanation, folder: Path) -> str:
    numbers = len(explanation) * (3 * explanation.x[0].numel() + 5 * explanation.costs.shape[1])
    if numbers <= _JSON:
        write_whole(folder / "explanations.json", explanation.to_json().encode())
        return ""
    return (
        f"explanations.json is left out: it would hold {numbers:,} numbers. All of them are in "
        f"{folder / 'parts'}, and explanations.parquet has contexts and decisions."
    )


def _pictures(explanation: Explanation, most: int, folder: Path) -> dict[int, Path]:
    """The rows that are drawn, and their files; those of an earlier run are taken away."""
    drawn = _drawn(explanation, most)
    if drawn:
        folder.mkdir(exist_ok=True)
    wanted = {row: folder / f"row-{row:06}.png" for row in drawn}
    for path in set(folder.glob("row-*.png")) - set(wanted.values()):
        path.unlink()  # of an earlier run that was to draw more
    return wanted


def _drawing(explanation: Explanation, row: int, path: Path) -> Callable[[], str]:
    """Draws one row; if that fails, it says so, and nothing else is lost."""

    def write() -> str:
        import matplotlib.pyplot as plt

        image = io.BytesIO()
        try:
            explanation[row].plot().savefig(image, format="png")
        # Any: names and numbers of all kinds are drawn here.
        except Exception as error:
            failed = " ".join(str(error).split())
            return f"Row {explanation.label(row)} could not be drawn: {failed}"
        else:
            write_whole(path, image.getvalue())
        finally:
            plt.close("all")
        return ""

    return write


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


def _write_report(explanation: Explanation, work: Job, folder: Path, seconds: float) -> str:
    from cfopt.report import write_report

    write_report(
        explanation,
        folder / "report.html",
        title=work.config.title,
        seconds=seconds,
        settings=described(work),
        measures=_measures(explanation, work),
    )
    return ""


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
