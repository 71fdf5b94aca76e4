"""Would it hold under another model?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cfopt import registry
from cfopt.errors import InputError
from cfopt.names import counted
from cfopt.question.robustness import Robustness


@registry.robustness.register
@dataclass(frozen=True)
class Models(Robustness):
    """Each of several predictors, such as retrained or bootstrapped ones, beside the pipeline's.

    Arguments:
        others: the further predictors, in any form that `Pipeline` takes; not kept in JSON.
        count: how many there are; known from the predictors.
    """

    others: Sequence[Any] = field(default=(), repr=False, compare=False)
    count: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.others, str) or not isinstance(self.others, Sequence):
            raise InputError(f"Models needs a list of predictors, got {self.others!r:.80}.")
        others = tuple(self.others)
        if not others and self.count < 1:
            raise InputError("Models needs at least one predictor, got none.")
        object.__setattr__(self, "others", others)
        object.__setattr__(self, "count", len(others) or self.count)

    @property
    def predictors(self) -> tuple[Any, ...]:
        return tuple(self.others)

    @property
    def words(self) -> str:
        return f"under {counted(self.count, 'further model')}"

    def described(self) -> Models:
        return Models(count=self.count)
