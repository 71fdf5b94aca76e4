"""What was measured: on the screen, in `results.json`, in `results.md` and in `growth.png`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import growth
from cfopt.running.surroundings import surroundings
from cfopt.storage.files import write_whole

TITLES = {
    "equality": "The same tasks in a batch and one by one (float64)",
    "speed": "A batch of 100 tasks against one task at a time",
    "exact": "Exact absolute explanations, 100 tasks: against MDMM, the baseline, and other means",
    "epsilons": "Exact epsilon explanations, 100 tasks: against MDMM and brute force",
    "mixed": "Whole numbers and one-hot groups: against every whole-number choice",
    "networks": "Networks of L layers, 100 tasks each: the default search against MDMM",
    "exact growth": "Exact absolute explanations as problems grow",
    "qp": "QP solvers on the master problem: nearest point of random half-spaces",
    "iterations": "Mean steps of 100 tasks, authors' stopping rule, beside the paper's figures",
    "batches": "Time per absolute task on the 5x5 grid, by batch size",
    "grids": "Time per absolute task, by grid size",
    "items": "Time per absolute task, by number of items",
    "solvers": "Listing every decision against the general method, 100 rows",
    "roads": "Shortest paths on a road-like network, 100 rows: against the flow program",
    "map step": "Maps: one MDMM step on 40 rows beside its bare passes through decoder and CNN",
    "map searches": "Maps: 40 absolute tasks, alpha = 2, beta = 10: the default search beside MDMM",
    "map plausibility": "Maps: naive and plausible explanations, judged with the alpha = 2 VAE",
    "map realism": "Maps that no setting was chosen on: naive, plausible in several ways, edits; "
    "decision-focused errors under a sharp VAE of other maps, which took no part in the search",
    "map models": "Maps: generative models alone, samples and reconstructions of 1,000 maps",
    "map pixels": "Maps: explained pixel by pixel, without a generative model: beside MDMM",
    "map reconstruction": "Maps: 1,000 test maps after reconstruction",
    "map training": "Maps: training of generative models, and the most minutes that `make models` "
    "trains each that is shipped",
    "own pipeline": "`cfopt explain` on the grid, from start to report, beside a script by hand",
    "kills": "The same, killed three times with SIGKILL while it searches, and resumed",
    "fleet throughput": "`cfopt explain` on many rows of the grid: one worker, two, and Dask",
    "fleet memory": "The client's peak memory, two workers, and a finished run found finished",
    "fleet kills": "20 kills at random moments, of workers and of clients",
    "fleet parts": "Where the CPU time of rows goes",
    "fleet results": "CPU time of pictures, report and files for 1,000 rows, and of `cfopt --help`",
    "explorer decisions": "Explorer: a live decision over HTTP on loopback",
    "explorer progress": "Explorer: the events of one search on a map",
    "explorer load": "Explorer: 200 searches of 20 clients at once, each answer checked; memory",
    "explorer page": "Explorer: the page in a browser",
    "report page": "A report of 1,000 rows in a browser",
    "demo threads": "`cfopt demo` with one map while all cores are busy, in seconds: as it is, and "
    "with one thread for everything",
    "trees": "Absolute questions behind tree ensembles on the 5x5 grid, one at a time: `TreeCells`",
    "trees by CP-SAT": "The same by CP-SAT: 20 trees of depth 4, cuts until the solver agrees",
    "trees beside CP-SAT": "Medians of these, and whether they keep the bar",
    "derivative-free": "`DerivativeFree` beside the exact distance: 20 trees of depth 4",
    "certified networks": "Networks of L layers, other than settings were chosen on: `Certify`, "
    "and the default search beside it",
    "plain functions": "`DerivativeFree` beside the exact distance, from known contexts",
    "thresholds": "Relative answers at thresholds of trees, predicted anew by the library itself",
    "few changes": "Few changes and several options behind an affine predictor: claims, some of "
    "them checked over all sets of features, and CPU time beside the plain question",
    "questions behind a network": "Every kind of question behind a network of three layers on the "
    "5x5 grid: beside the nearest of many points",
    "questions": "Further questions beside the plain one: 100 tasks each, best of five in turns",
    "wishes": "Partial wishes behind an affine predictor: claims checked by listing all decisions, "
    "and the time beside a question about the full plan",
    "wishes behind a network": "Partial wishes behind a network of three layers, beside the "
    "nearest of many points",
    "balls": "Answers that hold within 0.1, 100 tasks each: beside plain ones, and samples",
    "balls behind networks": "The same behind a network of 3 layers, 10 tasks",
    "prices": "Prices of 100 absolute wishes: beside all decisions at once",
    "peers": "An evening flight or the train: cfopt beside libraries that explain classifiers",
    "claims": "Every kind of further question behind random affine predictors, each claim checked "
    "by brute force",
    "hostile": "Every question behind every kind of predictor, on tiny random instances, each "
    "answer judged by enumeration and samples",
    "sweep": "Random tasks of every kind, each claim checked by brute force",
}


class Results:
    """Tables in a folder, each written as soon as it is there.

    The file is read anew each time, so that what another run has written meanwhile is kept.

    Arguments:
        folder: where the files are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stored = folder / "results.json"
        self.console = Console(width=150)

    def record(self, name: str, lines: list[dict[str, Any]]) -> None:
        """Show a table, and write all of them, this one in its place."""
        self.console.print(table_of(TITLES[name], lines))
        before = json.loads(self.stored.read_text()) if self.stored.exists() else {}
        kept = {title: before[title] for title in TITLES if title in before}
        results = {**kept, name: lines, "versions": surroundings()}
        write_whole(self.stored, (json.dumps(results, indent=1) + "\n").encode())
        (self.folder / "results.md").write_text(_markdown(results))
        if name in growth.DRAWN and results.keys() >= growth.DRAWN:
            growth.plot(results, self.folder / "growth.png")


def _format(value: Any) -> str:
    if value is None or value != value:  # not measured, or NaN
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"


def table_of(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*(_format(value) for value in row.values()))
    return table


def _markdown(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    parts = [
        "# Measurements\n",
        "Written by `make bench`, a group (`python -m benchmarks GROUP`) in one run or in parts;",
        "times on a shared machine are noisy, ratios less.",
        "The settings of the search among codes were chosen among about 30, on other maps than",
        "those of the group searches.",
        f"Versions of the latest run: {versions}.\n",
        "The baseline explains one task at a time with autograd and one solve a step through a",
        "persistent, warm-started HiGHS model on one thread (`benchmarks/baseline.py`). Ratios are",
        "over tasks that end before K = 6000 steps; the others are counted apart.\n",
        "DAQP solves the masters: it is the fastest of the five QP solvers below at every size,",
        "and the most exact together with quadprog.\n",
        "Behind tree ensembles, seconds are those of one core for the whole call (references,",
        "search, verification and the check of the proof), compilation apart. CP-SAT solves on",
        "one worker, beginning with the cut of the factual decision; no references there.\n",
    ]
    for name, title in TITLES.items():
        rows = results.get(name)
        if rows is None:  # of a group that was never run
            continue
        parts.append(f"\n## {title}\n")
        parts.append("| " + " | ".join(rows[0]) + " |")
        parts.append("|" + " --- |" * len(rows[0]))
        parts += ["| " + " | ".join(_format(v) for v in row.values()) + " |" for row in rows]
    parts.append("\n![Growth of the time per task](growth.png)\n")
    return "\n".join(parts)
