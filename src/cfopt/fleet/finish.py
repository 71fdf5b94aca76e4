"""What is made of all parts: JSON lines, pictures, the report, the manifest; in one pass."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from cfopt.errors import InputError
from cfopt.fleet.finished import REPORT
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.read_back import from_table
from cfopt.fleet.table import PartFile
from cfopt.fleet.work import Work
from cfopt.names import counted
from cfopt.report.tally import Tally, shuffled
from cfopt.report.whole import lines, whole
from cfopt.result.explanation import Explanation
from cfopt.result.json_lines import to_lines
from cfopt.result.status import Status
from cfopt.running.garbage import collected_at_the_end
from cfopt.running.heartbeat import Heartbeat
from cfopt.running.pace import Display, Pace
from cfopt.storage.files import write_in_pieces, write_whole

#: Up to this many rows, the report has all; of more, a sample of this size from each status.
_ALL, _SAMPLE = 2000, 100
#: More numbers than this are not written as JSON: about 20 bytes each.
_JSON = 20_000_000
JSON_LINES = "explanations.jsonl"
#: Seconds between two lines where there is no terminal.
_EVERY = 5.0


@dataclass(eq=False)
class Gathered:
    """What one pass over the parts keeps: counts, and some rows.

    Arguments:
        most: how many rows are kept whole; of more, a sample.
        tally: the counts.
        rows: one row, or several in a row, by the number of the first.
        files: what the files of parts were like.
    """

    most: int
    tally: Tally = field(default_factory=Tally)
    rows: dict[int, Explanation] = field(default_factory=dict)
    files: dict[int, PartFile] = field(default_factory=dict)
    _sample: dict[Status, dict[int, int]] = field(default_factory=dict)

    def add(self, e: Explanation, numbers: range) -> None:
        """Count a part, and keep some of its rows."""
        rows = np.arange(numbers.start, numbers.stop)
        self.tally.add(e, rows)
        if self.most <= _ALL:
            self.rows[numbers.start] = e
            return
        keys = shuffled(rows).tolist()
        for status in {*e.status}:
            before = self._sample.get(status, {})
            there = {i: keys[i] for i, one in enumerate(e.status) if one is status}
            # The rows that come first in a shuffled order, whatever the order of the parts.
            first = sorted([*before.values(), *there.values()])[:_SAMPLE][-1]
            kept = {row: key for row, key in before.items() if key <= first}
            for row in before.keys() - kept.keys():
                del self.rows[row]
            new = {i: key for i, key in there.items() if key <= first}
            self.rows |= {int(rows[i]): e[i] for i in new}
            self._sample[status] = kept | {int(rows[i]): key for i, key in new.items()}


def summarise(folder: RunFolder, parts: Sequence[int], console: Console) -> None:
    """Write report and pictures of the parts that are there.

    Arguments:
        folder: the folder of the run.
        parts: the numbers of the parts.
        console: where to show how far it is, and what is written.
    """
    with Heartbeat(console, lambda: "Reading the parts.") as alive:
        gathered = _gather(folder, parts, json_lines=False)
        missing = len(folder.work.parts) - len(parts)
        if missing:
            done = f"{gathered.tally.rows:,} of {len(folder.work):,} rows are done"
            alive.say(f"{done}; {counted(missing, 'part')} missing.")
    _write(folder, gathered, console, [])


def finish(folder: RunFolder, console: Console) -> None:
    """Write all results of a run whose parts are all there.

    Arguments:
        folder: the folder of the run.
        console: where to show how far it is, and what is written.
    """
    parts = range(len(folder.work.parts))
    written = _json_numbers(folder) <= _JSON
    with Heartbeat(console, lambda: "Reading all parts.") as alive:
        gathered = _gather(folder, parts, json_lines=written)
        if not written:
            alive.say(
                f"{JSON_LINES} is left out: it would hold {_json_numbers(folder):,} numbers. All "
                f"of them are in {folder.data}."
            )
    _write(folder, gathered, console, [JSON_LINES] if written else [])
    folder.work.files.verify()
    settled = sum(gathered.tally.status[one] for one in Status if one.is_settled)
    counts = {str(one): gathered.tally.status[one] for one in Status if gathered.tally.status[one]}
    folder.succeed(
        gathered.files, {"settled": settled, "statuses": counts, **folder.work.identity()}
    )


def _json_numbers(folder: RunFolder) -> int:
    problem, x = folder.work.pipeline.problem, folder.work.first.contexts.x
    return len(folder.work) * (3 * x[0].numel() + 5 * problem.num_costs)


def _gather(folder: RunFolder, parts: Sequence[int], *, json_lines: bool) -> Gathered:
    total = sum(len(folder.work.parts[k]) for k in parts)
    gathered = Gathered(total)
    if not json_lines:
        for _ in _pass(folder, parts, gathered):
            pass
        return gathered

    def pieces() -> Iterator[bytes]:
        first = True
        for e in _pass(folder, parts, gathered):
            yield "".join(to_lines(e, first)).encode()
            first = False

    write_in_pieces(folder.path / JSON_LINES, pieces())
    return gathered


def _pass(folder: RunFolder, parts: Sequence[int], gathered: Gathered) -> Iterator[Explanation]:
    """Each part in turn, counted and checked against what was written."""
    known = folder.noted().ended
    for k in parts:
        e, file = read_checked(folder, k, known.get(k))
        gathered.add(e, folder.work.parts[k])
        gathered.files[k] = file
        yield e


def read_checked(
    folder: RunFolder, part: int, known: PartFile | None = None
) -> tuple[Explanation, PartFile]:
    """A part and what is known of its file; InputError where that is not as it was written.

    Arguments:
        folder: the folder of the run.
        part: the number of the part.
        known: what the file was like when it was written, if that is known.
    """
    path, rows = folder.file(part), folder.work.parts[part]
    try:
        data = path.read_bytes()
        file = PartFile(len(rows), len(data), hashlib.sha256(data).hexdigest())
        if known is not None and known.digest != file.digest:
            raise ValueError("its content is not what was written")
        return from_table(pq.read_table(pa.BufferReader(data)), folder.work, rows), file
    # Any: a damaged file may raise anything.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"The rows in {path} cannot be read: {reason}. Delete it to compute them again."
        ) from error


def _write(folder: RunFolder, gathered: Gathered, console: Console, before: list[str]) -> None:
    """Write report and pictures, with a bar of their own: drawing may take long.

    Arguments:
        folder: the folder of the run.
        gathered: what is known of all rows, and some of them.
        console: where to show how far it is, and what is written.
        before: the files that are already written.
    """
    tally = gathered.tally
    if not tally.rows:
        console.print("No part is done yet.", highlight=False)
        return
    sampled = tally.rows > _ALL
    if sampled:
        for row in whole(tally).rows:
            if row not in gathered.rows:
                gathered.rows[row] = _row(folder, row)
    kept = sorted(gathered.rows.items())
    e = Explanation.concat([one for _, one in kept])
    numbers = [first + i for first, one in kept for i in range(len(one))]
    files: dict[str, Callable[[], str]] = {name: lambda: "" for name in before}
    files[REPORT] = lambda: _report(folder, e, numbers, tally if sampled else None)
    pictures = _pictures(e, numbers, folder.work.pictures, folder.path / "pictures")
    files |= {path.name: _drawing(e, i, path) for i, path in pictures.items()}
    pace = Pace([1.0] * len(files))
    with Display(console, pace, len(files), noun="file", every=_EVERY) as display:
        for name, write in files.items():
            display.started(name)
            start = time.perf_counter()
            with collected_at_the_end():
                said = write()
            pace.finished(1.0)
            display.finished(name, time.perf_counter() - start)
            if said:
                display.say(said)
        display.say("\n".join(lines(tally)) if sampled else e.summary())
        report = folder.path / REPORT
        display.say(f"{report} is the report; everything else is in {folder.path}.")


def _report(folder: RunFolder, e: Explanation, numbers: list[int], tally: Tally | None) -> str:
    from cfopt.report import write_report

    work = folder.work
    write_report(
        e,
        folder.path / REPORT,
        title=work.title,
        seconds=folder.noted().seconds,
        settings=work.described(),
        measures=None if tally is not None else _measures(e, work),
        tally=tally,
        numbers=numbers,
    )
    return ""


def _measures(e: Explanation, work: Work) -> pd.DataFrame | None:
    """The measures of the field; those that need further solves of some answers only."""
    from cfopt.result.measures import evaluate

    rows = _spread([i for i, s in enumerate(e.status) if s.is_found], work.measured)
    known = work.first.question.reference
    if known is not None and (len(known) < 2 or find_spec("sklearn") is None):
        known = None
    if rows:
        return evaluate(e[rows], pipeline=work.pipeline, reference=known)
    if e.x.dim() > 2:  # pixels are not counted as features
        return None
    return evaluate(replace(e, problem=None), reference=known)


def _row(folder: RunFolder, row: int) -> Explanation:
    starts = np.array([rows.start for rows in folder.work.parts])
    part = int(np.searchsorted(starts, row, side="right")) - 1
    e, _ = read_checked(folder, part)
    return e[row - folder.work.parts[part].start]


def _pictures(e: Explanation, numbers: Sequence[int], most: int, folder: Path) -> dict[int, Path]:
    """The rows that are drawn, and their files; those of an earlier run are taken away."""
    drawn = _drawn(e, most)
    if drawn:
        folder.mkdir(exist_ok=True)
    wanted = {i: folder / f"row-{numbers[i]:06}.png" for i in drawn}
    for path in set(folder.glob("row-*.png")) - set(wanted.values()):
        path.unlink()  # of an earlier run that was to draw more
    return wanted


def _drawing(e: Explanation, row: int, path: Path) -> Callable[[], str]:
    """Draws one row; if that fails, it says so, and nothing else is lost."""

    def write() -> str:
        try:
            figure = e[row].plot()
            from cfopt.plots.png import png  # there, as it was drawn

            image = png(figure)
        # Any: names and numbers of all kinds are drawn here.
        except Exception as error:
            return f"Row {e.label(row)} could not be drawn: {' '.join(str(error).split())}"
        else:
            write_whole(path, image)
        return ""

    return write


def _drawn(e: Explanation, most: int) -> list[int]:
    """Which rows are drawn: spread over those that have something to show."""
    return _spread([i for i, s in enumerate(e.status) if s is not Status.REJECTED], most)


def _spread(rows: list[int], most: int) -> list[int]:
    """At most `most` of the rows, spread evenly over all."""
    return rows if len(rows) <= most else [rows[k * len(rows) // most] for k in range(most)]
