"""Run every measurement: tables on the screen, `results.json`, `results.md` and `growth.png`.

`python -m benchmarks maps` runs one group, in one run, and leaves the others as they were.
`python -m benchmarks fleets --scale 0.02` measures fleets with so small a fraction of their rows,
and `fleet-memory` (or `-throughput`, `-kills`, `-parts`, `-results`) one thing of them.
`python -m benchmarks sweep --rows 600 --seed 1` checks so many random tasks of a seed, and ends
with code 1 if a claim was false. `python -m benchmarks claims --rows 3000` does the same for
further questions: wishes, few changes, options, balls, models, prices and remedies. `python -m
benchmarks thresholds --answers 10000` checks so many answers at the thresholds of tree ensembles,
and ends likewise. `python -m benchmarks plausibility --maps 80` explains so many maps in each of
several ways.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import highspy
import torch
from rich.console import Console
from rich.table import Table

import cfopt
from benchmarks import (
    certified,
    demo_threads,
    exact,
    explorer,
    explorer_page,
    few_changes,
    fleet_kills,
    fleet_parts,
    fleets,
    growth,
    iterations,
    maps,
    networks,
    own_pipeline,
    peers,
    predictors,
    qp,
    question_bars,
    question_claims,
    questions_network,
    questions_wishes,
    realism,
    report_page,
    roads,
    robustness,
    speed,
    sweep,
    tasks,
    thresholds,
)
from cfopt.names import nearest

FOLDER = Path(__file__).parent
Record: TypeAlias = Callable[[str, list[dict[str, Any]]], None]
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
    "decision-focused errors under the alpha = 2 VAE, which took no part in the search",
    "map models": "Maps: generative models alone, samples and reconstructions of 1,000 maps",
    "map pixels": "Maps: explained pixel by pixel, without a generative model: beside MDMM",
    "map reconstruction": "Maps: 1,000 test maps after reconstruction",
    "map training": "Maps: training of VAEs, batches of 64",
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
    "sweep": "Random tasks of every kind, each claim checked by brute force",
}


def main(
    chosen: list[str], rows: int, answers: int, seed: int, scale: float, map_count: int
) -> None:
    groups = [*GROUPS, "plausibility", "fleets", *FLEETS, "thresholds", "claims", "sweep"]
    unknown = [name for name in chosen if name not in groups]
    if unknown:
        sys.exit(f"Error: {nearest('group', unknown[0], groups)}")
    console = Console(width=150)
    stored = FOLDER / "results.json"
    results: dict[str, Any] = json.loads(stored.read_text()) if chosen else {}

    def record(name: str, lines: list[dict[str, Any]]) -> None:
        results[name] = lines
        console.print(_table(TITLES[name], lines))

    for name, group in GROUPS.items():
        if not chosen or name in chosen:
            group(record)
    for name, measure in FLEETS.items():
        if not chosen or {"fleets", name} & {*chosen}:
            record(name.replace("-", " "), measure(scale))
    if not chosen or "plausibility" in chosen:
        record("map models", realism.models_alone())
        record("map realism", realism.compare(map_count))
    mismatches = violations = refuted = 0
    if not chosen or "thresholds" in chosen:
        lines = thresholds.check(answers, seed)
        record("thresholds", lines)
        mismatches = sum(line["mismatches"] for line in lines)
    if not chosen or "claims" in chosen:
        lines = question_claims.claims(rows, seed)
        record("claims", lines)
        refuted = sum(line["refuted"] for line in lines)
    if not chosen or "sweep" in chosen:
        lines = sweep.sweep(rows, seed)
        record("sweep", lines)
        violations = sum(line["violations"] for line in lines)
    growth.plot(results, FOLDER / "growth.png")
    results["versions"] = {
        "cfopt": cfopt.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "highspy": highspy.Highs().version(),
        "cores": torch.get_num_threads(),
    }
    stored.write_text(json.dumps(results, indent=1) + "\n")
    (FOLDER / "results.md").write_text(_markdown(results))
    console.print(f"Written: results.json, results.md and growth.png in {FOLDER.name}/.")
    if mismatches:
        sys.exit(f"Error: libraries contradict {mismatches} answers or points at thresholds.")
    if refuted:
        sys.exit(f"Error: brute force refutes {refuted} claims about {rows} rows.")
    if violations:
        sys.exit(f"Error: the sweep found {violations} violations in {rows} rows.")


def _tables(record: Record) -> None:
    """Contexts that are vectors."""
    grid, knapsack = tasks.grid(), tasks.knapsack()
    record("equality", speed.batch_equals_loop(grid) + speed.batch_equals_loop(knapsack))
    record("speed", speed.compare(grid) + speed.compare(knapsack))
    record("exact", [exact.absolute(grid), exact.absolute(knapsack)])
    record("epsilons", exact.epsilons(grid) + exact.epsilons(knapsack))
    record("mixed", exact.mixed())
    record("networks", networks.compare())
    record("exact growth", exact.growth())
    record("qp", qp.solvers())
    record("iterations", iterations.compare())
    record("batches", growth.batches(grid))
    record("grids", growth.grids())
    record("items", growth.items())
    record("solvers", growth.solvers())


def _roads(record: Record) -> None:
    """Paths through a network."""
    record("roads", roads.compare())


def _predictors(record: Record) -> None:
    """Predictors without a gradient."""
    record("trees", predictors.exact())
    lines, medians = predictors.second_opinion()
    record("trees by CP-SAT", lines)
    record("trees beside CP-SAT", medians)
    record("derivative-free", predictors.derivative_free())


def _certified(record: Record) -> None:
    """What is promised behind networks and plain functions."""
    record("certified networks", certified.networks())
    record("plain functions", certified.plain_functions())


def _wishes(record: Record) -> None:
    """Wishes that leave the plan open."""
    record("wishes", questions_wishes.affine())
    record("wishes behind a network", questions_wishes.behind_a_network())


def _maps(record: Record) -> None:
    """Contexts that are images."""
    record("map step", maps.step_cost(maps.bench()))
    record("map reconstruction", maps.reconstruction())


def _searches(record: Record) -> None:
    """The default search on maps beside the paper's."""
    record("map searches", maps.searches(maps.bench(maps.HELD_OUT)))


def _plausibility(record: Record) -> None:
    """Naive explanations beside plausible ones."""
    record("map plausibility", maps.plausibility(maps.bench()))


def _pixels(record: Record) -> None:
    """Maps without a generative model."""
    record("map pixels", maps.naive())


def _training(record: Record) -> None:
    """The training of generative models."""
    record("map training", maps.throughput())


def _own_pipeline(record: Record) -> None:
    """The command line on a user's files."""
    record("own pipeline", own_pipeline.compare())
    record("kills", own_pipeline.kills())


def _explorer(record: Record) -> None:
    """The server of `cfopt serve` under load."""
    record("explorer decisions", explorer.decisions())
    record("explorer progress", explorer.progress())
    record("explorer load", explorer.load())


def _pages(record: Record) -> None:
    """The explorer's page and a report, in a browser."""
    page = explorer_page.measure()
    if page:  # there is a browser
        record("explorer page", page)
        record("report page", report_page.measure())


def _demo(record: Record) -> None:
    """The threads of `cfopt demo`."""
    record("demo threads", [demo_threads.measure(turns=2, maps=1)])


def _questions(record: Record) -> None:
    """What further questions cost beside the plain one."""
    benches = (tasks.grid(), tasks.knapsack(), tasks.knapsack(features=10))
    lines = [line for one in benches for line in question_bars.bars(one)]
    record("questions", lines + [line for one in benches for line in question_bars.wish_bars(one)])


def _options(record: Record) -> None:
    """Few changes, and several options."""
    grid, knapsack = tasks.grid(), tasks.knapsack(features=10)
    record("few changes", few_changes.compare(grid) + few_changes.compare(knapsack))


def _network_questions(record: Record) -> None:
    """Further questions where nothing is proved but by chance."""
    record("questions behind a network", questions_network.compare())


def _robust(record: Record) -> None:
    """Answers that stand up to something, and prices."""
    grid, knapsack = tasks.grid(), tasks.knapsack()
    record("balls", robustness.balls(grid) + robustness.balls(knapsack))
    record("balls behind networks", robustness.behind_networks())
    record("prices", robustness.prices(grid) + robustness.prices(knapsack))


def _peers(record: Record) -> None:
    """Libraries that explain classifiers, on tasks that they can play."""
    record("peers", peers.compare())


GROUPS: dict[str, Callable[[Record], None]] = {
    "tables": _tables,
    "roads": _roads,
    "predictors": _predictors,
    "certified": _certified,
    "wishes": _wishes,
    "questions": _questions,
    "network-questions": _network_questions,
    "options": _options,
    "robust": _robust,
    "maps": _maps,
    "searches": _searches,
    "plausibility": _plausibility,
    "pixels": _pixels,
    "training": _training,
    "own-pipeline": _own_pipeline,
    "explorer": _explorer,
    "pages": _pages,
    "demo": _demo,
    "peers": _peers,
}
#: What is measured of fleets, together as `fleets` or one by one, with a fraction of the rows.
FLEETS: dict[str, Callable[[float], list[dict[str, Any]]]] = {
    "fleet-throughput": fleets.throughput,
    "fleet-memory": fleets.memory,
    "fleet-kills": fleet_kills.kills,
    "fleet-parts": fleet_parts.inside_parts,
    "fleet-results": fleets.results,
}


def _format(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*(_format(value) for value in row.values()))
    return table


def _markdown(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    groups = "; ".join([*GROUPS, "fleets", "thresholds", "claims", "sweep"])
    parts = [
        "# Measurements\n",
        f"Written by `make bench`, each group ({groups}) in one run or in parts;",
        "times on a shared machine are noisy, ratios less.",
        "The settings of the search among codes were chosen among about 30, on other maps than",
        "those of the group searches.",
        f"Versions: {versions}.\n",
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "groups", nargs="*", help="The groups of measurements to run; all by default."
    )
    parser.add_argument(
        "--rows", type=int, default=3000, help="The number of rows that sweep and claims check."
    )
    parser.add_argument(
        "--answers",
        type=int,
        default=10_000,
        help="The number of answers at thresholds that are checked.",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="The seed of the tasks of sweep, claims and thresholds."
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="The fraction of the rows of fleets: 0.01 takes minutes, 1 takes hours.",
    )
    parser.add_argument(
        "--maps", type=int, default=80, help="The number of maps that the group plausibility asks."
    )
    given = parser.parse_args()
    main(given.groups, given.rows, given.answers, given.seed, given.scale, given.maps)
