"""A reproduction in a folder: its settings, and the results of its jobs so far."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from cfopt.errors import InputError
from cfopt.running.folder import claim
from cfopt.storage.files import write_whole
from cfopt_paper.job import Job, Report
from cfopt_paper.scale import Scale

T = TypeVar("T")
#: What a study of the standard scale leaves behind, models included, in bytes.
_ROOM = 200_000_000


class Study:
    """Where jobs find scale, seed and each other's results.

    A job's result is one file, written whole: a study that was killed resumes with what is there.

    Arguments:
        folder: where everything goes; created if missing.
        scale: the size of the study.
        seed: the seed of data, models and tasks.
        data: the folder of the published Warcraft maps; generated maps by default.
    """

    def __init__(
        self, folder: str | Path, scale: Scale, seed: int = 0, data: str | Path | None = None
    ) -> None:
        if seed < 0:
            raise InputError(f"A study needs a seed >= 0, got {seed}.")
        self.folder, self.scale, self.seed = Path(folder), scale, seed
        self.data = None if data is None else Path(data).expanduser().resolve()
        if self.data is not None and not self.data.is_dir():
            raise InputError(f"A study needs a folder of Warcraft maps; {self.data} is not one.")
        self.models, self.parts = self.folder / "models", self.folder / "parts"
        self._memory: dict[str, Any] = {}
        self._claim()

    def settings(self) -> dict[str, Any]:
        """The settings on which results depend."""
        scale = json.loads(json.dumps(asdict(self.scale)))
        return {"scale": scale, "seed": self.seed, "data": str(self.data) if self.data else None}

    def _claim(self) -> None:
        """Take the folder, unless it holds something else."""
        claim(self.folder, self.settings(), kind="a reproduction", room=_ROOM)
        try:
            for place in (self.models, self.parts):
                place.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"The folder {self.folder} cannot be used: {error}.") from error

    def remember(self, name: str, make: Callable[[], T]) -> T:
        """What `make` returns, made once and held in memory."""
        if name not in self._memory:
            self._memory[name] = make()
        found: T = self._memory[name]
        return found

    def is_done(self, job: Job) -> bool:
        """Whether the result of a job is there."""
        return self._part(job).exists()

    def do(self, job: Job, report: Report = lambda fraction: None) -> None:
        """Do a job, unless its result is there."""
        if self.is_done(job):
            return
        # CPU time: what else the machine does shall not be counted.
        start = time.process_time()
        table = job.run(self, report)
        seconds = time.process_time() - start
        content = {"seconds": seconds, "rows": table.to_dict(orient="records")}
        write_whole(self._part(job), json.dumps(content).encode())

    def table(self, *jobs: Job) -> pd.DataFrame:
        """The results of jobs that are done, one after the other."""
        return pd.concat([pd.DataFrame(self._read(job)["rows"]) for job in jobs], ignore_index=True)

    def seconds(self, jobs: Sequence[Job]) -> float:
        """The CPU time that some jobs took together."""
        return float(sum(self._read(job)["seconds"] for job in jobs))

    def _part(self, job: Job) -> Path:
        return self.parts / f"{job.name}.json"

    def _read(self, job: Job) -> dict[str, Any]:
        path = self._part(job)
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(content, dict) or not {"seconds", "rows"} <= content.keys():
                raise ValueError("it is not the result of a job")
        except (OSError, ValueError) as error:
            raise InputError(
                f"The result {path} cannot be read: {error}. Delete it to compute it again."
            ) from error
        return content
