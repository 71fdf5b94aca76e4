"""Real processes: workers that are killed, rows that kill, and clients that are stopped."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.commands import cf
from tests.fleet.test_parts import bytes_of
from tests.lethal import CURSED, Hanging, Lethal
from tests.many_parts import Held
from tests.patient import PATIENCE
from tests.pipelines import normal, random_linear

import cfopt
from cfopt.fleet import explain_dataset
from cfopt.fleet.answers import LETHAL
from cfopt.fleet.dataset import _Carried
from cfopt.fleet.finish import read_checked
from cfopt.fleet.processes import Processes
from cfopt.fleet.worker import GRACE, Patience, Worker, find_lethal
from cfopt.problems import GridShortestPath

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def wait_until(true: object, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Murderer:
    """Kills a worker when the first rows are counted."""

    def __init__(self) -> None:
        self.rows = self.killed = 0

    def started(self, part: int) -> None:
        pass

    def moved(self, rows: float) -> None:
        pass

    def counted(self, part: int, rows: int) -> None:
        self.rows += rows
        if not self.killed:
            self.killed += 1
            multiprocessing.active_children()[0].kill()

    def failed(self, part: int, reason: str) -> None:
        raise AssertionError(reason)


@pytest.mark.long
def test_parts_of_a_killed_worker_are_explained_by_another(
    grid: cfopt.Pipeline, tmp_path: Path
) -> None:
    x, wish = normal(48, 4).numpy(), cfopt.Absolute(grid.decide(normal(1, 4, seed=5))[0])
    whole = explain_dataset(x, grid, wish, tmp_path / "whole", batch=4, part=8)
    list(whole)
    other = explain_dataset(x, grid, wish, tmp_path / "killed", batch=4, part=8)
    other._kept.make()
    murderer = Murderer()
    engine = Processes(_Carried(other.work), 2, Patience(None))
    engine.explain(other._kept, {part: {} for part in range(6)}, murderer)
    assert murderer.killed == 1
    assert murderer.rows == 48  # what was lost is counted once
    assert bytes_of(tmp_path / "whole") == bytes_of(tmp_path / "killed")
    assert not multiprocessing.active_children()


@pytest.mark.long
def test_a_row_that_ends_every_process_is_reported_and_the_others_are_explained(
    tmp_path: Path,
) -> None:
    problem = GridShortestPath(3, 3)
    layer = random_linear(4, problem.num_costs, bias=5.0)
    x = normal(20, 4)
    x[13, 0] = CURSED
    pipeline = cfopt.Pipeline(Lethal(layer), problem)
    found = explain_dataset(
        x.numpy(),
        pipeline,
        cfopt.Epsilon(0.1),
        tmp_path / "out",
        part=5,
        search=cfopt.MDMM(max_steps=5),
    )
    found.run(workers=2)
    e = cfopt.Explanation.concat(list(found))
    assert found.done == len(e) == 20
    assert e.message[13] == f"the explanation failed: {LETHAL}"
    assert [row for row, s in enumerate(e.status) if s is cfopt.Status.REJECTED] == [13]
    assert (tmp_path / "out" / "explanations" / "_SUCCESS").exists()


def test_a_worker_hangs_if_it_has_not_read_the_clock_for_the_limit_and_the_grace() -> None:
    now = [0.0]
    nothing: Any = None
    line: Any = SimpleNamespace(send=lambda order: None)
    beats = SimpleNamespace(value=7)
    worker = Worker(nothing, line, beats, Patience(10.0, lambda: now[0]))

    def after(seconds: float) -> bool:
        now[0] += seconds
        return worker.hangs()

    assert not after(0.0)
    assert not after(1e6)  # it has nothing to do
    worker.give("part", 3)
    assert not after(1e6)  # it reads the rows
    beats.value += 1
    assert not after(1e6)
    assert not after(10.0 + GRACE)
    assert after(1.0)
    beats.value += 1
    assert not after(1.0)
    assert not after(10.0 + GRACE)
    beats.value += 1
    assert not after(10.0 + GRACE)
    assert after(10.0 + GRACE + 1.0)
    worker.patience = Patience(None, lambda: now[0])
    assert not after(1e9)


class TimeOfHanging:
    """A clock that goes on, by far, only while a process says that it hangs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0

    def __call__(self) -> float:
        there = {str(child.pid) for child in multiprocessing.active_children()}
        if there & {file.name for file in self.folder.iterdir()}:
            self.now += 10_000.0
        return self.now


class Kept:
    """What is heard of a run."""

    def __init__(self) -> None:
        self.rows = 0
        self.failures: dict[int, str] = {}

    def started(self, part: int) -> None:
        pass

    def moved(self, rows: float) -> None:
        pass

    def counted(self, part: int, rows: int) -> None:
        self.rows += rows

    def failed(self, part: int, reason: str) -> None:
        self.failures[part] = reason


@pytest.mark.long
@pytest.mark.parametrize("company", [False, True])
def test_a_row_that_holds_its_process_is_given_up_and_named(tmp_path: Path, company: bool) -> None:
    problem, signs = GridShortestPath(3, 3), tmp_path / "signs"
    signs.mkdir()
    layer = random_linear(4, problem.num_costs, bias=5.0)
    x = normal(12, 4)
    x[7, 0] = CURSED
    pipeline = cfopt.Pipeline(Hanging(layer, signs, company), problem)
    more: dict[str, Any] = {"search": cfopt.MDMM(max_steps=3), "time_limit": 600.0}
    folder = tmp_path / "out"
    found = explain_dataset(x.numpy(), pipeline, cfopt.Epsilon(0.1), folder, part=4, **more)
    found._kept.make()
    heard, patience = Kept(), Patience(600.0, TimeOfHanging(signs))
    engine = Processes(_Carried(found.work), 1, patience)
    engine.explain(found._kept, {part: {} for part in range(3)}, heard)
    assert not multiprocessing.active_children()
    if company:
        assert "none does so alone" in heard.failures.pop(1)
        assert found.done == 8
    else:
        asked = (_Carried(found.work), folder, range(6, 8), patience)
        assert find_lethal(*asked, "trial") == {7: patience.words}
        assert found.done == heard.rows == 12
        e = cfopt.Explanation.concat([read_checked(found._kept, k)[0] for k in range(3)])
        assert e.message[7] == f"the explanation failed: {patience.words}"
        assert "30 seconds beyond the time limit of 600" in e.message[7]
        assert [row for row, s in enumerate(e.status) if s is cfopt.Status.REJECTED] == [7]
        assert found._kept.noted().lethal == {1: {7: patience.words}}
    assert not heard.failures


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_client_that_ends_leaves_finished_parts_and_no_workers(
    example: Path, how: signal.Signals
) -> None:
    held = Held(example, 6)
    out = example.parent / "results"
    client = subprocess.Popen(
        [sys.executable, "-m", "cfopt", "explain", str(example), "--trust", "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=ENVIRONMENT,
    )
    wait_until(lambda: len(bytes_of(out)) >= 1 or client.poll() is not None, "no part was done")
    children = Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()
    client.send_signal(how)
    client.wait(PATIENCE)
    held.release()
    said, _ = client.communicate(timeout=PATIENCE)
    if how is signal.SIGINT:
        assert client.returncode == 130, said
        assert "rows are done and kept" in said
        assert "Traceback" not in said
    assert len(children) >= 2
    wait_until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in children), "orphans")
    kept = bytes_of(out)
    assert 1 <= len(kept) < 30
    orders = ("--trust", "--workers", "1")
    assert cf("explain", example, *orders).exit_code == 0
    assert {name: bytes_of(out)[name] for name in kept} == kept
    undisturbed = example.parent / "undisturbed"
    assert cf("explain", example, *orders, "--out", undisturbed).exit_code == 0
    assert bytes_of(out) == bytes_of(undisturbed)
