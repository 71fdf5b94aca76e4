"""A worker process: it loads the pipelines, answers one call at a time, and can be asked to stop.

Messages are JSON in both directions, so that nothing that a worker sends is ever executed.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn


def main(connection: Connection, config: str | None, trusted: bool, pixels: int) -> None:
    """Serve calls until the server is gone.

    Arguments:
        connection: the connection to the server.
        config: the path of the user's own configuration, if any.
        trusted: whether what it names may execute code.
        pixels: the most that an image may have.
    """
    # Ctrl-C is meant for the server, which then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A group of its own, so that whatever solvers and predictors start can be ended with it.
    if hasattr(os, "setsid"):
        os.setsid()
    _Worker(connection).run(None if config is None else Path(config), trusted, pixels)


class _Worker:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._calls: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._unwanted = -1
        self._number = -1

    def run(self, config: Path | None, trusted: bool, pixels: int) -> None:
        # Read by a thread of its own: a search hears at once that it is no longer wanted, and a
        # worker whose server was killed ends, whatever it is doing.
        threading.Thread(target=self._listen, daemon=True).start()
        self._send({"group": hasattr(os, "setsid")})
        from cfopt.web import preload  # noqa: F401
        from cfopt.web.served import load_served
        from cfopt.web.work import Work

        pipelines, described, faults = load_served(config, trusted, pixels)
        self._send({"ready": described, "faults": faults})
        work = Work(pipelines, lambda: self._unwanted == self._number)
        while True:
            self._answer(work, self._calls.get())

    def _answer(self, work: Any, call: dict[str, Any]) -> None:
        from pydantic import ValidationError

        from cfopt.errors import InputError
        from cfopt.web.presenter import Stopped
        from cfopt.web.work import sentence

        self._number = number = call["number"]

        def tell(news: dict[str, Any]) -> None:
            self._send({"number": number, "news": news})

        try:
            answer = {"done": work.do(call["command"], call["arguments"], tell)}
        except Stopped:
            answer = {"stopped": True}
        except (InputError, ValidationError) as error:
            answer = {"refused": str(error)}
        # Any: predictors and solvers of the user run here; this call fails, not the worker.
        except Exception as error:
            answer = {"failed": sentence(error)}
        self._send({"number": number} | answer)

    def _listen(self) -> None:
        while True:
            try:
                message = json.loads(self._connection.recv_bytes())
            except (EOFError, OSError):
                _end()
            if "stop" in message:
                self._unwanted = message["stop"]
            else:
                self._calls.put(message)

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message, allow_nan=False).encode()
        try:
            self._connection.send_bytes(data)
        except OSError:
            _end()


def _end() -> NoReturn:
    """The server is gone: end at once, with all that was started here."""
    if hasattr(os, "killpg"):
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)
