"""Files that results are made from, and whether they are still what they were."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from cfopt.errors import ChangedError
from cfopt.storage.digests import digest_data, files_in


class _Identity(NamedTuple):
    """By what a file, or those in a folder, are recognised without being read.

    Arguments:
        content: names with sizes and times; of an object store, what it says of its objects.
        inodes: these, which some file systems make up anew.
    """

    content: tuple[object, ...]
    inodes: tuple[int, ...] = ()

    @classmethod
    def of(cls, path: Path | str) -> _Identity:
        if isinstance(path, str):
            return cls((digest_data(path),))
        try:
            files = files_in(path) if path.is_dir() else [path]
            stats = [(str(one), one.stat()) for one in files]
        except OSError:
            return cls(())
        content = tuple((name, one.st_size, one.st_mtime_ns) for name, one in stats)
        return cls(content, tuple(one.st_ino for _, one in stats))

    def __str__(self) -> str:
        files = [one for one in self.content if isinstance(one, tuple)]
        if not files:
            return "nothing that can be read" if not self.content else f"version {self.content[0]}"
        last = datetime.fromtimestamp(max(one[2] for one in files) / 1e9)
        return f"{sum(one[1] for one in files):,} bytes of {last:%Y-%m-%d %H:%M:%S}"


class Watched:
    """Files as they were before anything was read of them.

    Arguments:
        files: files, folders, or addresses of either, by the names under which digests are kept.
    """

    def __init__(self, files: Mapping[str, Path | str]) -> None:
        self.files = dict(files)
        self._was = {name: _Identity.of(path) for name, path in self.files.items()}

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of each."""
        return {name: digest_data(path) for name, path in self.files.items()}

    def check(self) -> None:
        """Raise ChangedError where a file has been written or replaced; nothing is read of it."""
        for name, path in self.files.items():
            was, now = self._was[name], _Identity.of(path)
            if now.content != was.content:
                raise _changed(path, str(was), str(now))
            if now != was:  # replaced, or found anew
                self._check_content(name)
                self._was[name] = now

    def verify(self) -> None:
        """The same, and read all of them again."""
        self.check()
        for name in self.files:
            self._check_content(name)

    def anew(self) -> Watched:
        """The same files as another process finds them; ChangedError if they are others there."""
        found = Watched(self.files)
        found.digests = self.digests
        found.verify()
        return found

    def _check_content(self, name: str) -> None:
        was, now = self.digests[name], digest_data(self.files[name])
        if was != now:
            raise _changed(self.files[name], f"the digest {was}", now)


def _changed(path: Path | str, was: str, now: str) -> ChangedError:
    return ChangedError(
        f"{path} has changed since this run began: it needs {was}, as it was then, and has {now}. "
        "Put it back and run the same command again, which resumes; or explain what is there now "
        "in a folder of its own."
    )
