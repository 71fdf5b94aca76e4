"""Digests of files: whether they are still those that results were made from.

Nothing here imports more than Python itself: a finished run is to be recognised at once.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from cfopt.errors import InputError

#: Beyond this many bytes, a data set is known by the names, sizes and times of its files.
_READ = 2**31
#: How many digits of a digest are kept.
_DIGITS = 16


def digest(path: Path) -> str:
    """A digest of a file's content."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}.") from error


def digest_json(content: Any) -> str:
    """A digest of plain values."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def digest_data(path: Path | str) -> str:
    """A digest of a file, of the files in a folder, or of what an object store says of them.

    Arguments:
        path: a file, a folder, or the address of either, such as s3://bucket/orders.
    """
    if isinstance(path, str):
        return _remote(path)
    if not path.is_dir():
        return digest(path)
    files = files_in(path)
    sizes = [one.stat().st_size for one in files]
    if sum(sizes) <= _READ:
        return digest_json([(one.relative_to(path).as_posix(), digest(one)) for one in files])
    times = [one.stat().st_mtime_ns for one in files]
    names = [one.relative_to(path).as_posix() for one in files]
    return digest_json(list(zip(names, sizes, times, strict=True)))


def files_in(folder: Path) -> list[Path]:
    """The files of a data set in a folder, in the order of their paths."""
    return sorted(one for one in folder.rglob("*") if one.is_file() and one.name[0] not in "._")


def _remote(address: str) -> str:
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(address)
        found = system.find(root, detail=True)
    # Any: each store has errors of its own.
    except Exception as error:
        raise InputError(f"{address} cannot be read: {error}") from error
    keys = ("size", "mtime", "ETag", "etag", "LastModified", "updated", "created")
    return digest_json(
        [
            (name, [(key, str(info[key])) for key in keys if key in info])
            for name, info in found.items()
        ]
    )
