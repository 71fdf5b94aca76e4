"""Searches by their id: queued, running, done, cancelled or failed; old ones are forgotten."""

from __future__ import annotations

import json
import secrets
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

from cfopt.web.limits import Limits
from cfopt.web.pool import Queue
from cfopt.web.process import CallError, CancelledError, DiedError, TooSlowError


class SearchTask:
    """One search, from the request to its result.

    Arguments:
        request: what was asked, as it is remembered.
        seconds: the time that the search may take.
        origin: the search whose answer is the context, if it is one.
    """

    command = "explain"

    def __init__(
        self, request: dict[str, Any], seconds: float, origin: SearchTask | None = None
    ) -> None:
        # Long enough that nobody finds the tasks of others by trying.
        self.id = secrets.token_urlsafe(12)
        self.request, self.seconds = request, seconds
        self.status, self.message = "queued", "Waiting for a free worker."
        #: Count all changes, and the moves among them, so that streams know what is new.
        self.version = self.moves = 0
        self.step, self.place = 0, dict[str, Any]()
        self.result: dict[str, Any] | None = None
        self.picture: bytes | None = None
        self._explanation = b""
        self._origin = origin
        self._bytes = len(json.dumps(request))
        #: When somebody last wanted to know how it stands.
        self._heard = time.monotonic()
        self._began: float | None = None
        self._took: float | None = None
        self._stop: Callable[[], None] | None = None
        self._lock = threading.Lock()

    @property
    def over(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in ("done", "cancelled", "failed")

    @property
    def elapsed(self) -> float:
        """Seconds that the search has taken so far."""
        if self._took is not None or self._began is None:
            return self._took or 0.0
        return time.monotonic() - self._began

    @property
    def size(self) -> int:
        """About how many bytes it holds: its request and its result, and what comes with them."""
        return self._bytes + len(self._explanation) + len(self.picture or b"") + 10_000

    @property
    def arguments(self) -> dict[str, Any]:
        """What the worker needs to know."""
        return continued(self.request, self._origin)

    def start(self, stop: Callable[[], None]) -> bool:
        """A worker takes it on, unless it was cancelled."""
        with self._lock:
            if self.over:
                return False
            self._stop, self._began = stop, time.monotonic()
            self._become("running", "The search is running.")
            return True

    def tell(self, news: dict[str, Any]) -> None:
        """Where the search is."""
        self.step = news.pop("step")
        if news:
            self.place = news
            self.moves += 1
        self.version += 1

    def finish(self, answer: dict[str, Any]) -> None:
        """The search has ended by itself."""
        explanation = zlib.compress(answer["explanation"].encode(), 1)
        size = len(json.dumps(answer["result"]))
        with self._lock:
            if self.over:  # cancelled while its worker finished
                return
            self.result, self._explanation = answer["result"], explanation
            self._bytes += size
            self._end("done", answer["result"]["verdict"])

    def fail(self, trouble: CallError) -> None:
        """The search has ended without a result."""
        with self._lock:
            if isinstance(trouble, CancelledError):
                self._end("cancelled", "The search was cancelled.")
            elif isinstance(trouble, TooSlowError):
                self._end(
                    "failed",
                    f"The search took longer than {self.seconds:g} s and was stopped.",
                )
            elif isinstance(trouble, DiedError):
                self._end(
                    "failed",
                    "The worker process died during the search, as it does when memory runs out or "
                    "a solver crashes. A new one is starting; try again.",
                )
            else:
                self._end("failed", str(trouble))

    def hear(self) -> None:
        """Somebody wants to know how it stands."""
        self._heard = time.monotonic()

    @property
    def unheard(self) -> float:
        """For how many seconds nobody has wanted to know how it stands."""
        return time.monotonic() - self._heard

    def cancel(self, why: str = "The search was cancelled.") -> None:
        """End it, in whatever state it is; what is over stays as it is."""
        with self._lock:
            if self.over:
                return
            stop = self._stop
            self._end("cancelled", why)
        if stop is not None:
            stop()

    def _end(self, status: str, message: str) -> None:
        # A cancelled task stays cancelled, though its worker may still fail.
        if self.over:
            return
        self._took = self.elapsed
        self._stop, self._origin, self.place = None, None, {}
        self._become(status, message)

    def _become(self, status: str, message: str) -> None:
        self.status, self.message = status, message
        self.version += 1

    @property
    def explanation(self) -> str:
        """The whole explanation as JSON."""
        return zlib.decompress(self._explanation).decode()

    def document(self) -> str:
        """What is downloaded: the explanation with its request."""
        return json.dumps(json.loads(self.explanation) | {"request": self.request})


def continued(request: dict[str, Any], origin: SearchTask | None) -> dict[str, Any]:
    """A request with the answer that it continues from, if any."""
    return request if origin is None else request | {"origin": origin.explanation}


class Tasks:
    """All tasks that are remembered.

    Arguments:
        queue: the tasks that wait for a worker.
        limits: the limits of the server.
    """

    def __init__(self, queue: Queue, limits: Limits) -> None:
        self._queue, self._limits = queue, limits
        self._tasks: dict[str, SearchTask] = {}
        self._lock = threading.Lock()

    def submit(self, request: dict[str, Any], origin: SearchTask | None = None) -> SearchTask:
        """Queue a search, or raise `QueueFullError`."""
        most = self._limits.search_seconds
        task = SearchTask(request, min(request.get("seconds", most), most), origin)
        self._queue.put(task)
        with self._lock:
            self._tasks[task.id] = task
            self._forget()
        return task

    @property
    def full(self) -> bool:
        """Whether no more can wait."""
        return len(self._queue) >= self._limits.queue

    def __getitem__(self, name: str) -> SearchTask:
        return self._tasks[name]

    def cancel(self, task: SearchTask, why: str = "The search was cancelled.") -> None:
        """Cancel a task; what waits gives up its place."""
        task.cancel(why)
        self._queue.remove(task)

    def give_up_unheard(self) -> None:
        """Cancel what nobody has asked about for too long: the page that wanted it was closed."""
        with self._lock:
            tasks = list(self._tasks.values())
        for task in tasks:
            if not task.over and task.unheard > self._limits.unheard_seconds:
                self.cancel(task, "The search was ended, since nobody was following it.")

    def view(self, task: SearchTask) -> dict[str, Any]:
        """A task for the page."""
        return {
            "id": task.id,
            "status": task.status,
            "place": self._queue.place(task),
            "seconds": round(task.elapsed, 3),
            "step": task.step,
            "message": task.message,
            "request": task.request,
            "result": task.result,
        }

    def _forget(self) -> None:
        """Drop the oldest that are over, until the others are few and small enough."""
        held = sum(task.size for task in self._tasks.values())
        for name, task in list(self._tasks.items()):
            few = len(self._tasks) <= self._limits.kept_tasks
            if few and held <= self._limits.kept_bytes:
                return
            if task.over:
                held -= task.size
                del self._tasks[name]
