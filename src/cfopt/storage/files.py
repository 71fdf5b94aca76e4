"""Files that are complete whenever they exist."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from cfopt.errors import StorageError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; what was there before is replaced at once."""
    check_room(path.parent, len(data))
    write_in_pieces(path, [data])


def write_in_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """The same, of bytes that come one after the other and are not kept."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error}. Nothing was changed.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_room(folder: str | Path, size: int) -> None:
    """Raise StorageError unless a folder exists, can be written to and has room for some bytes."""
    folder = Path(folder)
    if not folder.is_dir():
        raise StorageError(f"There is no folder {folder} to write to. Create it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"The folder {folder} cannot be written to. Change its permissions.")
    free = shutil.disk_usage(folder).free
    if free < size:
        raise StorageError(
            f"{folder} has room for {free / 1e6:.1f} MB, {size / 1e6:.1f} MB are needed. Free some "
            "space, or write elsewhere."
        )
