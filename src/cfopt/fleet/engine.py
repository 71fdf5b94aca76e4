"""Ways to have parts explained: in this process, and what all of them report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from cfopt.engine.progress import Progress
from cfopt.errors import ChangedError, StorageError, in_words
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.part import keep_part

#: Rows that are not to be touched, and what is said of each.
Lethal: TypeAlias = Mapping[int, str]


class Listener(Protocol):
    """What hears how far a run is."""

    def started(self, part: int) -> None:
        """A part has begun."""

    def moved(self, rows: float) -> None:
        """Rows of the running batch are done, where only one batch runs."""

    def counted(self, part: int, rows: int) -> None:
        """More rows of a part are done; a negative number if they were lost."""

    def failed(self, part: int, reason: str) -> None:
        """A part could not be explained, and is left out."""


class Engine(ABC):
    """A way to have parts explained."""

    @abstractmethod
    def explain(self, folder: RunFolder, parts: Mapping[int, Lethal], listener: Listener) -> None:
        """Explain parts and keep them.

        Arguments:
            folder: where they are kept.
            parts: the numbers of the parts, with the rows of each that are not to be touched.
            listener: what hears how far the run is.
        """


class InThisProcess(Engine):
    """One part after the other, without another process."""

    def explain(self, folder: RunFolder, parts: Mapping[int, Lethal], listener: Listener) -> None:
        """Explain parts and keep them."""
        for part, lethal in parts.items():
            listener.started(part)
            batch = min(folder.work.batch, len(folder.work.parts[part]))

            def report(progress: Progress, batch: int = batch) -> None:
                done = 1 - progress.running / max(progress.total, 1)
                listener.moved(batch * min(max(done, 0.0), 1.0))

            def count(rows: int, part: int = part) -> None:
                listener.counted(part, rows)

            try:
                keep_part(folder, part, lethal, count, report)
            except (StorageError, OSError, ChangedError):  # others would meet it too
                raise
            # Any: it may be this part's fault alone.
            except Exception as error:
                listener.failed(part, in_words(error))
