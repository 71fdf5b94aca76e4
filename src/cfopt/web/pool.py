"""Workers and their queues: each takes the next job, and is replaced when it dies."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Protocol

from cfopt.web.catalogue import OWN
from cfopt.web.limits import Limits
from cfopt.web.process import CallError, DiedError, Process, Source

#: Seconds before a worker that died while loading is started again: twice as long each time.
_PAUSE, _LONGEST = 0.5, 30.0
#: Seconds before a worker that died is replaced.
_MOMENT = 0.1
#: How often a worker may die while it loads before the user's own pipeline is left out.
_DEATHS = 2
_DEADLY = (
    "The worker process died, or took too long, while loading this. Fix it, and restart the server."
)
#: Seconds after which an idle worker is checked.
_IDLE = 0.5


class QueueFullError(Exception):
    """The queue takes no more."""


class Job(Protocol):
    """Something to be done by a worker."""

    command: str
    seconds: float

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the command."""

    def start(self, stop: Callable[[], None]) -> bool:
        """A worker takes it on, until it is stopped; False if it is no longer wanted."""

    def tell(self, news: dict[str, Any]) -> None:
        """Report news of it."""

    def finish(self, answer: dict[str, Any]) -> None:
        """It is done."""

    def fail(self, error: CallError) -> None:
        """There is no answer."""


class Queue:
    """Jobs in the order in which they came.

    Arguments:
        room: how many may wait.
    """

    def __init__(self, room: int) -> None:
        self._room, self._jobs, self._closed = room, deque[Job](), False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, job: Job) -> None:
        """Add a job, or raise `QueueFullError`."""
        with self._changed:
            if self._closed or len(self._jobs) >= self._room:
                raise QueueFullError
            self._jobs.append(job)
            self._changed.notify()

    def take(self, seconds: float) -> Job | None:
        """The next job, waited for; None if none came, or there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed, seconds)
            return self._jobs.popleft() if self._jobs and not self._closed else None

    def place(self, job: Job) -> int:
        """How many jobs come first, and itself; 0 if it does not wait."""
        with self._changed:
            return self._jobs.index(job) + 1 if job in self._jobs else 0

    def remove(self, job: Job) -> None:
        """Take a job out, if it is still there."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def close(self) -> None:
        """Wake everyone who waits: there will be no more jobs."""
        with self._changed:
            self._closed = True
            waiting = list(self._jobs)
            self._jobs.clear()
            self._changed.notify_all()
        for job in waiting:
            job.fail(DiedError("The server is stopping."))


class WorkerThread(threading.Thread):
    """A worker with its queue: loads, works, and is replaced when it dies.

    Arguments:
        role: "live" or "search".
        queue: the queue of its jobs.
        source: what the worker loads.
        limits: the time limits.
    """

    def __init__(self, role: str, queue: Queue, source: Source, limits: Limits) -> None:
        super().__init__(daemon=True, name=f"cfopt {role}")
        self.role = role
        self.job: Job | None = None
        self.pipelines: list[dict[str, Any]] = []
        self.faults: dict[str, str] = {}
        self.loaded = threading.Event()
        self._queue, self._source, self._limits = queue, source, limits
        self._process: Process | None = None
        self._lost: dict[str, str] = {}
        self._leaving = threading.Event()

    def run(self) -> None:
        """Take jobs until the server stops."""
        while not self._leaving.is_set():
            # Not for long, so that one that dies while idle is replaced before it is needed.
            job = self._queue.take(_IDLE) if self._ready() else None
            process = self._ready()
            if job is not None and process is not None:
                self._do(process, job)

    def _do(self, process: Process, job: Job) -> None:
        self.job = job
        stop = process.begin()
        try:
            if job.start(stop):
                job.finish(process.call(job.command, job.arguments, job.seconds, job.tell))
        except CallError as error:
            job.fail(error)
        # Any: whatever a broken worker says, this thread must live to replace it.
        except Exception as error:
            process.kill()
            job.fail(DiedError(f"The worker process gave a broken answer: {error}"))
        finally:
            self.job = None

    def _ready(self) -> Process | None:
        """The worker, a new one if need be; None if the server stops."""
        pause, deaths = _PAUSE, 0
        while not self._leaving.is_set():
            if self._process is not None and self._process.alive:
                return self._process
            self.loaded.clear()
            if self._process is not None:
                self._process.close()
                self._process = None
                # A signal to all processes may end this one a moment before the server knows.
                if self._leaving.wait(_MOMENT):
                    return None
            try:
                self._process = Process(self._source, self._limits.grace_seconds)
                if self._leaving.is_set():  # while it was started
                    self._process.close()
                    return None
                self.pipelines, faults = self._process.load(self._limits.loading_seconds)
            # Any: memory, processes or files may have run out; this thread must live to try again.
            except Exception:
                deaths += 1
                if self._source.config is not None and deaths >= _DEATHS:
                    # The user's own code is the likely reason: the others must work without it.
                    self._source = replace(self._source, config=None)
                    self._lost = {OWN: _DEADLY}
                self.faults = self._lost or {"workers": _DEADLY}
                self._leaving.wait(pause)
                pause = min(2 * pause, _LONGEST)
            else:
                self.faults = faults | self._lost
                self.loaded.set()
                return self._process
        return None

    @property
    def state(self) -> str:
        """What it is doing."""
        return "loading" if not self.loaded.is_set() else "busy" if self.job else "idle"

    @property
    def pid(self) -> int | None:
        """The id of its process."""
        return None if self._process is None else self._process.pid

    def expect_end(self) -> None:
        """Start no more workers: the server is about to end."""
        self._leaving.set()

    def leave(self) -> None:
        """End the worker, and then itself."""
        self.expect_end()
        if self._process is not None:
            self._process.kill()


class Call:
    """A quick call, awaited by a request."""

    def __init__(self, command: str, arguments: dict[str, Any], seconds: float) -> None:
        self.command, self.arguments, self.seconds = command, arguments, seconds
        self.answer: Future[dict[str, Any]] = Future()

    def start(self, stop: Callable[[], None]) -> bool:
        """Wanted as long as somebody waits."""
        return self.answer.set_running_or_notify_cancel()

    def tell(self, news: dict[str, Any]) -> None:
        """Quick calls have no news."""

    def finish(self, answer: dict[str, Any]) -> None:
        """Return the answer."""
        self.answer.set_result(answer)

    def fail(self, error: CallError) -> None:
        """Return the reason."""
        if not self.answer.cancelled():
            self.answer.set_exception(error)


class Pool:
    """All workers: one for quick calls, the others for searches.

    Arguments:
        source: what they load.
        limits: the limits of the server.
    """

    def __init__(self, source: Source, limits: Limits) -> None:
        self.own = source.config is not None
        self.stopping = False
        self._calls, self.searches = Queue(limits.live_queue), Queue(limits.queue)
        self.live = WorkerThread("live", self._calls, source, limits)
        searching = [
            WorkerThread("search", self.searches, source, limits) for _ in range(limits.workers)
        ]
        self.workers = [self.live, *searching]

    def start(self) -> None:
        """Let the workers load; calls wait for them."""
        for worker in self.workers:
            worker.start()

    def call(
        self, command: str, arguments: dict[str, Any], seconds: float
    ) -> Future[dict[str, Any]]:
        """A quick call's answer to come, or `QueueFullError`."""
        call = Call(command, arguments, seconds)
        self._calls.put(call)
        return call.answer

    def expect_end(self) -> None:
        """Start no more workers, and let nothing be waited for; at once, also within a signal."""
        self.stopping = True
        for worker in self.workers:
            worker.expect_end()

    def stop(self) -> None:
        """End all workers, and whatever waits for them."""
        self.expect_end()
        for queue in (self._calls, self.searches):
            queue.close()
        for worker in self.workers:
            worker.leave()
        for worker in self.workers:
            # One that still waits for its process to start is not waited for: it ends by itself.
            if worker.pid is not None:
                worker.join(5)
