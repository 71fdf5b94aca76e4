"""Requests made up from the server's own description: none may make it fail.

`python -m benchmarks.made_up_requests --cases 2000 --seed 1` starts a server, has schemathesis send
at least so many, and ends with code 1 if an answer was a server error or not as described.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.explorer import running

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
#: Requests that are made up for each operation with one seed.
_EXAMPLES = 50


def send(url: str, examples: int, seed: int) -> tuple[int, str]:
    """How many requests were sent, and what is wrong with their answers; "" if nothing is.

    Arguments:
        url: the address of a server that is ready.
        examples: how many are made up for each operation, beside those at the edges of its schema.
        seed: another one gives others.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"]
        command += ["--checks", ",".join(_CHECKS), "--phases", "examples,coverage,fuzzing"]
        command += ["--max-examples", str(examples), "--seed", str(seed)]
        command += ["--request-timeout", "120"]  # its own are too short for a busy machine
        command += ["--generation-deterministic", "--suppress-health-check", "all", "--no-color"]
        command += ["--report", "json", "--report-json-path", str(told)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        sent = json.loads(told.read_text())["test_cases"]["generated"] if told.exists() else 0
    return sent, done.stdout[-5000:] + done.stderr[-2000:] if done.returncode else ""


def main(cases: int, seed: int) -> None:
    """Send at least so many requests, with one seed after another."""
    sent = 0
    with running() as (url, _), httpx.Client(base_url=url, timeout=120) as client:
        while client.get("/api/health").json()["status"] != "ok":
            time.sleep(0.1)
        while sent < cases:
            more, fault = send(url, _EXAMPLES, seed)
            sent += more
            print(f"Seed {seed}: {more:,} requests, {sent:,} in all.", flush=True)
            if fault or not more:
                sys.exit(fault or "Error: schemathesis sent no request.")
            seed += 1
        state = client.get("/api/health").json()["status"]
    if state != "ok":
        sys.exit(f"Error: after {sent:,} requests the server is {state}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="requests to send at least")
    parser.add_argument("--seed", type=int, default=1, help="another one gives others")
    given = parser.parse_args()
    main(given.cases, given.seed)
