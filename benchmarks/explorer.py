"""The explorer under load: many clients at once, each answer checked by other means.

The checks share nothing with the search: costs come from the shipped weights by plain products,
best routes from networkx, best selections from all subsets.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count, pairwise, product
from pathlib import Path
from typing import Any

import httpx
import networkx as nx
import numpy as np
from safetensors.numpy import load_file

FILE = Path(__file__).parent.parent / "src" / "cfopt" / "web" / "tables.safetensors"
#: How exactly a criterion must hold, as a fraction of the values that are compared.
_EXACT = 1e-6


@contextmanager
def running(*options: str) -> Iterator[tuple[str, int]]:
    """`cfopt serve` as a process of its own: its address and its process id."""
    command = [sys.executable, "-m", "cfopt", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        try:
            yield found.group(), server.pid
        finally:
            server.terminate()


def asked(k: int) -> dict[str, Any]:
    """The k-th request: grids and knapsacks in turn, the three questions in turn."""
    pipeline = ("grid", "knapsack")[k % 2]
    row, other = k % 50, (7 * k + 3) % 50
    kind = ("absolute", "relative", "epsilon")[(k // 2) % 3]
    question: dict[str, Any] = {"kind": kind}
    question |= {"epsilon": 0.05} if kind == "epsilon" else {"alternative": {"row": other}}
    return {"pipeline": pipeline, "context": {"row": row}, "question": question}


def fault_of(request: dict[str, Any], task: dict[str, Any]) -> str:
    """What is wrong with the answer to a request on a shipped table; "" if nothing."""
    if task["status"] != "done":
        return f"{task['status']}: {task['message']}"
    name, question, result = request["pipeline"], request["question"], task["result"]
    shipped = _shipped()
    weight, bias = shipped[f"{name}.weight"], shipped[f"{name}.bias"]
    context = request["context"]
    start = shipped[f"{name}.contexts"][context["row"]] if "row" in context else context["values"]
    before, after = (
        weight @ np.array(start) + bias,
        weight @ np.array(result["after"]["values"]) + bias,
    )
    sense, best = (1.0, _best_route) if name == "grid" else (-1.0, _best_set)
    factual = np.array(result["factual_decision"])
    if abs(before @ factual - best(before)) > _EXACT * abs(best(before)):
        return "what is called the decision is not the best in the context"
    if result["status"] == "proved infeasible":
        return ""  # no witness: proofs have tests of their own
    if not result["valid"]:
        return f"no answer: {result['message']}"
    wanted, slack = np.array(result["asked_decision"]), _EXACT * np.abs(after).sum()
    if question["kind"] == "epsilon":
        short = best(after) + sense * question["epsilon"] * abs(best(after)) - after @ factual
        return "" if sense * short <= slack else "the decision is not as bad as was asked"
    shipped_choice = question["alternative"]
    if "row" in shipped_choice:
        there = weight @ shipped[f"{name}.contexts"][shipped_choice["row"]] + bias
        if abs(there @ wanted - best(there)) > _EXACT * abs(best(there)):
            return "the alternative is not the decision of the row that was named"
    rival = best(after) if question["kind"] == "absolute" else after @ factual
    won = sense * (after @ wanted - rival) + question.get("margin", 0) * abs(after @ wanted)
    return "" if won <= slack else "the alternative does not win"


@cache
def _shipped() -> dict[str, Any]:
    return load_file(FILE)


def _best_route(costs: Any) -> float:
    """The least cost from corner to corner of the 5 x 5 grid; arcs row by row, right then down."""
    graph, arcs = nx.DiGraph(), count()
    for row in range(5):
        for col in range(4):
            graph.add_edge((row, col), (row, col + 1), weight=costs[next(arcs)])
        if row < 4:
            for col in range(5):
                graph.add_edge((row, col), (row + 1, col), weight=costs[next(arcs)])
    return float(nx.bellman_ford_path_length(graph, (0, 0), (4, 4)))


@cache
def _sets() -> Any:
    shipped = _shipped()
    every = (np.arange(2**16)[:, None] >> np.arange(16)) & 1
    fits = (every @ shipped["knapsack.weights"].T <= shipped["knapsack.capacities"] + 1e-9).all(1)
    return every[fits].astype(float)


def _best_set(values: Any) -> float:
    return float((_sets() @ values).max())


def crowd(url: str, requests: int, clients: int) -> dict[str, Any]:
    """Send requests from several clients at once, follow each to its end, and check it."""
    numbers, lock = iter(range(requests)), threading.Lock()
    took, faults = [], []
    _sets()

    def one() -> None:
        with httpx.Client(base_url=url, timeout=120) as client:
            while True:
                with lock:
                    k = next(numbers, None)
                if k is None:
                    return
                start = time.perf_counter()
                fault = _follow(client, asked(k))
                with lock:
                    took.append(time.perf_counter() - start)
                    if fault:
                        faults.append(f"request {k}: {fault}")

    begun = time.perf_counter()
    threads = [threading.Thread(target=one) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "requests": requests,
        "clients": clients,
        "answered": len(took),
        "faults": faults,
        "seconds": time.perf_counter() - begun,
        "median s": statistics.median(took),
        "slowest s": max(took),
    }


def _follow(client: httpx.Client, request: dict[str, Any]) -> str:
    try:
        started = client.post("/api/explain", json=request)
        if started.status_code != 202:
            return f"{started.status_code}: {started.text}"
        data = ""
        with client.stream("GET", started.json()["events"]) as stream:
            for line in stream.iter_lines():
                data = line.removeprefix("data: ") if line.startswith("data: ") else data
        return fault_of(request, json.loads(data))
    except httpx.HTTPError as error:
        return f"lost: {error!r}"


def _memory(pid: int) -> float:
    """What a process holds for itself, in MB; what is shared with others is not counted."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    own = re.findall(r"^Private_\w+:\s+(\d+) kB", text, re.MULTILINE)
    return sum(map(int, own)) / 1024


def load(rounds: int = 4) -> list[dict[str, Any]]:
    """Rounds of 200 requests from 20 clients: answers, and memory after each."""
    rows = []
    with running() as (url, pid), httpx.Client(base_url=url, timeout=120) as client:
        while client.get("/api/health").json()["status"] != "ok":
            time.sleep(0.1)
        for number in range(1, rounds + 1):
            outcome = crowd(url, 200, 20)
            live, search = (worker["pid"] for worker in client.get("/api/health").json()["workers"])
            faults = outcome.pop("faults")
            memory = {"server MB": pid, "live MB": live, "search MB": search}
            rows.append(
                {"round": number}
                | outcome
                | {"lost or wrong": len(faults)}
                | {name: _memory(process) for name, process in memory.items()}
            )
    return rows


def decisions(times: int = 200) -> list[dict[str, Any]]:
    """How long a live decision takes, from request to answer."""
    rows = []
    with running() as (url, _), httpx.Client(base_url=url, timeout=120) as client:
        for name in ("grid", "knapsack", "terrain"):
            took = []
            for k in range(times):
                start = time.perf_counter()
                answer = client.post(
                    "/api/decide", json={"pipeline": name, "context": {"row": k % 50}}
                )
                took.append(1e3 * (time.perf_counter() - start))
                assert answer.status_code == 200
            took = sorted(took[1:])  # the first waits for the workers to load
            rows.append(
                {
                    "pipeline": name,
                    "decisions": len(took),
                    "median ms": statistics.median(took),
                    "99% below ms": took[int(0.99 * len(took))],
                    "slowest ms": took[-1],
                }
            )
    return rows


def progress() -> list[dict[str, Any]]:
    """The events of a search on a map while it runs."""
    rows = []
    with running() as (url, _), httpx.Client(base_url=url, timeout=120) as client:
        for kind, plausible in product(("absolute", "relative", "epsilon"), (True, False)):
            question: dict[str, Any] = {"kind": kind}
            question |= {"epsilon": 0.3} if kind == "epsilon" else {"alternative": {"row": 21}}
            request = {"pipeline": "terrain", "context": {"row": 0}, "question": question}
            started = client.post("/api/explain", json=request | {"plausible": plausible}).json()
            times, moves, data = [time.perf_counter()], 0, ""
            with client.stream("GET", started["events"]) as stream:
                for line in stream.iter_lines():
                    if line.startswith("data: "):
                        times.append(time.perf_counter())
                        data = line.removeprefix("data: ")
                        moves += '"path"' in data and '"result"' not in data
            gaps = [after - before for before, after in pairwise(times)]
            rows.append(
                {
                    "question": kind,
                    "search": "plausible" if plausible else "naive",
                    "status": json.loads(data)["result"]["status"],
                    "seconds": times[-1] - times[0],
                    "events": len(gaps),
                    "moves shown": moves,
                    "longest silence s": max(gaps),
                }
            )
    return rows
