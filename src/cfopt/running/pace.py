"""How far a long run is, and how long it will still take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

#: The part of the whole for which the jobs' own estimates are trusted as much as the clock.
_TRUST = 0.05


class Pace:
    """The share that is done, and the time left, of jobs whose durations were only estimated.

    The time left is `rest (elapsed + p) / (done + p)`, where rest and done are estimated seconds
    and p is 5% of the whole: the first small job does not upset the forecast, later ones correct
    it. What was done before is no part of it.

    Arguments:
        seconds: estimates, of the jobs to do; any unit of work will do where they are not trusted.
        clock: seconds since whenever.
        trust: the part of the whole that stands for p.
    """

    def __init__(
        self,
        seconds: Sequence[float],
        clock: Callable[[], float] = time.monotonic,
        trust: float = _TRUST,
    ) -> None:
        self._trust = trust
        self._whole, self._done, self._running = float(sum(seconds)), 0.0, 0.0
        self._clock, self._start = clock, clock()
        self._note()

    def moved(self, seconds: float) -> None:
        """So many of the running job's estimated seconds are done."""
        # Never back: the steps of some searches are counted anew at each stage.
        self._running = max(self._running, seconds)
        self._note()

    def finished(self, seconds: float) -> None:
        """The running job is done."""
        self._done, self._running = self._done + seconds, 0.0
        self._note()

    def dropped(self, seconds: float) -> None:
        """A job will not be done; the running one, or one that needs it."""
        self._whole, self._running = self._whole - seconds, 0.0
        self._note()

    @property
    def share(self) -> float:
        """The part that is done, from 0 to 1."""
        done = self._done + self._running
        return done / self._whole if done < (1 - 1e-9) * self._whole else 1.0

    @property
    def rate(self) -> float:
        """How much is done in a second, on average; 0 where nothing is yet."""
        elapsed = self.elapsed
        return (self._done + self._running) / elapsed if elapsed > 0 else 0.0

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return self._clock() - self._start

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


class Lines:
    """A line for what is finished: for files and pipes; a context manager around the run.

    Arguments:
        console: where to.
        pace: of what is to do.
        total: how many pieces are to do.
        noun: what a piece is called.
        rated: whether to tell how many pieces are done in a second.
        every: seconds between two lines, at least; the last one is told in any case.
    """

    def __init__(
        self,
        console: Console,
        pace: Pace,
        total: int,
        *,
        noun: str = "job",
        rated: bool = False,
        every: float = 0.0,
    ) -> None:
        self.console, self.pace, self.total, self.noun = console, pace, total, noun
        self.count = 0
        self._rated, self._every, self._told = rated, every, -math.inf

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left open."""

    def started(self, name: str) -> None:
        """A job begins: nothing is said of it yet."""

    def moved(self) -> None:
        """The pace has changed within a job: nothing is said of it either."""

    def finished(self, name: str, seconds: float, pieces: int = 1) -> None:
        """Some pieces are done, after so many seconds: the share, the time left, and their name."""
        self.count += pieces
        if self.pace.elapsed - self._told < self._every and self.count < self.total:
            return
        self._told = self.pace.elapsed
        self.say(
            f"{_percent(self.pace)} done, {self.count} of {self.total} {self.noun}s in "
            f"{self.times()}: {name} ({duration(seconds)})"
        )

    def times(self) -> str:
        """How long it took and will take, and the rate where it is told."""
        rate = f"{self.pace.rate:.3g} {self.noun}s/s, " if self._rated else ""
        return f"{duration(self.pace.elapsed)}, {rate}about {duration(self.pace.left)} left"

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self.console.print(line, soft_wrap=True, highlight=False, markup=False)


class Bar(Lines):
    """A bar at the foot of the terminal, with what is running."""

    def __init__(
        self,
        console: Console,
        pace: Pace,
        total: int,
        *,
        noun: str = "job",
        rated: bool = False,
        every: float = 0.0,
    ) -> None:
        super().__init__(console, pace, total, noun=noun, rated=rated, every=every)
        name = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._progress = Progress(
            BarColumn(20),
            _Times(self),
            TextColumn("{task.description}", markup=False, table_column=name),
            console=console,
            refresh_per_second=2,
            expand=True,
        )
        self._bar = self._progress.add_task("", total=1.0)

    def __enter__(self) -> Lines:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the bar as it stands."""
        self._progress.stop()

    def started(self, name: str) -> None:
        """Name what is running."""
        self._progress.update(self._bar, description=name)

    def moved(self) -> None:
        """Move the bar."""
        self._progress.update(self._bar, completed=self.pace.share)

    def finished(self, name: str, seconds: float, pieces: int = 1) -> None:
        """Count the pieces."""
        self.count += pieces
        self._progress.update(self._bar, completed=self.pace.share, description="")


class _Times(ProgressColumn):
    """Share, pieces, time elapsed and time left."""

    def __init__(self, bar: Bar) -> None:
        super().__init__(Column(no_wrap=True))
        self._of = bar

    def render(self, task: Task) -> Text:
        """As the pace says."""
        of = self._of
        return Text(f"{_percent(of.pace)} {of.count}/{of.total} {of.noun}s, {of.times()}")


def _percent(pace: Pace) -> str:
    # Rounded down: 100% is said of what is done.
    return f"{int(100 * pace.share + 1e-9):3}%"  # 29 of 100 is not 28%
