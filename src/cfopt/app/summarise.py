"""`cfopt summarise`: the report of a run, written again from the parts that are there."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from cfopt.app.config import read_config
from cfopt.app.job import load
from cfopt.errors import InputError
from cfopt.fleet.finish import summarise as write
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.run import KIND, ORIGIN
from cfopt.running.folder import SETTINGS, check_claim


def summarise(path: Path, trusted: bool, console: Console) -> None:
    """Write report and pictures of the parts that are there.

    Arguments:
        path: the folder of a run.
        trusted: whether what its configuration names may execute code.
        console: where to show how far it is, and what is written.
    """
    if not (path / SETTINGS).is_file() or not (path / ORIGIN).is_file():
        raise InputError(f"{path} is not the folder of {KIND}: it has no {SETTINGS} or {ORIGIN}.")
    try:
        config = Path(json.loads((path / ORIGIN).read_text(encoding="utf-8"))["configuration"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path / ORIGIN} cannot be read: {error}.") from error
    work = load(read_config(config, trusted))
    check_claim(path, work.settings, kind=KIND, room=0)
    folder = RunFolder(path, work)
    write(folder, sorted(folder.done()), console)
