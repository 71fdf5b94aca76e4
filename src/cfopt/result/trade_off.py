"""The trade-off between few changes and near answers, and ways to read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from cfopt.errors import InputError
from cfopt.names import join_words
from cfopt.result.explanation import Explanation
from cfopt.result.nearness import measure_said
from cfopt.result.status import Status
from cfopt.result.wording import moved_words, question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Losses that differ by less than this fraction are the same.
_SAME = 1e-6
#: How many changes of an answer are said, and which numbers are said as words.
_SHOWN = 4
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class TradeOff:
    """For each context the nearest answers with one change, with two, and so on.

    A context that is answered as it is, or not at all however many features change, has none.

    Arguments:
        unrestricted: the answers however many features change, one row for each context.
        answers: for each context one explanation of one row for each number of changes from 1 on,
            the k-th with at most k of them, up to the first that is as near as the unrestricted.
    """

    unrestricted: Explanation
    answers: tuple[tuple[Explanation, ...], ...]

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, row: int) -> TradeOff:
        """One of the contexts."""
        place = range(len(self))[row]
        return TradeOff(self.unrestricted[place], (self.answers[place],))

    @property
    def fewest(self) -> tuple[int | None, ...]:
        """With how few changes each context has an answer; None where none was found."""
        return tuple(_fewest(answers) for answers in self.answers)

    @property
    def proved(self) -> tuple[bool, ...]:
        """Whether it is proved that fewer changes than `fewest` are not enough."""
        return tuple(
            count is not None
            and all(one.status[0] is Status.PROVED_INFEASIBLE for one in answers[: count - 1])
            for count, answers in zip(self.fewest, self.answers, strict=True)
        )

    def distances(self, row: int) -> list[float | None]:
        """How near the answers of a context are; None where there is none."""
        return [float(one.distance[0]) if one.answered[0] else None for one in self.answers[row]]

    def to_dataframe(self) -> pd.DataFrame:
        """One line for each context and number of changes."""
        lines: list[dict[str, Any]] = []
        labels: list[Any] = []
        for row, answers in enumerate(self.answers):
            for count, one in enumerate(answers, 1):
                changed = one.table()["feature"].tolist() if one.answered[0] else []
                given = self.unrestricted.labels
                labels.append(row if given is None else given[row])
                lines.append(
                    {
                        "at most": count,
                        "status": str(one.status[0]),
                        "valid": bool(one.valid[0]),
                        "distance": float(one.distance[0]) if one.answered[0] else float("nan"),
                        "loss": float(one.loss[0]) if one.answered[0] else float("nan"),
                        "bound": float(one.bound[0]),
                        "optimal": bool(one.optimal[0]),
                        "changed": changed,
                    }
                )
        names = ("at most", "status", "valid", "distance", "loss", "bound", "optimal", "changed")
        return pd.DataFrame(lines, columns=names, index=pd.Index(labels, name="row"))

    def summary(self) -> str:
        """A few lines for the terminal: how many changes are needed, and what more would bring."""
        asked = question(self.unrestricted.criterion, self.unrestricted.margin)
        if len(self) == 1:
            return "\n".join([asked, *self._lines(0)])
        lines = [f"{self.unrestricted.label(k)}: {self.verdict(k)}" for k in range(len(self))]
        return "\n".join([asked, *lines])

    def verdict(self, row: int = 0) -> str:
        """How many changes a context needs, in a sentence."""
        free, answers, count = self.unrestricted, self.answers[row], self.fewest[row]
        if free.status[row] is Status.ALREADY_VALID:
            return "No change is needed."
        if free.status[row] is Status.PROVED_INFEASIBLE:
            return f"No number of changes is enough (proved): {free.message[row]}."
        if not answers:
            return f"No answer was found, with any number of changes: {free.message[row]}."
        if count is None:
            more = f"More than {_changes(len(answers))}"
            if all(one.status[0] is Status.PROVED_INFEASIBLE for one in answers):
                return f"{more} {_are(len(answers))} needed (proved)."
            return f"{more} may be needed: no answer was found with so few, nor ruled out."
        enough = _changes(count).capitalize()
        if count == 1:
            return f"{enough} is enough: {_moves(answers[0])}."
        fewer = "no single one is enough" if count == 2 else f"no {_word(count - 1)} are enough"
        if self.proved[row]:
            return f"{enough} are needed: {fewer} (proved)."
        return f"{enough} are enough; with fewer, no answer was found, nor ruled out."

    def _lines(self, row: int) -> list[str]:
        lines = [self.verdict(row)]
        distances, answers = self.distances(row), self.answers[row]
        for count, (distance, one) in enumerate(zip(distances, answers, strict=True), 1):
            if distance is not None:
                nearest = ", and none nearer" if one.optimal[0] else ""
                changes = f"With {_changes(count)}, at distance {distance:.3g}{nearest}"
                lines.append(f"  {changes}: {_moves(one)}.")
        if answers and as_near(answers[-1], self.unrestricted[row]):
            proved = bool(self.unrestricted.optimal[row])
            words = "do not bring it nearer" if proved else "were not found to bring it nearer"
            lines.append(f"More changes {words}.")
        return lines + (measure_said(self.unrestricted) if answers else [])

    def plot(self, path: str | Path | None = None) -> Figure:
        """The distance against the number of changes, for a single context."""
        if len(self) != 1:
            raise InputError(
                f"plot needs a single row, this trade-off has {len(self)}. Pick one: t[3].plot()."
            )
        from cfopt.plots import plot_trade_off

        return plot_trade_off(self, path)


def as_near(one: Explanation, other: Explanation) -> bool:
    """Whether one row has an answer, and its loss no larger than another one's."""
    return bool(one.answered[0]) and float(one.loss[0]) <= float(other.loss[0]) * (1 + _SAME)


def _fewest(answers: tuple[Explanation, ...]) -> int | None:
    return next((count for count, one in enumerate(answers, 1) if one.answered[0]), None)


def _word(number: int) -> str:
    return _WORDS[number] if number < len(_WORDS) else str(number)


def _changes(number: int) -> str:
    return f"{_word(number)} {'change' if number == 1 else 'changes'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _moves(one: Explanation) -> str:
    moved = [moved_words(*line) for line in one.table().itertuples(index=False)]
    return join_words(moved, most=_SHOWN)
