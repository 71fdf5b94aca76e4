"""Tables of a TOML file, read strictly: every mistake is told with its place."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

from cfopt.errors import InputError
from cfopt.names import nearest

T = TypeVar("T")
#: In place of a default: there is none.
_NEEDED = object()
_NAMES = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
_NAMES |= {list: "a list", dict: "a table"}


def read_toml(path: Path) -> Section:
    """The outermost table of a TOML file."""
    if not path.is_file():
        raise InputError(f"There is no configuration {path}. `cfopt init` writes an example.")
    try:
        # Some editors begin a file with a mark of its encoding.
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    # Beside its own errors: numbers with too many digits, tables within tables without end.
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"{path} is no TOML file: {error}.") from error
    return Section(content, path)


class Section:
    """One table: which keys it may have is said first, then they are taken one by one.

    Arguments:
        content: of the table.
        file: that it stands in.
        name: its dotted name; "" for the outermost.
    """

    def __init__(self, content: Mapping[str, Any], file: Path, name: str = "") -> None:
        self.content, self.file, self.name = dict(content), file, name

    @property
    def place(self) -> str:
        """Where the table stands, for messages."""
        return f"{self.file}, [{self.name}]" if self.name else str(self.file)

    def error(self, message: str) -> InputError:
        """A mistake in this table."""
        return InputError(f"{self.place}: {message}")

    def only(self, *keys: str) -> Section:
        """This table, unless it has other keys than these: the nearest one is named."""
        unknown = [key for key in self.content if key not in keys]
        if unknown:
            raise self.error(nearest("key", unknown[0], keys))
        return self

    def __contains__(self, key: str) -> bool:
        return key in self.content

    @overload
    def take(self, key: str, kind: type[T]) -> T: ...

    @overload
    def take(self, key: str, kind: type[T], default: None) -> T | None: ...

    @overload
    def take(self, key: str, kind: type[T], default: T) -> T: ...

    def take(self, key: str, kind: type[T], default: Any = _NEEDED) -> T | None:
        """The value of a key, of one kind; a missing one without default is a mistake."""
        if key not in self.content:
            if default is _NEEDED:
                raise self.error(f"{key} is missing.")
            found: T | None = default
            return found
        value = self.content[key]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < 2**1000 else math.inf
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(f"{key} needs {_NAMES.get(kind, kind.__name__)}, got {value!r:.60}.")
        return value

    def any(self, key: str, default: Any = None) -> Any:
        """The value of a key, whatever it is."""
        return self.content.get(key, default)

    def path(self, key: str) -> Path:
        """A file or folder, from the configuration's own folder; whether it exists is not asked."""
        return self.file.parent / Path(self.take(key, str)).expanduser()

    def path_if_any(self, key: str) -> Path | None:
        """The same, None where the key is missing."""
        return self.path(key) if key in self else None

    def section(self, key: str) -> Section:
        """A table within; an empty one where there is none."""
        name = f"{self.name}.{key}" if self.name else key
        return Section(self.take(key, dict, {}), self.file, name)

    def pick(self, what: str, name: str, known: Iterable[str]) -> str:
        """The known name that is meant, whatever its case; else a mistake of this table."""
        names = list(known)
        found = next((one for one in names if one.lower() == name.lower()), None)
        if found is None:
            raise self.error(nearest(what, name, names))
        return found

    def one_of(self, *keys: str) -> str:
        """Which of some keys is given; exactly one must be."""
        given = [key for key in keys if key in self.content]
        if len(given) != 1:
            got = " and ".join(given) if given else "none of them"
            raise self.error(f"needs exactly one of {', '.join(keys)}; got {got}.")
        return given[0]
