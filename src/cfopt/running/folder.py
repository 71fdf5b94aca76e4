"""A folder that belongs to one run: its settings say which, and any other run is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cfopt.errors import InputError
from cfopt.storage.files import check_room, write_whole

#: The file that says which run a folder belongs to.
SETTINGS = "settings.json"
#: How much of a setting a message shows, and of how many settings.
_SHOWN, _LISTED = 60, 3


def claim(folder: Path, settings: Mapping[str, Any], *, kind: str, room: int) -> None:
    """Take a folder for a run, or resume in it; raise InputError if it holds something else.

    Arguments:
        folder: the folder of the run; created if missing.
        settings: all that the results depend on, as JSON can hold it.
        kind: the kind of run, such as "a reproduction".
        room: bytes that must be free.
    """
    check_claim(folder, settings, kind=kind, room=room)
    path = folder / SETTINGS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_whole(path, json.dumps(settings, indent=1, default=str).encode())
    except OSError as error:
        raise InputError(f"The folder {folder} cannot be used: {error}.") from error


def check_claim(folder: Path, settings: Mapping[str, Any], *, kind: str, room: int) -> None:
    """Raise InputError unless `claim` could take a folder; nothing is written."""
    path = folder / SETTINGS
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file. Pass a folder for the results.")
        if path.exists():
            _compare(path, settings)
        # Hidden files do not count: a kill may leave one, and some systems make them.
        elif folder.exists() and any(folder.glob("[!.]*")):
            raise InputError(
                f"{folder} holds files, but no {SETTINGS} of {kind}. Pass an empty or a new folder "
                "with --out."
            )
        there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
        if not there.is_dir():
            raise InputError(f"The folder {folder} cannot be used: {there} is a file.")
        check_room(there, room)
    except OSError as error:
        raise InputError(f"The folder {folder} cannot be used: {error}.") from error


def _compare(path: Path, settings: Mapping[str, Any]) -> None:
    try:
        theirs = _flat(dict(json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error}. Pass another --out.") from error
    mine = _flat(json.loads(json.dumps(settings, default=str)))
    other = [name for name in {**mine, **theirs} if theirs.get(name) != mine.get(name)]
    if other:
        changes = "; ".join(
            f"{name} was {_short(theirs.get(name))}, is {_short(mine.get(name))}"
            for name in other[:_LISTED]
        )
        raise InputError(
            f"{path.parent} holds results of another configuration: {changes}. Pass the same "
            "settings to resume, or another folder with --out."
        )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        inner = isinstance(value, Mapping) and value
        flat |= _flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return flat


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
