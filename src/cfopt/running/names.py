"""What to say of a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(kind: str, name: str, known: Iterable[str]) -> str:
    """There is no such thing; which one may be meant, and which ones there are.

    Arguments:
        kind: of thing, such as "experiment".
        name: that was given.
        known: the names there are.
    """
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"There is no {kind} {name!r}.{hint} There are: {', '.join(names)}."
