"""The command line as tests use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import cfopt
from cfopt.app.config import read_config
from cfopt.app.job import Job, load
from cfopt.cli import app


def cf(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def change(config: Path, old: str, new: str) -> None:
    """Replace some text; where lines begin with it, not in a comment."""
    text = config.read_text()
    assert old in text
    at = text.index(f"\n{old}") + 1 if f"\n{old}" in text else text.index(old)
    config.write_text(text[:at] + new + text[at + len(old) :])


def refused(result: Any, *parts: str) -> None:
    """One line that says what and where, and exit code 2."""
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    for part in parts:
        assert part in result.stderr


def work_of(config: Path, trusted: bool = False) -> Job:
    return load(read_config(config, trusted))


def results(folder: Path) -> cfopt.Explanation:
    return cfopt.Explanation.from_json(folder / "explanations.jsonl")
