"""explain_dataset(): every row of a table, in parts that are kept, from Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.console import Console

from cfopt.errors import InputError
from cfopt.fleet.dataset_work import Asking, DatasetWork
from cfopt.fleet.finish import read_checked
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.part import keep_part
from cfopt.fleet.run import KIND, Orders, room_for, run
from cfopt.fleet.source import ContextSource
from cfopt.fleet.work import Work
from cfopt.generative.protocol import GenerativeModel
from cfopt.pipeline import Pipeline
from cfopt.question import Criterion
from cfopt.question.features import Features
from cfopt.question.plausibility import Plausibility
from cfopt.question.prices import Prices
from cfopt.question.proximity import L2, Proximity
from cfopt.question.robustness import Robustness
from cfopt.report.tally import Tally
from cfopt.report.whole import lines
from cfopt.result.explanation import Explanation
from cfopt.running.folder import claim
from cfopt.running.lock import locked
from cfopt.running.threads import suited_threads
from cfopt.search import Auto, Search
from cfopt.storage.digests import digest_json
from cfopt.storage.rows import Rows, RowsInMemory, open_rows
from cfopt.storage.watched import Watched


def explain_dataset(
    data: Any,
    pipeline: Pipeline,
    criterion: Asking,
    folder: str | Path,
    *,
    label: str | None = None,
    generative: GenerativeModel | None = None,
    proximity: Proximity | None = None,
    plausibility: Plausibility | None = None,
    search: Search | None = None,
    features: Features | None = None,
    reference: Any = None,
    margin: float = 0.0,
    time_limit: float | None = None,
    robust: Robustness | Sequence[Robustness] | None = None,
    options: int = 1,
    prices: Prices | None = None,
    batch: int | None = None,
    part: int | None = None,
    title: str = "",
) -> Answers:
    """Every row of a table, explained in parts when they are asked for, and kept in a folder.

    Nothing is explained yet: iterate over what is returned, or call its `run`.

    Arguments:
        data: a CSV, Parquet or .npy file, a folder of Parquet files, the address of either in an
            object store, such as s3://bucket/orders, or a DataFrame or array.
        pipeline: predictor and problem; picklable, where other processes explain.
        criterion: the same for all rows, or with an alternative for each; or a function that takes
            some rows of the table, as they are read, and returns the criterion of these.
        folder: where parts are kept. What is there already is not explained again; a folder of
            another question or another table is refused.
        label: the column that says what rows are called.
        generative, proximity, plausibility, search, features: as for `explain`.
        reference, margin, robust, options, prices: the same.
        time_limit: seconds for each batch.
        batch: rows to explain at once, at most.
        part: rows that are kept together in one file, at most.
        title: what the report is called.
    """
    if not isinstance(pipeline, Pipeline):
        raise InputError(f"explain_dataset needs a Pipeline, got {pipeline!r:.80}.")
    if not isinstance(criterion, Criterion) and not callable(criterion):
        raise InputError(
            "explain_dataset needs a criterion such as Epsilon(0.1), or a function that returns "
            f"the criterion of some rows; got {criterion!r:.80}."
        )
    common = {
        "margin": margin,
        "proximity": L2() if proximity is None else proximity,
        "plausibility": plausibility,
        "search": Auto() if search is None else search,
        "features": Features() if features is None else features,
        "generative": generative,
        "reference": reference,
        "time_limit": time_limit,
        "robust": Robustness.of(robust),
        "options": options,
        "prices": prices,
    }
    if isinstance(data, Path) or (isinstance(data, str) and "://" not in data):
        data = Path(data).expanduser()
    files = Watched({"table": data} if isinstance(data, str | Path) else {})
    rows = _rows(data)
    shape = getattr(generative, "context_shape", None)
    source = ContextSource.of(rows, pipeline, common["features"], label, shape)
    source = source.in_units_of(reference)
    common["features"] = source.features  # so that the run's settings say in which units
    work = DatasetWork(source, criterion, common, data, files, batch, part, title)
    return Answers(Path(folder), work)


def _rows(data: Any) -> Rows:
    if isinstance(data, str | Path):
        return open_rows(data)
    if isinstance(data, pd.DataFrame | np.ndarray):
        return RowsInMemory("the table", data)
    if isinstance(data, torch.Tensor):
        return RowsInMemory("the table", data.detach().cpu().numpy())
    raise InputError(
        "explain_dataset needs a file, a folder of Parquet files, a DataFrame or an array; got "
        f"{type(data).__name__}."
    )


@dataclass(frozen=True, eq=False)
class _Carried:
    """Work that travels as it is."""

    work: DatasetWork

    def __hash__(self) -> int:
        return hash(digest_json(self.work.settings))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Carried) and self.work.settings == other.work.settings

    def open(self) -> Work:
        self.work.files = self.work.files.anew()
        return self.work


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a data set: parts that are read, or explained, when they are asked for.

    Iterating gives an `Explanation` for each part, in order; a part that is missing is explained in
    this process, and kept.

    Arguments:
        folder: where parts are kept.
        work: the rows, and what is asked of them.
    """

    folder: Path
    work: DatasetWork

    def __len__(self) -> int:
        return len(self.work)

    def __iter__(self) -> Iterator[Explanation]:
        claim(self.folder, self.work.settings, kind=KIND, room=room_for(self.work))
        kept = self._kept
        kept.make()
        for k in range(len(self.work.parts)):
            if not kept.file(k).exists():
                with locked(self.folder), suited_threads(self.work.pipeline):
                    keep_part(kept, k)
            yield read_checked(kept, k)[0]

    def run(
        self,
        workers: int | None = None,
        *,
        shard: tuple[int, int] | None = None,
        engine: str = "processes",
        scheduler: str | None = None,
        console: Console | None = None,
    ) -> Answers:
        """Explain all parts that are missing, and write the report once all are there.

        Arguments:
            workers: how many processes explain; None for as many as there are cores, where it is
                worth while, and for one at least where time is limited; 1 for this process alone.
                They begin as Python's own do: keep the call behind `if __name__ == "__main__":` in
                a script.
            shard: which of how many shards, from 1; None for all parts.
            engine: "processes" on this machine, or "dask".
            scheduler: the address of a Dask scheduler; None for a cluster on this machine.
            console: where to show progress; None for nowhere.
        """
        orders = Orders(workers, shard, engine, scheduler)
        shown = Console(quiet=True) if console is None else console
        run(self.work, _Carried(self.work), self.folder, shown, orders)
        return self

    @property
    def done(self) -> int:
        """How many rows are done."""
        return sum(len(self.work.parts[k]) for k in self._kept.done())

    def dataset(self) -> Any:
        """The parts that are there, as a data set of pyarrow."""
        import pyarrow.dataset as ds

        return ds.dataset(str(self._kept.data), format="parquet")

    def summary(self) -> str:
        """What the parts that are there say together, in a few lines."""
        tally = Tally()
        for k in sorted(self._kept.done()):
            rows = self.work.parts[k]
            tally.add(read_checked(self._kept, k)[0], np.arange(rows.start, rows.stop))
        return "\n".join(lines(tally))

    @cached_property
    def _kept(self) -> RunFolder:
        return RunFolder(self.folder, self.work)
