"""One part, explained and kept: what every process of a fleet does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import MappingProxyType

from cfopt.fleet.answers import explain_part
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.table import write_part
from cfopt.fleet.work import OnProgress
from cfopt.running.garbage import seldom_collected


def keep_part(
    folder: RunFolder,
    part: int,
    lethal: Mapping[int, str] = MappingProxyType({}),
    on_batch: Callable[[int], None] | None = None,
    on_progress: OnProgress | None = None,
) -> float:
    """Explain a part and write it; how many seconds that took. ChangedError if its files change.

    Arguments:
        folder: the folder of the run.
        part: the number of the part.
        lethal: rows that are not to be touched, and what is said of them.
        on_batch: called with the number of rows of each batch that is done.
        on_progress: called with each report of the search.
    """
    start, cpu = time.perf_counter(), time.process_time()
    rows = folder.work.parts[part]
    folder.note(part, "begun")
    with seldom_collected():
        found = explain_part(folder.work, rows, lethal, on_batch, on_progress)
        folder.work.files.check()
        written = write_part(folder.file(part), found, rows)
    seconds = time.perf_counter() - start
    spent = time.process_time() - cpu
    folder.note(part, "ended", seconds=seconds, cpu=spent, **asdict(written))
    return seconds
