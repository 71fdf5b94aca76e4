"""Reproductions that are stopped, killed or damaged, or that fill the disk: what they leave."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from counting import (
    ALONE,
    EVENTS,
    FIRST,
    MANY,
    MODEL,
    RUNS,
    SECOND,
    Count,
    Counts,
    lines_console,
    raising,
    run_in,
    start_anew,
)
from matplotlib.figure import Figure
from matplotlib.image import imread
from rich.console import Console
from tests.patient import PATIENCE

import cfopt
from cfopt.errors import CfoptError, InputError, StorageError
from cfopt.running import heartbeat
from cfopt.running.lock import locked
from cfopt.running.pace import Pace, duration
from cfopt_paper.catalogue import experiments_named
from cfopt_paper.job import in_order
from cfopt_paper.paper import SOURCE
from cfopt_paper.reproduce import reproduce
from cfopt_paper.scale import PAPER, QUICK
from cfopt_paper.study import Study


@pytest.fixture(autouse=True)
def _anew() -> None:
    start_anew()


def test_each_job_runs_once_after_what_it_needs(tmp_path: Path) -> None:
    run_in(tmp_path, SECOND, FIRST)
    assert RUNS == ["model", "b", "a", "c"]
    assert pd.read_csv(tmp_path / "second.csv")["value"].tolist() == [2, 4]


def test_the_files_of_an_experiment_are_written_as_soon_as_its_jobs_are_done(
    tmp_path: Path,
) -> None:
    seen: list[bool] = []
    EVENTS["c"] = lambda: seen.append((tmp_path / "first.json").exists())
    run_in(tmp_path, FIRST, SECOND)
    assert seen == [True]


def test_tables_pictures_and_settings_are_complete(tmp_path: Path) -> None:
    console, _ = lines_console()
    study = Study(tmp_path, QUICK, seed=3)
    paths = reproduce([FIRST], study, console)
    names = ["first.csv", "first-summary.csv", "first.png", "first-again.png", "first.json"]
    assert [path.name for path in paths] == names
    assert pd.read_csv(paths[0]).to_dict("list") == {"job": ["a", "b"], "value": [5.0, 5.0]}
    assert pd.read_csv(paths[1])["mean"].tolist() == [5, 5]
    assert imread(paths[2]).shape == (100, 100, 4)
    about = json.loads(paths[4].read_text())
    assert (about["experiment"], about["title"]) == ("first", "What first comes to")
    assert (about["seed"], about["data"], about["paper"]) == (3, None, SOURCE)
    assert about["scale"]["name"] == "quick"
    assert about["jobs"] == 3
    assert about["seconds"] == pytest.approx(study.seconds(in_order(FIRST.jobs(study))), abs=0.1)
    assert "shared" in about["seconds are"]
    assert about["files"] == names[:4]
    assert about["written"].startswith("20")
    versions = {"cfopt", "python", "torch", "highspy", "cores", "commit"}
    assert versions <= about["written with"].keys()
    assert [path.name for path in tmp_path.glob(".*")] == [".lock"]


def test_an_interrupted_reproduction_goes_on_with_what_is_done(tmp_path: Path) -> None:
    console, text = lines_console()
    EVENTS["b"] = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        reproduce([FIRST, SECOND], Study(tmp_path, QUICK), console)
    (line,) = [line for line in text.getvalue().splitlines() if line.startswith("Stopped.")]
    assert f"2 of 4 jobs are done and kept in {tmp_path}; the same command resumes" in line
    EVENTS.clear()
    assert "2 of 4 jobs are already done." in run_in(tmp_path, FIRST, SECOND)
    assert RUNS == ["model", "a", "b", "b", "c"]
    run_in(tmp_path, FIRST, SECOND)
    assert len(RUNS) == 5


@pytest.mark.long
def test_a_killed_reproduction_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    code = (
        "import sys, time; from pathlib import Path; from counting import EVENTS, MANY, run_in\n"
        "EVENTS['many-3'] = lambda: time.sleep(600)\n"
        "run_in(Path(sys.argv[1]), MANY)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(killed)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    while not (killed / "parts" / "many-2.json").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "many.csv").exists()
    run_in(killed, MANY)
    assert RUNS == ["many-3", "many-4", "many-5", "many-6", "many-7"]
    run_in(whole, MANY)
    for name in ("many.csv", "many-summary.csv", "many.png"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()


def test_a_job_that_fails_stops_only_what_depends_on_it(tmp_path: Path) -> None:
    console, text = lines_console()
    EVENTS["a"] = raising(cfopt.SolverError("The knapsack has no solution."))
    with pytest.raises(cfopt.CfoptError) as caught:
        reproduce([FIRST, SECOND, ALONE], Study(tmp_path, QUICK), console)
    assert not isinstance(caught.value, cfopt.InputError)
    assert isinstance(caught.value.__cause__, cfopt.SolverError)
    message = str(caught.value)
    assert message.startswith("2 experiments could not be finished:")
    assert "  first: a failed: The knapsack has no solution." in message
    assert "  second: a failed: The knapsack" in message
    assert "a failed: The knapsack has no solution." in text.getvalue()
    assert RUNS == ["model", "a", "b", "alone-1", "alone-2"]
    assert (tmp_path / "alone.csv").exists()
    assert not (tmp_path / "first.csv").exists()
    EVENTS.clear()
    run_in(tmp_path, FIRST, SECOND, ALONE)
    assert RUNS[5:] == ["a", "c"]


def test_a_picture_that_fails_stops_no_other_experiment(tmp_path: Path) -> None:
    class Undrawn(Counts):
        def draw(self, *args: object) -> dict[str, Figure]:
            raise ZeroDivisionError("no width")

    undrawn = Undrawn("undrawn", MODEL)
    with pytest.raises(cfopt.CfoptError, match="its files failed: ZeroDivisionError: no width"):
        run_in(tmp_path, undrawn, ALONE)
    assert (tmp_path / "alone.json").exists()
    assert not list(tmp_path.glob("undrawn*"))


def test_a_disk_without_room_ends_it_at_once_and_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study(tmp_path, QUICK)

    def fill() -> None:
        full = SimpleNamespace(total=1, used=1, free=0)
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: full)

    EVENTS["a"] = fill
    with pytest.raises(StorageError, match=r"room for 0\.0 MB.* 1 of 5 jobs are done and kept"):
        reproduce([FIRST, ALONE], study, lines_console()[0])
    assert RUNS == ["model", "a"]
    with pytest.raises(StorageError, match="Free some space"):
        Study(tmp_path / "new", QUICK)
    monkeypatch.undo()
    EVENTS.clear()
    run_in(tmp_path, FIRST, ALONE)
    assert RUNS == ["model", "a", "a", "b", "alone-1", "alone-2"]


def test_a_disk_that_fills_up_while_files_are_written_ends_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, replace = Study(tmp_path, QUICK), Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.suffix == ".png":
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StorageError, match=r"No space left.* 3 of 5 jobs are done and kept"):
        reproduce([FIRST, ALONE], study, lines_console()[0])
    assert RUNS == ["model", "a", "b"]
    assert not list(tmp_path.glob("*.png"))
    assert [path.name for path in tmp_path.glob(".*")] == [".lock"]


def test_a_job_that_meets_a_full_disk_itself_ends_it_at_once(tmp_path: Path) -> None:
    EVENTS["model"] = raising(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(StorageError, match=r"No space left.* 0 of 5 jobs"):
        run_in(tmp_path, FIRST, ALONE)
    assert RUNS == ["model"]


def test_a_folder_of_another_configuration_is_refused_with_what_differs(tmp_path: Path) -> None:
    Study(tmp_path, QUICK)
    with pytest.raises(cfopt.InputError, match="another configuration: seed was 0, is 1"):
        Study(tmp_path, QUICK, seed=1)
    with pytest.raises(cfopt.InputError, match=r"name was quick, is paper; .*another folder"):
        Study(tmp_path, PAPER)
    Study(tmp_path, QUICK)


def test_foreign_files_and_files_in_place_of_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(cfopt.InputError, match=r"holds files, but no settings\.json"):
        Study(tmp_path, QUICK)
    with pytest.raises(cfopt.InputError, match="is a file"):
        Study(tmp_path / "thesis.txt", QUICK)
    with pytest.raises(cfopt.InputError, match="cannot be used"):
        Study(tmp_path / "thesis.txt" / "results", QUICK)
    with pytest.raises(cfopt.InputError, match="needs a folder of Warcraft maps"):
        Study(tmp_path / "new", QUICK, data=tmp_path / "nowhere")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("damage", ['{"seconds": 1, "rows": [{"jo', "[]", "{}", ""])
def test_a_damaged_result_is_reported_before_any_job_runs(tmp_path: Path, damage: str) -> None:
    run_in(tmp_path, ALONE)
    part = tmp_path / "parts" / "alone-1.json"
    part.write_text(damage)
    RUNS.clear()
    with pytest.raises(cfopt.InputError, match=r"alone-1\.json cannot be read.*Delete it"):
        run_in(tmp_path, FIRST, ALONE)
    assert RUNS == []
    part.unlink()
    run_in(tmp_path, ALONE)
    assert RUNS == ["alone-1"]


def test_without_a_terminal_there_is_a_line_for_each_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_TICK", PATIENCE)  # none between them, however slow they are
    lines = run_in(tmp_path, FIRST).splitlines()
    assert len(lines) == 4
    assert re.fullmatch(
        r" 33% done, 1 of 3 jobs in \d+ s, about .* left: model \(\d+ s\)", lines[0]
    )
    assert re.match(r"100% done, 3 of 3 jobs in \d+ s, about 0 s left: b", lines[2])
    assert lines[3].startswith("first is finished: first.csv, first-summary.csv, ")
    assert "\x1b" not in "".join(lines)


def test_in_a_terminal_there_is_a_bar_with_the_running_job(tmp_path: Path) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=90)

    def wait() -> None:
        deadline = time.monotonic() + PATIENCE
        while " 50% 0/1 jobs, " not in text.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)

    EVENTS["sleepy"] = wait
    reproduce([Counts("slowly", Count("sleepy"))], Study(tmp_path, QUICK), console)
    assert " 50% 0/1 jobs, " in text.getvalue()
    assert " s left sleepy" in text.getvalue()
    assert "100% 1/1 jobs" in text.getvalue()
    assert "slowly is finished" in text.getvalue()


def test_the_time_left_follows_what_jobs_really_took() -> None:
    now = [0.0]
    pace = Pace([100.0] * 10, clock=lambda: now[0], trust=0.05)
    assert (pace.share, pace.left) == (0, 1000)
    now[0] = 10.0
    assert pace.left == 990  # between two reports the clock counts down
    for _ in range(5):
        now[0] += 300
        pace.finished(100.0)
    assert pace.share == 0.5
    assert pace.left == pytest.approx(500 * (1510 + 50) / (500 + 50))
    pace.dropped(100.0)
    assert pace.share == pytest.approx(5 / 9)
    pace.moved(50.0)
    pace.moved(20.0)
    assert pace.share == pytest.approx(5.5 / 9)
    for _ in range(4):
        pace.finished(100.0)
    assert (pace.share, pace.left) == (1, 0)
    assert (Pace([]).share, Pace([]).left) == (1, 0)


def test_a_small_first_job_does_not_upset_the_forecast() -> None:
    now = [0.0]
    pace = Pace([0.1, 999.9], clock=lambda: now[0], trust=0.05)
    now[0] = 5.0
    pace.finished(0.1)
    assert pace.left == pytest.approx(1100, rel=0.01)


def test_durations_are_stated_in_words() -> None:
    assert [duration(s) for s in (0.4, 99, 720, 11_100)] == ["0 s", "99 s", "12 min", "3 h 05 min"]


def test_two_runs_on_one_folder_are_refused(tmp_path: Path) -> None:
    study = Study(tmp_path, QUICK)
    with locked(tmp_path), pytest.raises(InputError, match="another run"):
        reproduce([FIRST], study, lines_console()[0])
    assert RUNS == []
    reproduce([FIRST], study, lines_console()[0])


@pytest.mark.long
def test_several_processes_find_what_one_finds(tmp_path: Path) -> None:
    tiny = replace(QUICK, table_tasks=4, table_steps=60, table_training=0.03, grid_epsilons=(1.0,))
    chosen = experiments_named(["grid-epsilon", "maps-region"])
    tables = []
    for workers in (1, 2):
        study = Study(tmp_path / f"{workers}", tiny)
        written = reproduce(chosen, study, lines_console()[0], workers)
        assert len(written) == 10
        tables.append(pd.read_csv(study.folder / "grid-epsilon.csv").drop(columns="seconds"))
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.long
def test_a_job_that_fails_in_another_process_stops_only_what_needs_it(tmp_path: Path) -> None:
    # A grid of one place has a single path, so that there is nothing to explain.
    study = Study(tmp_path / "study", replace(QUICK, grid_sizes=(1,)))
    with pytest.raises(CfoptError, match="1 experiment could not be finished"):
        reproduce(experiments_named(["grid-size", "maps-region"]), study, lines_console()[0], 2)
    assert (study.folder / "maps-region.json").exists()
    assert not (study.folder / "grid-size.json").exists()
