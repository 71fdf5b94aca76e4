"""Other ways to make a wish come true: further options, and other prices, each in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from cfopt.names import join_words
from cfopt.problems.sense import Sense
from cfopt.report import sentences
from cfopt.report.changes import Change, Changes, changes_of, feature_moves
from cfopt.report.promises import room
from cfopt.result.explanation import Explanation
from cfopt.result.nearness import compared
from cfopt.result.wording import ANOTHER_PLAN

_Words: TypeAlias = Callable[[Explanation, Changes], str]
_Said: TypeAlias = Callable[[Change], str]
#: How many changes a sentence names.
_NAMED = 4


@dataclass(frozen=True)
class Way:
    """Another answer to the question of a row.

    Arguments:
        name: what it is called.
        said: what it changes, in a sentence.
        distance: how far it is; None where there is none.
        changes: what changes, in full.
        proof: what is proved of it, in sentences.
    """

    name: str
    said: str
    distance: float | None
    changes: Changes
    proof: tuple[str, ...]


def options(one: Explanation) -> tuple[Way, ...]:
    """The further options of a single row, if several were asked for; the first is the row."""
    if one.options is None:
        return ()
    found = one.options[0]
    return tuple(_option(found[k], k + 1) for k in range(1, len(found)))


def prices(one: Explanation) -> Way | None:
    """What the costs themselves would have had to be, of a single row, if that was asked."""
    return None if one.prices is None else _way(one.prices, "In prices", _repriced)


def _option(one: Explanation, number: int) -> Way:
    """An option after the first, which is the nearest among those of another kind only."""
    way = _way(one, f"Option {number}", _moved)
    nearest = (
        "Proved to be the nearest one that leaves some main feature of each option before it as "
        "it is."
    )
    if one.message[0].startswith(ANOTHER_PLAN):
        nearest = "Proved to be the nearest one in which none of the plans before it takes over."
    proof = (nearest,) if bool(one.optimal[0]) else ()
    return replace(way, proof=(*proof, *room(one)))


def _way(one: Explanation, name: str, words: _Words) -> Way:
    moves = feature_moves(one)[0]
    changes = changes_of(one, moves)
    answered = one.status[0].is_answer
    said = words(one, changes) if answered and changes.rows else sentences.verdict(one)
    proof = tuple(sentences.proof(one, compared(one)))
    return Way(name, said, float(one.distance[0]) if answered else None, changes, proof)


def _moved(one: Explanation, changes: Changes) -> str:
    return f"It would also do if {_listed(changes, _goes)}."


def _repriced(one: Explanation, changes: Changes) -> str:
    cost = "cost" if one.sense is Sense.MIN else "be worth"

    def priced(change: Change) -> str:
        less = f"{abs(change.change):.3g} {'less' if change.change < 0 else 'more'}"
        before, after, _ = change.shown
        return f"{change.name} {less} ({before} → {after})"

    return f"It would come true if the following were to {cost}: {_listed(changes, priced)}."


def _goes(change: Change) -> str:
    before, after, by = change.shown
    return f"{change.name} went from {before} to {after}" if by else f"{change.name} were {after}"


def _listed(changes: Changes, words: _Said) -> str:
    parts = [words(change) for change in changes.rows]
    rest = len(parts) + len(changes.folded) + changes.more - _NAMED
    if rest > 0:
        parts = [*parts[:_NAMED], f"{rest} more a little"]
    return join_words(parts)
