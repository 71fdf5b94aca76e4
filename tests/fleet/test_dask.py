"""A Dask scheduler and its workers as processes of their own, on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from tests.commands import cf, change, refused
from tests.fleet.test_parts import bytes_of
from tests.fleet.test_processes import PATIENCE, wait_until

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
    table = pd.read_csv(example.parent / "contexts.csv")
    pd.concat([table.assign(rain=table["rain"] + k / 7) for k in range(6)]).to_csv(
        example.parent / "contexts.csv", index=False
    )
    change(example, "# [run]\n# batch = 64", "[run]\npart = 2")
    change(example, 'kind = "Auto"', 'kind = "MDMM"\nmax_steps = 60')
    undisturbed = example.parent / "undisturbed"
    assert cf("explain", example, "--workers", "1", "--out", undisturbed).exit_code == 0
    truth = bytes_of(undisturbed)
    refused(
        cf("explain", example, "--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"),
        "no Dask scheduler at tcp://127.0.0.1:9",
    )
    with cluster(example.parent) as (address, scheduler, workers):
        orders = ("--engine", "dask", "--scheduler", address)
        out = example.parent / "results"

        def kill(process: subprocess.Popen[bytes], folder: Path, parts: int) -> threading.Thread:
            def watch() -> None:
                wait_until(
                    lambda: len(bytes_of(folder)) >= parts or ended.is_set(), "no part was done"
                )
                process.kill()

            thread = threading.Thread(target=watch)
            thread.start()
            return thread

        ended = threading.Event()
        thread = kill(workers[0], out, 2)
        done = cf("explain", example, *orders)
        ended.set()
        thread.join(PATIENCE)
        assert done.exit_code == 0, done.output
        assert workers[0].wait(PATIENCE) == -9
        assert bytes_of(out) == truth
        orphaned = example.parent / "orphaned"
        words = [sys.executable, "-m", "cfopt", "explain", str(example), "--out", str(orphaned)]
        quiet = subprocess.DEVNULL
        client = subprocess.Popen([*words, *orders], stdout=quiet, stderr=quiet)
        wait_until(
            lambda: len(bytes_of(orphaned)) >= 2 or client.poll() is not None, "no part was done"
        )
        client.kill()
        assert client.wait(PATIENCE) == -9
        assert len(bytes_of(orphaned)) < len(truth)
        done = cf("explain", example, "--out", orphaned, *orders)
        assert done.exit_code == 0, done.output
        assert bytes_of(orphaned) == truth
        lost = example.parent / "lost"
        ended.clear()
        thread = kill(scheduler, lost, 2)
        done = cf("explain", example, "--out", lost, *orders)
        ended.set()
        thread.join(PATIENCE)
        assert done.exit_code == 1, done.output
        assert "is gone" in done.stderr
        assert "the same command resumes" in done.stderr
    assert 2 <= len(bytes_of(lost)) < len(truth)
    assert cf("explain", example, "--workers", "1", "--out", lost).exit_code == 0
    assert bytes_of(lost) == truth
