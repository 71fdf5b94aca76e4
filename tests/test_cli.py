"""The command line: what it prints, its exit codes, and how fast it answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cfopt
from cfopt.cli import app
from cfopt.experiments import catalogue
from counting import ALONE, EVENTS, FIRST, RUNS, SECOND, raising, start_anew


@pytest.fixture
def _fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    start_anew()
    fakes = {experiment.name: experiment for experiment in (FIRST, SECOND, ALONE)}
    monkeypatch.setattr(catalogue, "EXPERIMENTS", fakes)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_fakes")
def test_the_command_reproduces_what_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reproduce", "alone", "first", "--scale", "quick"])
    assert done.exit_code == 0
    assert RUNS == ["model", "a", "b", "alone-1", "alone-2"]
    assert (tmp_path / "reproduction" / "quick" / "first.png").is_file()
    arguments = ["reproduce", "all", "--scale", "quick", "--out", "here", "--seed", "5"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert json.loads((tmp_path / "here" / "second.json").read_text())["seed"] == 5
    refused = CliRunner().invoke(app, [*arguments[:-1], "6"])
    assert refused.exit_code == 2
    assert "seed was 5, is 6" in refused.stderr


@pytest.mark.usefixtures("_fakes")
def test_the_command_lists_the_experiments() -> None:
    done = CliRunner().invoke(app, ["reproduce"])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[:2] == [
        "first   What first comes to",
        "second  What second comes to",
    ]


@pytest.mark.usefixtures("_fakes")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frist"], "There is no experiment 'frist'. Did you mean 'first'?"),
        (["first", "--scale", "papr"], "There is no scale 'papr'. Did you mean 'paper'?"),
        (["first", "--seed", "-1"], "A study needs a seed >= 0, got -1."),
    ],
)
def test_mistakes_are_told_in_a_line_and_leave_no_folder(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(app, ["reproduce", *arguments])
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("_fakes")
def test_exit_codes_tell_how_the_command_ended() -> None:
    arguments = ["reproduce", "first", "--scale", "quick"]
    EVENTS["b"] = raising(RuntimeError("out of luck"))
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "first: b failed: RuntimeError: out of luck" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in CliRunner().invoke(app, [*arguments, "--debug"]).stderr
    EVENTS["b"] = raising(KeyboardInterrupt())
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 130
    assert "Stopped. 2 of 3 jobs are done" in done.stdout
    assert done.stderr == ""


def test_help_and_version_are_answered_without_torch() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from cfopt.cli import app\n"
        "helps = [[name, '--help'] for name in ('explain', 'init', 'train', 'info', 'reproduce')]\n"
        "for words in (['--help'], ['--version'], *helps):\n"
        "    done = CliRunner().invoke(app, words); print(done.exit_code, done.output)\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"0 cfopt {cfopt.__version__}" in done.stdout
    assert "Example: cfopt reproduce maps-alpha-regret --scale quick" in done.stdout


def test_the_package_runs_as_a_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cfopt", "reproduce", "maps-alpha-regrets"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: There is no experiment 'maps-alpha-regrets'. Did you")
    assert "Did you mean 'maps-alpha-regret'?" in done.stderr
    assert not list(tmp_path.iterdir())
