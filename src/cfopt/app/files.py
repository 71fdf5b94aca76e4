"""A configuration as a file, and the files that it names: looked at before anything is loaded.

Nothing here imports torch, which takes seconds: what is missing is reported at once.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cfopt.errors import InputError

#: The keys that name files which a run reads: models, and tables.
MODELS = (
    "predictor.weights",
    "predictor.file",
    "predictor.archive",
    "problem.file",
    "generative.weights",
)
TABLES = (
    "predictor.items.file",
    "contexts.file",
    "criterion.alternatives",
    "criterion.costs",
    "reference.file",
)
#: The tables that `cfopt train` reads instead.
LEARNT = ("training.contexts", "training.costs")


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a configuration; InputError if it cannot be read."""
    if path.is_dir():
        raise InputError(
            f"{path} is a folder. Pass the configuration itself, such as {path / 'CONFIG.toml'}."
        )
    if not path.is_file():
        raise InputError(f"There is no configuration {path}. `cfopt init` writes an example.")
    try:
        # Some editors begin a file with a mark of its encoding.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not encoded in UTF-8. Save it as UTF-8.") from error
    # Beside its own errors: numbers with too many digits, tables within tables without end.
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"{path} is not a TOML file: {error}.") from error


def check_files(path: Path, places: Sequence[str] = MODELS + TABLES) -> dict[str, Any]:
    """The content of a configuration; InputError if it, or a file that it names, is missing.

    What is wrong in another way is left to those who read it.

    Arguments:
        path: the configuration.
        places: the keys that name files.
    """
    content = read_toml(path)
    for table, file in _named(path, content, places):
        if not file.exists():
            raise InputError(f"{path}, [{table}]: There is no file {file}.")
    return content


def check_tables(path: Path, content: dict[str, Any], places: Sequence[str] = TABLES) -> None:
    """Raise InputError if a table that a configuration names cannot be read.

    Arguments:
        path: the configuration.
        content: what it says.
        places: the keys that name tables.
    """
    from cfopt.storage.rows import check_rows  # pandas is not needed to find a finished run

    for table, file in _named(path, content, places):
        try:
            check_rows(file)
        except InputError as error:
            raise InputError(f"{path}, [{table}]: {error}") from error


def _named(
    path: Path, content: dict[str, Any], places: Sequence[str]
) -> Iterator[tuple[str, Path]]:
    """The files at some places of a configuration, each with its table; no addresses."""
    for place in places:
        *within, key = place.split(".")
        table: Any = content
        for name in within:
            table = table.get(name) if isinstance(table, dict) else None
        given = table.get(key) if isinstance(table, dict) else None
        if isinstance(given, str) and "://" not in given:
            yield ".".join(within), path.parent / Path(given).expanduser()
