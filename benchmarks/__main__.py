"""Run every measurement: tables on the screen, `results.json`, `results.md` and `growth.png`.

Each table is written as soon as it has been measured.

`python -m benchmarks maps` runs one group, in one run, and leaves the others as they were.
`python -m benchmarks fleets --scale 0.02` measures fleets with so small a fraction of their rows,
and `fleet-memory` (or `-throughput`, `-kills`, `-parts`, `-results`) one thing of them.
`python -m benchmarks sweep --rows 600 --seed 1` checks so many random tasks of a seed, and ends
with code 1 if a claim was false. `python -m benchmarks claims --rows 3000` does the same for
further questions: wishes, few changes, options, balls, models, prices and remedies. `python -m
benchmarks hostile --rows 5000` does it for every question behind every kind of predictor, and
`hostile --case 17` repeats one case of it. `python -m benchmarks thresholds --answers 10000` checks
so many answers at the thresholds of tree ensembles, and ends likewise. `python -m benchmarks
plausibility --maps 80` explains so many maps in each of several ways.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

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
    hostile,
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
    training,
)
from benchmarks.results import Results, table_of
from cfopt.names import nearest

FOLDER = Path(__file__).parent
Record: TypeAlias = Callable[[str, list[dict[str, Any]]], None]


def main(
    chosen: list[str], rows: int, answers: int, seed: int, scale: float, map_count: int
) -> None:
    groups = [
        *GROUPS,
        "plausibility",
        "fleets",
        *FLEETS,
        "thresholds",
        "claims",
        "sweep",
        "hostile",
    ]
    unknown = [name for name in chosen if name not in groups]
    if unknown:
        sys.exit(f"Error: {nearest('group', unknown[0], groups)}")
    record = Results(FOLDER).record
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
    failed = 0
    if not chosen or "hostile" in chosen:
        lines = hostile.hostile(rows, seed)
        record("hostile", lines)
        failed = sum(line[name] for line in lines for name in hostile.FAILURES)
    if mismatches:
        sys.exit(f"Error: libraries contradict {mismatches} answers or points at thresholds.")
    if refuted:
        sys.exit(f"Error: brute force refutes {refuted} claims about {rows} rows.")
    if violations:
        sys.exit(f"Error: the sweep found {violations} violations in {rows} rows.")
    if failed:
        sys.exit(f"Error: {failed} of {rows} answers of the hostile trial are wrong or lost.")


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
    """Predictors of other libraries, plain functions, and networks with proofs."""
    record("trees", predictors.exact())
    lines, medians = predictors.second_opinion()
    record("trees by CP-SAT", lines)
    record("trees beside CP-SAT", medians)
    record("derivative-free", predictors.derivative_free())
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
    record("map training", training.throughput())


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "groups", nargs="*", help="The groups of measurements to run; all by default."
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=3000,
        help="The number of rows that sweep, claims and hostile check.",
    )
    parser.add_argument(
        "--case", type=int, help="The one case of hostile to repeat, instead of all measurements."
    )
    parser.add_argument(
        "--answers",
        type=int,
        default=10_000,
        help="The number of answers at thresholds that are checked.",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="The seed of sweep, claims, hostile and thresholds."
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
    if given.case is not None:
        Console().print(table_of(f"case {given.case}", hostile.repeat(given.seed, given.case)))
        sys.exit()
    main(given.groups, given.rows, given.answers, given.seed, given.scale, given.maps)
