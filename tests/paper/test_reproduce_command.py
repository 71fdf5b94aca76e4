"""`cfopt reproduce`: what it prints, its exit codes, and how it finds the study."""

from __future__ import annotations

import json
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from counting import ALONE, EVENTS, FIRST, RUNS, SECOND, raising, start_anew
from typer.testing import CliRunner

from cfopt.app import study
from cfopt.cli import app
from cfopt_paper import catalogue, command

ROOT = Path(__file__).parents[2]


#: As the package declares it; tests do not rely on what is installed.
#: What was replaced for a test is not in other processes.
ALONE_HERE = ("--workers", "1")
ENTRY = metadata.EntryPoint("paper", "cfopt_paper.command:reproduce_named", "cfopt.studies")


def _install(monkeypatch: pytest.MonkeyPatch, *entries: metadata.EntryPoint) -> None:
    """Make these the only entry points that there are."""
    found = metadata.EntryPoints(entries)
    monkeypatch.setattr(study, "entry_points", lambda **which: found.select(**which))


@pytest.fixture
def _fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    start_anew()
    fakes = {experiment.name: experiment for experiment in (FIRST, SECOND, ALONE)}
    for module in (catalogue, command):
        monkeypatch.setattr(module, "EXPERIMENTS", fakes)
    _install(monkeypatch, ENTRY)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_fakes")
def test_the_command_reproduces_what_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reproduce", "alone", "first", "--scale", "quick", *ALONE_HERE])
    assert done.exit_code == 0
    assert RUNS == ["model", "a", "b", "alone-1", "alone-2"]
    assert (tmp_path / "reproduction" / "quick" / "first.png").is_file()
    arguments = [
        "reproduce",
        "all",
        "--scale",
        "quick",
        "--out",
        "here",
        *ALONE_HERE,
        "--seed",
        "5",
    ]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert json.loads((tmp_path / "here" / "second.json").read_text())["seed"] == 5
    refused = CliRunner().invoke(app, [*arguments[:-1], "6"])
    assert refused.exit_code == 2
    assert "seed was 5, is 6" in refused.stderr


@pytest.mark.usefixtures("_fakes")
def test_the_number_of_tasks_can_be_given_and_belongs_to_the_settings(tmp_path: Path) -> None:
    arguments = ["reproduce", "alone", "--scale=quick", "--out=here", *ALONE_HERE, "--tasks"]
    assert CliRunner().invoke(app, [*arguments, "5"]).exit_code == 0
    scale = json.loads((tmp_path / "here" / "settings.json").read_text())["scale"]
    assert (scale["map_tasks"], scale["table_tasks"]) == (5, 5)
    other = CliRunner().invoke(app, [*arguments, "6"])
    assert other.exit_code == 2
    assert "map_tasks was 5, is 6" in other.stderr
    for tasks in ("0", "33"):
        refused = CliRunner().invoke(app, [*arguments, tasks])
        assert refused.exit_code == 2
        assert "needs 1 to 32 tasks a point" in refused.stderr


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
    arguments = ["reproduce", "first", "--scale", "quick", *ALONE_HERE]
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


def test_without_the_package_the_command_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    _install(monkeypatch, metadata.EntryPoint("paper", "elsewhere:run", "another.group"))
    done = CliRunner().invoke(app, ["reproduce", "all"])
    assert done.exit_code == 1
    assert "needs the package cfopt-paper, which is not installed" in done.stderr
    assert "`pip install ./paper`" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_package_declares_what_the_command_looks_for() -> None:
    described = tomllib.loads((ROOT / "paper" / "pyproject.toml").read_text())["project"]
    declared = described["entry-points"][study.GROUP][study.NAME]
    assert (declared, study.GROUP, study.NAME) == (ENTRY.value, ENTRY.group, ENTRY.name)
    assert ENTRY.load() is command.reproduce_named


def test_a_mistyped_name_is_answered_with_the_nearest_experiment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _install(monkeypatch, ENTRY)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["reproduce", "maps-alpha-regrets"])
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: There is no experiment 'maps-alpha-regrets'. Did you")
    assert "Did you mean 'maps-alpha-regret'?" in done.stderr
    assert not list(tmp_path.iterdir())
