"""The folder of a run: its parts, who tried them, and the manifest that says it is complete."""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cfopt.errors import InputError
from cfopt.fleet.finished import DATA, MANIFEST, SUCCESS
from cfopt.fleet.table import PartFile
from cfopt.fleet.work import Work
from cfopt.storage.digests import digest_json
from cfopt.storage.files import write_whole

#: Where processes note what they begin and end.
_JOURNAL = "journal"


@dataclass(frozen=True)
class Noted:
    """What the journals say.

    Arguments:
        begun: how often each part was begun since its rows were last tried one by one.
        lethal: the rows of parts that ended their processes then, and what is said of them.
        ended: what the files of parts were like when they were written.
        seconds: the time that all parts took.
    """

    begun: Mapping[int, int]
    lethal: Mapping[int, Mapping[int, str]]
    ended: Mapping[int, PartFile]
    seconds: float


class RunFolder:
    """Parts on disk.

    Arguments:
        path: the folder of the run.
        work: the work whose parts they are.
    """

    def __init__(self, path: Path, work: Work) -> None:
        self.path, self.work = path, work

    @property
    def data(self) -> Path:
        """The data set."""
        return self.path / DATA

    def file(self, part: int) -> Path:
        """Where a part is kept."""
        return self.data / f"part-{part:06}.parquet"

    def make(self) -> None:
        """Make the folders."""
        for folder in (self.data, self.path / _JOURNAL):
            folder.mkdir(parents=True, exist_ok=True)

    def done(self) -> set[int]:
        """The numbers of the parts that exist."""
        if not self.data.is_dir():
            return set()
        names = {one.name for one in os.scandir(self.data)}
        return {k for k in range(len(self.work.parts)) if self.file(k).name in names}

    def check(self, parts: Sequence[int]) -> None:
        """Raise InputError where a part is damaged, before hours are spent; not all is read.

        Arguments:
            parts: the parts that exist.
        """
        ended = self.noted().ended
        for k in parts:
            path = self.file(k)
            known = ended.get(k)
            try:
                size = path.stat().st_size
                if known is not None and known.size != size:
                    raise ValueError(f"it has {size} bytes, and was written with {known.size}")
                pq.read_metadata(path)
            # Any: a damaged file may raise anything.
            except Exception as error:
                raise InputError(
                    f"The rows in {path} cannot be read: {' '.join(str(error).split())}. Delete it "
                    "to compute them again."
                ) from error

    @cached_property
    def _journal(self) -> Path:
        return self.path / _JOURNAL / f"{socket.gethostname()}-{os.getpid()}.jsonl"

    def note(self, part: int, event: str, **more: Any) -> None:
        """Write down that a part was begun or ended."""
        line = json.dumps({"part": part, "event": event, "at": time.time(), **more})
        with self._journal.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def noted(self) -> Noted:
        """What all processes have written down."""
        begun: Counter[int] = Counter()
        lethal: dict[int, dict[int, str]] = {}
        ended: dict[int, PartFile] = {}
        seconds: dict[int, float] = {}
        for entry in sorted(self._entries(), key=lambda one: float(one["at"])):
            part = int(entry["part"])
            if entry["event"] == "begun":
                begun[part] += 1
            elif entry["event"] == "tried":
                begun[part] = 0
                lethal[part] = {int(row): said for row, said in entry["lethal"].items()}
            else:
                ended[part] = PartFile(entry["rows"], entry["size"], entry["digest"])
                seconds[part] = float(entry["seconds"])
        return Noted(begun, lethal, ended, sum(seconds.values()))

    def _entries(self) -> Iterator[dict[str, Any]]:
        for path in (self.path / _JOURNAL).glob("*.jsonl"):
            for line in path.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError):  # the last line of a process that was killed
                    yield json.loads(line)

    def succeed(self, files: Mapping[int, PartFile], more: Mapping[str, Any]) -> None:
        """Write the manifest, then the mark of success.

        Arguments:
            files: every part.
            more: what else the manifest says.
        """
        content = {
            "settings": digest_json(self.work.settings),
            "rows": sum(one.rows for one in files.values()),
            **more,
            "parts": {self.file(k).name: asdict(one) for k, one in sorted(files.items())},
        }
        write_whole(self.data / MANIFEST, json.dumps(content, indent=1).encode())
        write_whole(self.data / SUCCESS, b"")
