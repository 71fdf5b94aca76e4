"""Signs of life where there is no terminal: a line at least every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console

#: Seconds between two looks at whether a line is due.
_TICK = 1.0


@dataclass(eq=False)
class Heartbeat:
    """Says what is going on whenever nothing was said for a while; a context manager around it.

    In a terminal, where bars move, it says nothing.

    Arguments:
        console: where to print.
        words: what is going on.
        silence: the most seconds without a line.
        clock: seconds since any fixed time.
    """

    console: Console
    words: Callable[[], str]
    silence: float = 10.0
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._said, self._ended = self.clock(), threading.Event()

    def __enter__(self) -> Heartbeat:
        if not self.console.is_terminal:
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()

    def _tick(self) -> None:
        while not self._ended.wait(_TICK):
            self.beat()

    def beat(self) -> None:
        """Say what is going on, if it is due."""
        if not self.console.is_terminal and self.clock() - self._said >= self.silence:
            self.say(self.words())

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._said = self.clock()
        self.console.print(line, soft_wrap=True, highlight=False, markup=False)
