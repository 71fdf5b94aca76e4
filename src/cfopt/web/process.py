"""One worker process as the server sees it: it answers a call, or it is ended."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from cfopt.web import worker

#: Seconds between two looks at whether a silent process is still there.
_LOOK = 0.2


class CallError(Exception):
    """A call without an answer; the text says why."""


class RefusedError(CallError):
    """The input cannot be used."""


class FailedError(CallError):
    """The pipeline raised an error."""


class TooSlowError(CallError):
    """The time was up."""


class DiedError(CallError):
    """The worker ended in the middle of it."""


class CancelledError(CallError):
    """It was no longer wanted."""


@dataclass(frozen=True)
class Source:
    """What workers load.

    Arguments:
        config: the user's own configuration, from the command line.
        trusted: whether what it names may execute code.
        pixels: the most that an image may have.
    """

    config: Path | None = None
    trusted: bool = False
    pixels: int = 2048 * 2048


def _context() -> Any:
    """How processes are started: never forked from the server itself, which has threads.

    Where it can be, from a process of their own that has loaded what they share.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cfopt.web.ignore_sigint", "cfopt.web.preload"])
    return context


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Processes that this thread starts within get no Ctrl-C before they can ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Started first: to start it unblocks the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Process:
    """A worker process.

    Calls come from one thread; what stops them, and `kill`, may come from any.

    Arguments:
        source: what it loads.
        grace: the seconds that it has to stop by itself.
    """

    def __init__(self, source: Source, grace: float) -> None:
        context = _context()
        self._connection, theirs = context.Pipe()
        config = None if source.config is None else str(source.config)
        arguments = (theirs, config, source.trusted, source.pixels)
        self._process = context.Process(target=worker.main, args=arguments, daemon=True)
        with _undisturbed():
            self._process.start()
        theirs.close()
        self._grace, self._number = grace, 0
        # Known from the connection a moment before the system reports that a process has ended.
        self._broken = False
        #: Whether it leads a group, of itself and all that it starts.
        self._leads = False
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._why: CallError | None = None
        self._killer: threading.Timer | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process."""
        pid: int | None = self._process.pid
        return pid

    def load(self, seconds: float) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Wait until it is ready; what its pipelines are, and why others cannot be loaded."""
        timer = threading.Timer(seconds, self.kill)
        timer.start()
        try:
            self._leads = self._receive()["group"]
            message = self._receive()
        finally:
            timer.cancel()
        return message["ready"], message["faults"]

    def begin(self) -> Callable[[], None]:
        """Announce the next call, and return what stops it: by itself, or by force.

        It stops no other call, however late it comes.
        """
        with self._lock:
            self._number += 1
            self._why = None
            number = self._number
        return lambda: self._end(number, CancelledError("It was cancelled."))

    def call(
        self,
        command: str,
        arguments: dict[str, Any],
        seconds: float,
        on_news: Callable[[dict[str, Any]], None],
    ) -> dict[str, Any]:
        """Answer a call that was begun, or raise a `CallError`; then see `alive`.

        Arguments:
            command, arguments: what to pass to `Work.do`.
            seconds: the most that it may take.
            on_news: called with each report.
        """
        number = self._number
        slow = TooSlowError(f"It took longer than {seconds:g} s and was stopped.")
        watch = threading.Timer(seconds, self._end, (number, slow))
        watch.daemon = True
        watch.start()
        try:
            if self._why is not None:  # stopped between the two
                raise self._why
            self._send({"number": number, "command": command, "arguments": arguments})
            while True:
                message = self._receive()
                if "news" not in message:
                    return _answer(message)
                on_news(message["news"])
        except (DiedError, CancelledError):
            # If it was ended on purpose, that is the reason.
            raise (self._why or DiedError("The worker process died.")) from None
        finally:
            watch.cancel()
            with self._lock:
                self._number += 1  # whoever comes too late ends nothing
                if self._killer is not None:
                    self._killer.cancel()

    def _end(self, number: int, why: CallError) -> None:
        with self._lock:
            if number != self._number or self._why is not None:
                return
            self._why = why
            self._killer = threading.Timer(self._grace, self._kill_if, (number,))
            self._killer.daemon = True
            self._killer.start()
        # Where the call itself is not sent yet, the process does not read: it will be killed.
        if self._sending.acquire(blocking=False):
            with suppress(OSError):
                self._connection.send_bytes(json.dumps({"stop": number}).encode())
            self._sending.release()

    def _kill_if(self, number: int) -> None:
        with self._lock:
            if number == self._number:
                self.kill()

    def kill(self) -> None:
        """End the process at once, and all that it started."""
        self._broken = True
        if self._leads:
            # Also where the process itself has ended: its children may live.
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    @property
    def alive(self) -> bool:
        """Whether it can take another call."""
        return not self._broken and bool(self._process.is_alive())

    def close(self) -> None:
        """End the process and give back what it holds."""
        self.kill()
        # Its number may now be given to another.
        self._leads = False
        self._process.join()
        self._connection.close()

    def _send(self, message: dict[str, Any]) -> None:
        try:
            with self._sending:
                self._connection.send_bytes(json.dumps(message).encode())
        except OSError as error:
            self._broken = True
            raise DiedError("The worker process died.") from error

    def _receive(self) -> dict[str, Any]:
        try:
            # Whoever it started may hold the connection, so that its end alone is not heard.
            while not self._connection.poll(_LOOK):
                if not self.alive and not self._connection.poll():
                    raise EOFError
            message: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            self._broken = True
            raise DiedError("The worker process died.") from error
        return message


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    if "done" in message:
        done: dict[str, Any] = message["done"]
        return done
    for outcome, error in (("refused", RefusedError), ("failed", FailedError)):
        if outcome in message:
            raise error(message[outcome])
    raise CancelledError("It was cancelled.")
