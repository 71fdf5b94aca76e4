"""A lock on a folder that ends with its process, however that ends.

The kernel holds it (`flock`), so that a crash or SIGKILL leaves nothing behind that would have to
be removed by hand. Shards share the lock of the folder, and each has one of its own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from cfopt.errors import InputError

try:
    import fcntl
except ImportError:  # a system without flock: nothing is locked there
    fcntl = None  # type: ignore[assignment]

#: The file that is locked, within the folder; hidden, as it is not a result.
_NAME = ".lock"


@contextmanager
def locked(folder: Path, shard: tuple[int, int] | None = None) -> Iterator[None]:
    """Hold a folder as long as the block lasts; InputError if another process does.

    Arguments:
        folder: the folder of the run, which exists.
        shard: which of how many shards is run; None for all that is to be done.
    """
    with ExitStack() as held:
        held.enter_context(_held(folder / _NAME, folder, shared=shard is not None))
        if shard is not None:
            name = f"{_NAME}-{shard[0]}-of-{shard[1]}"
            held.enter_context(_held(folder / name, folder, shared=False))
        yield


@contextmanager
def finishing(folder: Path) -> Iterator[bool]:
    """Whether this process may write what is made of all parts; one of several may."""
    try:
        with _held(folder / f"{_NAME}-finishing", folder, shared=False):
            yield True
    except _TakenError:
        yield False


class _TakenError(InputError):
    """Another process holds the lock."""


@contextmanager
def _held(path: Path, folder: Path, *, shared: bool) -> Iterator[None]:
    with path.open("a+") as file:
        _take(file, folder, shared)
        if not shared:
            file.seek(0)
            file.truncate()
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
        yield


def _take(file: IO[str], folder: Path, shared: bool) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read().strip()
        by = f" ({holder})" if holder and not shared else ""
        raise _TakenError(
            f"{folder} is being written by another run{by}. Wait until it ends, or pass another "
            "folder with --out."
        ) from error
