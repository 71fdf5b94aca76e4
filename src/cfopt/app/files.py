"""A configuration as a file, and the files that it names: looked at before anything is loaded.

Nothing here imports torch, which takes seconds: what is missing is reported at once.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from cfopt.errors import InputError

#: The keys that name files which a run reads.
FILES = (
    "predictor.weights",
    "predictor.file",
    "predictor.archive",
    "predictor.items.file",
    "problem.file",
    "contexts.file",
    "criterion.alternatives",
    "criterion.costs",
    "generative.weights",
    "reference.file",
)


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


def check_files(path: Path) -> dict[str, Any]:
    """The content of a configuration; InputError if it, or a file that its run reads, is missing.

    What is wrong in another way is left to those who read it.

    Arguments:
        path: the configuration.
    """
    content = read_toml(path)
    for place in FILES:
        *within, key = place.split(".")
        table: Any = content
        for name in within:
            table = table.get(name) if isinstance(table, dict) else None
        given = table.get(key) if isinstance(table, dict) else None
        if isinstance(given, str) and "://" not in given:
            file = path.parent / Path(given).expanduser()
            if not file.exists():
                raise InputError(f"{path}, [{'.'.join(within)}]: There is no file {file}.")
    return content
