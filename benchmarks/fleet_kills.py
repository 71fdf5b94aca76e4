"""Runs whose processes are killed at random moments, beside one that nobody disturbs."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.fleets import command, digests, make, parts_of

_KILLS = 20


def kills(scale: float, seed: int = 0) -> list[dict[str, Any]]:
    """Workers and clients killed at random moments, 20 in all; what is left, byte by byte.

    The client of a killed worker goes on; a killed client is followed by another. Between two kills
    there is a part at least, so that each meets a run that has come further.
    """
    moments = random.Random(seed)
    rows = max(4000, round(20_000 * min(1.0, scale)))
    with tempfile.TemporaryDirectory() as name:
        config = make(Path(name), rows, part=64)
        subprocess.run(
            command(config, "undisturbed", "--workers", "1"), check=True, capture_output=True
        )
        truth = digests(config.parent / "undisturbed")
        done, same = {"worker": 0, "client": 0}, []
        while sum(done.values()) < _KILLS:
            out = f"killed-{len(same) + 1}"
            _disturbed(command(config, out, "--workers", "2"), config.parent / out, done, moments)
            same.append(digests(config.parent / out) == truth)
    return [
        {
            "rows": rows,
            "parts": len(truth),
            "runs": len(same),
            "workers killed": done["worker"],
            "clients killed": done["client"],
            "runs with the same bytes": f"{sum(same)} of {len(same)}",
        }
    ]


def _disturbed(
    words: list[str], folder: Path, done: dict[str, int], moments: random.Random
) -> None:
    """One run to its end, of which processes are killed as long as kills are left."""
    client = _started(words)
    try:
        while client.poll() is None:
            before = len(parts_of(folder))
            while client.poll() is None and len(parts_of(folder)) == before:
                time.sleep(0.02)
            time.sleep(moments.uniform(0.0, 0.5))
            if client.poll() is not None or sum(done.values()) == _KILLS:
                continue
            workers = _workers(client.pid)
            if workers and moments.random() < 0.5:
                os.kill(moments.choice(workers), signal.SIGKILL)
                done["worker"] += 1
            else:
                client.kill()
                client.wait()
                done["client"] += 1
                client = _started(words)
    finally:
        client.kill()
    if client.wait() != 0:
        raise RuntimeError(f"{' '.join(words)} ended with code {client.returncode}")


def _started(words: list[str]) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, stdout=quiet, stderr=quiet)


def _workers(pid: int) -> list[int]:
    """The worker processes of a client; not what Python starts to clean up behind them."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    children = found.read_text().split() if found.exists() else []
    lines = {child: Path(f"/proc/{child}/cmdline") for child in children}
    return [int(child) for child, line in lines.items() if b"spawn_main" in _read(line)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""
