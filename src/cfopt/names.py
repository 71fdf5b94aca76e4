"""Names in sentences: lists of them, and what to say about one that is not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

#: How many names a message lists.
_MANY = 60


def nearest(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that there is no such thing, which one may be meant, and which ones there are.

    Arguments:
        kind: the kind of thing, such as "experiment".
        name: the name that was given.
        known: the names there are.
    """
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    more = [f"and {len(names) - _MANY} more"] if len(names) > _MANY else []
    return f"There is no {kind} {name!r}.{hint} There are: {', '.join(names[:_MANY] + more)}."


def join_words(parts: Sequence[str], last: str = "and", most: int | None = None) -> str:
    """Parts as a sentence lists them: "a, b and c".

    Arguments:
        parts: what to list.
        last: the word before the last one.
        most: how many are listed; of the others only the number is said, "a, b and 3 more".
    """
    shown = list(parts)
    if most is not None and len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most} more"]
    return " ".join([", ".join(shown[:-1]), last, shown[-1]]) if len(shown) > 1 else "".join(shown)


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 step", "2 steps"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
