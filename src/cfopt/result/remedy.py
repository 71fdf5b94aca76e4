"""What would help a row that has no answer under its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cfopt.names import join_words
from cfopt.result.wording import moved_words

if TYPE_CHECKING:
    from cfopt.result.explanation import Explanation

#: How many changes are said.
_SHOWN = 4


@dataclass(frozen=True)
class Remedy:
    """A smallest set of limits without which a row has an answer, and that answer.

    Arguments:
        limits: what would have to be possible, each in words.
        answer: the answer then, verified, as an explanation of one row.
        smallest: whether it was proved that fewer limits would not do.
    """

    limits: tuple[str, ...]
    answer: Explanation
    smallest: bool

    @property
    def words(self) -> str:
        """The remedy in a sentence."""
        table = self.answer.table()
        changes = [moved_words(*line) for line in table.head(_SHOWN).itertuples(index=False)]
        more = len(table) - len(changes)
        changes += [f"{more} smaller ones"] if more > 0 else []
        least = "; no fewer limits would do" if self.smallest and len(self.limits) > 1 else ""
        then = join_words(changes)
        return (
            f"But if {join_words(self.limits)}, this would do: {then} (tried and verified{least})"
        )
