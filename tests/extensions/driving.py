"""Drives something from outside the package through every way in and out of cfopt."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.commands import cf, change, refused, results

import cfopt
from cfopt.web.served import load_served
from cfopt.web.work import Work

HERE = Path(__file__).parent
#: What each table of the example says, and what stands in its place.
_TABLES = {
    "criterion": 'kind = "Absolute"',
    "search": 'kind = "Auto"',
    "proximity": 'kind = "L2"',
    "problem": 'kind = "GridShortestPath"\narguments = { rows = 3, cols = 3 }',
    "predictor": (
        'class = "torch.nn.Linear"\narguments = { in_features = 4, out_features = 12 }\n'
        'weights = "weights.safetensors"'
    ),
}


def configure(example: Path, table: str, module: str, line: str) -> None:
    """Name a class of a module beside the configuration in one of its tables."""
    shutil.copy(HERE / f"{module}.py", example.parent)
    if table in _TABLES:
        change(example, _TABLES[table], line)
    else:
        text = example.read_text().replace("# [reference]", f"[{table}]\n{line}\n# [reference]", 1)
        example.write_text(text)


def unlimited(example: Path) -> None:
    """Drop limits that no generative model can keep."""
    lines = example.read_text().splitlines(keepends=True)
    limits = ("lower =", "upper =", "immutable =")
    example.write_text("".join(line for line in lines if not line.startswith(limits)))


def explained(example: Path) -> tuple[cfopt.Explanation, str]:
    """`cfopt explain` with --trust, and without it in vain: what it found, and the report."""
    refused(cf("explain", example), "pass --trust")
    done = cf("explain", example, "--trust")
    assert done.exit_code == 0, done.output
    folder = example.parent / "results"
    return results(folder), (folder / "report.html").read_text()


def served(example: Path, question: dict[str, Any]) -> dict[str, Any]:
    """The answer of a worker of the explorer, after it has checked the request."""
    scenes, described, faults = load_served(example, True, 10_000)
    assert not faults
    assert described[0]["name"] == "own"
    asked = {"pipeline": "own", "context": {"row": 1}, "question": question}
    work = Work(scenes, lambda: False)
    work.do("check", asked, _nothing)
    told = work.do("explain", asked, _nothing)
    assert work.do("draw", {"pipeline": "own", "explanation": told["explanation"]}, _nothing)["png"]
    return told


_nothing: Callable[[dict[str, Any]], None] = lambda news: None  # noqa: E731
