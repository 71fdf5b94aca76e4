"""The explorer's server in a thread of the tests, with real worker processes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from tests.patient import PATIENCE, PATIENT

from cfopt.web.address import Address
from cfopt.web.limits import Limits
from cfopt.web.process import Source
from cfopt.web.serve import listen, settings
from cfopt.web.server import create_app


@contextmanager
def serving(source: Source, limits: Limits = PATIENT) -> Iterator[Client]:
    """A client of a server that is ready."""
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    app = create_app(source, limits, Address("127.0.0.1", port))
    server = uvicorn.Server(settings(app, limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with Client(f"http://127.0.0.1:{port}") as client:
            client.until(lambda: client.health()["status"] == "ok")
            yield client
    finally:
        server.should_exit = True
        thread.join()


class Client(httpx.Client):
    """Asks the server, and waits for tasks.

    Arguments:
        url: of the server.
    """

    def __init__(self, url: str) -> None:
        # A connection that is kept may be closed by the server just when it is used again.
        once = httpx.Limits(max_keepalive_connections=0)
        super().__init__(base_url=url, timeout=PATIENCE, limits=once)

    def health(self) -> dict[str, Any]:
        try:
            return self.get("/api/health").json()
        except httpx.TransportError:  # not listening yet
            return {"status": "starting"}

    def until(self, there: Any) -> None:
        """Wait for a condition."""
        end = time.monotonic() + PATIENCE
        while not there():
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.02)

    def searcher(self) -> dict[str, Any]:
        """The worker that searches."""
        return self.health()["workers"][1]

    def start(self, **asked: Any) -> dict[str, Any]:
        """Start a search, and return its task."""
        answer = self.post("/api/explain", json=asked)
        assert answer.status_code == 202, answer.text
        return answer.json()

    def task(self, started: dict[str, Any]) -> dict[str, Any]:
        answer = self.get(started["url"])
        assert answer.status_code == 200, answer.text
        return answer.json()

    def running(self, started: dict[str, Any]) -> None:
        """Wait until a worker has taken it on."""
        self.until(lambda: self.task(started)["status"] != "queued")

    def over(self, started: dict[str, Any]) -> dict[str, Any]:
        """Wait until it has ended."""
        self.until(lambda: self.task(started)["status"] in ("done", "failed", "cancelled"))
        return self.task(started)

    def explain(self, **asked: Any) -> dict[str, Any]:
        return self.over(self.start(**asked))

    def events(self, started: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The events of a task as they come, until the stream ends."""
        name = ""
        with self.stream("GET", started["events"]) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))


#: A pipeline that goes wrong as its second feature says, but only once the search has moved the
#: first: so the context itself passes all checks. One of its searches goes on until it is stopped;
#: and it does not load while there is a file `held` beside it.
FAULTY = """
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from cfopt.engine.progress import Moving, Progress
from cfopt.search import Sequential

CHILDREN = Path(__file__).parent / "children"
LIVE = {10: "hang", 11: "raise", 12: "exit", 13: "fork", 14: "leave"}
MOVED = {1: "hang", 2: "raise", 3: "exit", 5: "fork", 6: "run", 7: "leave"}

while Path(__file__).with_name("held").exists():
    time.sleep(0.01)


class Search(Sequential):
    def steps(self, task):
        origin = task.space.origin
        while int(origin[0, 1]) == 4:
            yield Progress(1, len(task), len(task), moving=Moving(task.row_numbers, origin))
            time.sleep(0.01)
        yield from super().steps(task)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 12, dtype=torch.float64)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            weight = torch.randn((12, 3), generator=generator, dtype=torch.float64)
            weight[:, 1] = 0
            self.layer.weight.copy_(weight)
            self.layer.bias.fill_(5.0)

    def forward(self, x):
        kind = int(x.detach()[0, 1])
        fault = LIVE.get(kind)
        if (x.detach()[:, 0] != x.detach()[:, 0].round()).any():
            fault = fault or MOVED.get(kind)
        if fault in ("fork", "leave"):
            child = os.fork()
            if not child:
                if fault == "leave":
                    os.setsid()
                time.sleep(600)
            with CHILDREN.open("a") as file:
                file.write(f"{child}\\n")
        if fault == "leave":
            os._exit(3)
        if fault == "run":
            solver = [sys.executable, "-c", "import time; time.sleep(600)"]
            with CHILDREN.open("a") as file:
                file.write(f"{subprocess.Popen(solver).pid}\\n")
        if fault in ("hang", "fork", "run"):
            while True:
                time.sleep(0.01)
        if fault == "raise":
            raise RuntimeError("the sensor is broken")
        if fault == "exit":
            os._exit(3)
        return self.layer(torch.tanh(x / 3))
"""
CONFIG = """
title = "Faulty"
[predictor]
class = "faulty.Net"
[problem]
kind = "GridShortestPath"
arguments = { rows = 3, cols = 3 }
[contexts]
file = "contexts.csv"
[features]
names = ["a", "fault", "b"]
immutable = ["fault"]
[criterion]
kind = "Absolute"
decision_of_row = 1
[search]
class = "faulty:Search"
"""
ROWS = "a,fault,b\n1,0,2\n-3,0,-1\n"
#: The search that goes on until it is stopped.
ENDLESS = 4


def fault(number: int) -> dict[str, Any]:
    """A search that goes wrong in one way."""
    question = {"kind": "absolute", "alternative": {"row": 1}}
    return {"pipeline": "own", "context": {"values": [1, number, 2]}, "question": question}


def write_faulty(folder: Path) -> Path:
    """A configuration whose predictor hangs, raises or ends its process on demand."""
    (folder / "faulty.py").write_text(FAULTY)
    (folder / "CONFIG.toml").write_text(CONFIG)
    (folder / "contexts.csv").write_text(ROWS)
    return folder / "CONFIG.toml"
