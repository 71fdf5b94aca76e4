"""Drives something from outside the package through every way in and out of cfopt."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from tests.commands import cf, change, refused, results
from tests.serving import serving

import cfopt
from cfopt.web.process import Source

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


class Served(NamedTuple):
    """The description of a pipeline, the result of a search, and its whole explanation in JSON."""

    pipeline: dict[str, Any]
    result: dict[str, Any]
    document: str


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


def served(example: Path, question: dict[str, Any]) -> Served:
    """What a server of the configuration answers over HTTP."""
    with serving(Source(example, True)) as client:
        pipeline = client.get("/api/pipelines/own").json()
        done = client.explain(pipeline="own", context={"row": 1}, question=question)
        assert done["status"] == "done", done["message"]
        document = client.get(f"/api/tasks/{done['id']}/result.json").text
        picture = client.get(f"/api/tasks/{done['id']}/result.png").content
        assert picture.startswith(b"\x89PNG")
    return Served(pipeline, done["result"], document)
