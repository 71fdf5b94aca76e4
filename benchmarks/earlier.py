"""Compare this tree with an earlier commit: groups of measurements, side by side.

`python -m benchmarks.earlier COMMIT GROUP...` lays the commit out in a temporary folder and lets
the groups of this tree ask both versions of the library in turn. For each table and question it
prints CPU seconds and their ratio, how many rows were answered and proved, and how far the answers
are that both have found. Both run with the packages installed here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from benchmarks.results import table_of

_HERE = Path(__file__).parent
#: What a tree was asked, by question: see `earlier_inside.Asked`.
Answers: TypeAlias = dict[str, dict[str, Any]]
#: What is known of each row.
_OF_ROWS = ("found", "proved", "distance")


def compare(commit: str, groups: list[str], rounds: int) -> dict[str, list[dict[str, Any]] | str]:
    """The lines of each group, or why there are none.

    Arguments:
        commit: the earlier one.
        groups: groups of `python -m benchmarks`.
        rounds: how often both are asked, in turn, so that a busy moment does not count for one of
            them alone; the least time counts.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", commit, "src"], cwd=_HERE.parent, stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        trees = (Path(folder), _HERE.parent)
        asked = [[_ask(tree, groups) for tree in trees] for _ in range(rounds)]
    found: dict[str, list[dict[str, Any]] | str] = {}
    for group in groups:
        of_group = [[side[group] for side in one] for one in asked]
        failed = [side for one in of_group for side in one if isinstance(side, str)]
        found[group] = failed[0] if failed else lines(of_group)
    return found


def _ask(tree: Path, groups: list[str]) -> dict[str, Any]:
    """What the groups of this tree find out with the library of one tree."""
    paths = f"{tree / 'src'}:{_HERE.parent}"
    surroundings = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(_HERE / "earlier_inside.py"), *groups]
    done = subprocess.run(command, env=surroundings, cwd=tree, stdout=subprocess.PIPE, check=True)
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def lines(rounds: list[list[Answers]]) -> list[dict[str, Any]]:
    """A line for each table and question: rounds of the earlier tree's answers and of this one's.

    Questions that were not asked of both in every round are only counted, in the last line.
    """
    sides = [answers for one in rounds for answers in one]
    everything = set().union(*sides)
    tables: dict[str, list[str]] = {}
    for key, asked in sides[0].items():
        if all(key in answers for answers in sides):
            tables.setdefault(asked["name"], []).append(key)
    found = []
    for name, keys in tables.items():
        before, now = (
            sum(min(one[side][key]["seconds"] for one in rounds) for key in keys) for side in (0, 1)
        )
        pairs = [pair for key in keys for pair in _pairs(*(side[key] for side in rounds[0]))]
        both = [(a["distance"], b["distance"]) for a, b in pairs if a["found"] and b["found"]]
        then, here = (sum(pair[side] for pair in both) for side in (0, 1))
        line: dict[str, Any] = {"question": name, "rows": len(pairs)}
        line |= {"CPU s before": before, "now": now, "ratio": now / before if before else None}
        for what in ("found", "proved"):
            line[what] = "{}, {}".format(*(sum(pair[k][what] for pair in pairs) for k in (0, 1)))
        line["distance now / before"] = here / then if then else None
        line["farther by 0.01%"] = sum(b > a * 1.0001 + 1e-9 for a, b in both)
        found.append(line)
    alone = len(everything) - sum(map(len, tables.values()))
    if found and alone:
        found.append(dict.fromkeys(found[0]) | {"question": "of one tree alone", "rows": alone})
    return found


def _pairs(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[dict[str, Any], ...]]:
    """Row by row, what was found of each."""
    rows = [
        [
            dict(zip(_OF_ROWS, row, strict=True))
            for row in zip(*map(side.get, _OF_ROWS), strict=True)
        ]
        for side in (before, now)
    ]
    return [*zip(*rows, strict=True)]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.earlier", description=__doc__.splitlines()[0]
    )
    parser.add_argument("commit")
    parser.add_argument("groups", nargs="+", metavar="GROUP")
    parser.add_argument("--rounds", type=int, default=2, help="How often both are asked.")
    given = parser.parse_args()
    console = Console(width=170)
    for group, found in compare(given.commit, given.groups, given.rounds).items():
        if isinstance(found, str):
            console.print(f"{group} does not run with both trees: {found}")
        elif not found:
            console.print(f"{group} never calls cfopt.explain in its own process.")
        else:
            console.print(table_of(f"{group}: {given.commit[:8]} and now", found))


if __name__ == "__main__":
    main()
