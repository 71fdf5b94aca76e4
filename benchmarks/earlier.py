"""Compare this tree with an earlier commit: the same questions, one after the other.

`python -m benchmarks.earlier COMMIT` lays the commit out in a temporary folder, asks both trees
the questions of `earlier_inside.py` in turn, and prints the CPU seconds of each, their ratio, how
many answers are valid and the sum of their losses. Both run with the packages installed here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_HERE = Path(__file__).parent
_ROUNDS = 3


def _ask(tree: Path, repeats: int) -> dict[str, dict[str, Any]]:
    """What the questions took with one tree."""
    surroundings = os.environ | {"PYTHONPATH": f"{tree / 'src'}:{tree}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(_HERE / "earlier_inside.py"), str(repeats)]
    done = subprocess.run(command, env=surroundings, cwd=tree, stdout=subprocess.PIPE, check=True)
    answers: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return answers


def compare(commit: str, repeats: int) -> Table:
    """Ask both trees in turn, so that a busy moment does not count for one of them alone.

    Arguments:
        commit: the earlier one.
        repeats: how often each question is asked in a round; the least time counts.
    """
    table = Table("100 tasks, CPU s", commit[:8], "now", "ratio", "valid", "sum of losses")
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=_HERE.parent, stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        trees = (Path(folder), _HERE.parent)
        rounds = [[_ask(tree, repeats) for tree in trees] for _ in range(_ROUNDS)]
    for question in rounds[0][0]:
        before, now = (
            min(answers[side][question]["seconds"] for answers in rounds) for side in (0, 1)
        )
        then, found = (rounds[0][side][question] for side in (0, 1))
        table.add_row(
            question,
            f"{before:.3f}",
            f"{now:.3f}",
            f"{now / before:.2f}",
            f"{then['valid']}, {found['valid']}",
            f"{then['loss']:.6g}, {found['loss']:.6g}",
        )
    return table


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    Console().print(compare(given.commit, given.repeats))


if __name__ == "__main__":
    main()
