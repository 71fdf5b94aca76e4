"""A Dask scheduler and its workers as processes of their own, on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.commands import cf, refused
from tests.fleet.test_parts import bytes_of
from tests.fleet.test_processes import wait_until
from tests.many_parts import Held
from tests.patient import PATIENCE

pytest.importorskip("distributed")


@contextmanager
def cluster(
    folder: Path,
) -> Iterator[tuple[str, subprocess.Popen[bytes], list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, its process, and those of two workers."""
    file = folder / "scheduler.json"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    quiet = subprocess.DEVNULL

    def start(module: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", str(file)]
        return subprocess.Popen([*command, *words], stdout=quiet, stderr=quiet, env=environment)

    own = ("--host", "127.0.0.1", "--no-dashboard")
    scheduler = start("dask_scheduler", *own, "--port", "0")
    workers: list[subprocess.Popen[bytes]] = []
    try:
        wait_until(file.exists, "the scheduler did not start")
        address = str(pd.read_json(file, typ="series")["address"])
        workers = [start("dask_worker", *own, "--nthreads", "1", "--no-nanny") for _ in range(2)]
        yield address, scheduler, workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


@pytest.mark.long
def test_dask_gives_the_same_bytes_and_survives_what_is_killed(example: Path) -> None:
    held = Held(example, 6)
    held.release()

    def explained(*words: object) -> Any:
        return cf("explain", example, "--trust", *words)

    undisturbed = example.parent / "undisturbed"
    assert explained("--workers", "1", "--out", undisturbed).exit_code == 0
    truth = bytes_of(undisturbed)
    refused(
        explained("--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"),
        "no Dask scheduler at tcp://127.0.0.1:9",
    )
    with cluster(example.parent) as (address, scheduler, workers):
        orders = ("--engine", "dask", "--scheduler", address)
        out = example.parent / "results"

        @contextmanager
        def killing(process: subprocess.Popen[bytes], folder: Path) -> Iterator[None]:
            """Kill a process when some parts are done, and let the others be done."""

            def watch() -> None:
                wait_until(lambda: len(bytes_of(folder)) >= 2 or ended, "no part was done")
                process.kill()
                held.release()

            ended: list[bool] = []
            held.hold()
            thread = threading.Thread(target=watch)
            thread.start()
            yield
            ended.append(True)
            thread.join(PATIENCE)

        with killing(workers[0], out):
            done = explained(*orders)
        assert done.exit_code == 0, done.output
        assert workers[0].wait(PATIENCE) == -9
        assert bytes_of(out) == truth
        orphaned = example.parent / "orphaned"
        words = [sys.executable, "-m", "cfopt", "explain", str(example), "--trust"]
        quiet = subprocess.DEVNULL
        held.hold()
        client = subprocess.Popen(
            [*words, "--out", str(orphaned), *orders], stdout=quiet, stderr=quiet
        )
        wait_until(
            lambda: len(bytes_of(orphaned)) >= 2 or client.poll() is not None, "no part was done"
        )
        client.kill()
        assert client.wait(PATIENCE) == -9
        assert len(bytes_of(orphaned)) < len(truth)
        held.release()
        done = explained("--out", orphaned, *orders)
        assert done.exit_code == 0, done.output
        assert bytes_of(orphaned) == truth
        lost = example.parent / "lost"
        with killing(scheduler, lost):
            done = explained("--out", lost, *orders)
        assert done.exit_code == 1, done.output
        assert "is gone" in done.stderr
        assert "the same command resumes" in done.stderr
    assert 2 <= len(bytes_of(lost)) < len(truth)
    assert explained("--workers", "1", "--out", lost).exit_code == 0
    assert bytes_of(lost) == truth
