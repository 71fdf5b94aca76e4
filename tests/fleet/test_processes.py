"""Real processes: workers that are killed, rows that kill, and clients that are stopped."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.commands import cf
from tests.fleet.test_parts import bytes_of
from tests.lethal import CURSED, Lethal
from tests.many_parts import Held
from tests.patient import PATIENCE
from tests.pipelines import normal, random_linear

import cfopt
from cfopt.fleet import explain_dataset
from cfopt.fleet.answers import LETHAL
from cfopt.fleet.dataset import _Carried
from cfopt.fleet.processes import Processes
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
    engine = Processes(_Carried(other.work), 2)
    engine.explain(other._kept, dict.fromkeys(range(6), frozenset()), murderer)
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
