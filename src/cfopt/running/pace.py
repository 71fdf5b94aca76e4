"""How far a long run is, and how long it will still take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, RenderableColumn, TextColumn
from rich.table import Column
from rich.text import Text

from cfopt.running.heartbeat import Heartbeat


class Pace:
    """The fraction that is done of some pieces of work, and the time left.

    The time left is `rest (elapsed + p) / (done + p)`, where rest and done are amounts of work.
    Amounts that are themselves estimates of seconds are trusted to a degree: with p as a fraction
    of the whole, a small first piece does not upset the forecast, and later ones correct it.

    Arguments:
        amounts: the amount of work in each piece to do.
        clock: seconds since any fixed time.
        trust: p, as a fraction of the whole.
    """

    def __init__(
        self,
        amounts: Sequence[float],
        clock: Callable[[], float] = time.monotonic,
        trust: float = 0.0,
    ) -> None:
        self._whole, self._done, self._running = float(sum(amounts)), 0.0, 0.0
        self._trust, self._clock, self._start = trust, clock, clock()
        self._note()

    def begin(self) -> None:
        """Work begins only now: what went before says nothing about its pace."""
        self._start = self._clock()
        self._note()

    def moved(self, amount: float) -> None:
        """This amount of the running piece is done."""
        # Never back: the steps of some searches are counted again at each stage.
        self._running = max(self._running, amount)
        self._note()

    def finished(self, amount: float) -> None:
        """The running piece is done."""
        self._done, self._running = self._done + amount, 0.0
        self._note()

    def dropped(self, amount: float) -> None:
        """A piece will not be done: the running one, or one that needs it."""
        self._whole, self._running = self._whole - amount, 0.0
        self._note()

    @property
    def share(self) -> float:
        """The fraction that is done, from 0 to 1."""
        done = self._done + self._running
        return done / self._whole if done < (1 - 1e-9) * self._whole else 1.0

    @property
    def rate(self) -> float:
        """The amount done in a second, on average; 0 where nothing is yet."""
        elapsed = self.elapsed
        return (self._done + self._running) / elapsed if elapsed > 0 else 0.0

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return self._clock() - self._start

    @property
    def known(self) -> bool:
        """Whether anything is known about the time left: nothing, before something is done."""
        return self._done + self._running + self._trust > 0

    @property
    def left(self) -> float:
        """About how many seconds are left."""
        return max(0.0, self._left - (self._clock() - self._noted))

    def _note(self) -> None:
        done, trust = self._done + self._running, self._trust * self._whole
        rest = max(0.0, self._whole - done)
        speed = (self.elapsed + trust) / (done + trust) if done + trust > 0 else 1.0
        self._left, self._noted = rest * speed, self._clock()


def duration(seconds: float) -> str:
    """Seconds in words: "40 s", "12 min", "3 h 05 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


def _speed(rate: float) -> str:
    """Three digits, and all of a whole number: "0.123", "45.6", "1,290"."""
    return f"{rate:.3g}" if rate < 100 else f"{rate:,.0f}"


@dataclass(eq=False)
class Display:
    """How far a run is: a bar in a terminal, elsewhere lines, at least one every few seconds.

    A context manager around the run.

    Arguments:
        console: where to print.
        pace: how far the run is.
        total: how many pieces there are to do.
        noun: what a piece is called.
        rated: whether to say how many pieces are done in a second.
        every: the least number of seconds between two lines; the last line is always printed.
        silence: the most seconds without a line where there is no bar.
    """

    console: Console
    pace: Pace
    total: int
    noun: str = "job"
    rated: bool = False
    every: float = 0.0
    silence: float = 10.0

    def __post_init__(self) -> None:
        self.count, self._printed, self._running = 0, -math.inf, ""
        self._heart = Heartbeat(self.console, self._now, self.silence, lambda: self.pace.elapsed)
        self._progress = Progress(
            BarColumn(20),
            RenderableColumn(self, table_column=Column(no_wrap=True)),
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
            console=self.console,
            refresh_per_second=2,
            expand=True,
            disable=not self.console.is_terminal,
        )
        self._bar = self._progress.add_task("", total=1.0)

    def __enter__(self) -> Display:
        self._progress.start()
        self._heart.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the bar as it stands."""
        self._heart.__exit__(*error)
        self._progress.stop()

    def beat(self) -> None:
        """Say how far the run is, if there is no bar and nothing was said for a while."""
        self._heart.beat()

    def __rich__(self) -> Text:
        # Asked for at each refresh, so that the time left counts down within a job.
        return Text(
            f"{self._percent()} {self.count:,}/{self.total:,} {self.noun}s, {self._times()}"
        )

    def started(self, name: str) -> None:
        """Name what is running, beside the bar."""
        self._running = name
        self._progress.update(self._bar, description=name)

    def moved(self) -> None:
        """Move the bar to where the pace is."""
        self._progress.update(self._bar, completed=self.pace.share)

    def finished(self, name: str, seconds: float, pieces: int = 1) -> None:
        """Count pieces and the seconds they took, and print a line if there is no bar."""
        self.count, self._running = self.count + pieces, ""
        self._progress.update(self._bar, completed=self.pace.share, description="")
        early = self.pace.elapsed - self._printed < self.every and self.count < self.total
        if self.console.is_terminal or early:
            return
        self._printed = self.pace.elapsed
        self.say(f"{self._so_far()}: {name} ({duration(seconds)})")

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._heart.say(line)

    def _now(self) -> str:
        running = f": {self._running}" if self._running else ""
        return f"{self._so_far()}{running}"

    def _so_far(self) -> str:
        done = f"{self._percent()} done, {self.count:,} of {self.total:,} {self.noun}s"
        return f"{done} in {self._times()}"

    def _times(self) -> str:
        elapsed = duration(self.pace.elapsed)
        if not self.pace.known:
            return elapsed
        rate = f"{_speed(self.pace.rate)} {self.noun}s/s, " if self.rated else ""
        return f"{elapsed}, {rate}about {duration(self.pace.left)} left"

    def _percent(self) -> str:
        # Rounded down: only what is done is said to be 100%. And 29 of 100 is not 28%.
        return f"{int(100 * self.pace.share + 1e-9):3}%"
