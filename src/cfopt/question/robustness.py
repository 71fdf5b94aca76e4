"""What an answer has to stand up to: contexts that are a little off, other models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from cfopt import registry
from cfopt.errors import InputError
from cfopt.names import join_words

if TYPE_CHECKING:
    from cfopt.question.ball import Ball


@dataclass(frozen=True)
class Robustness(ABC):
    """What may turn out otherwise, without making an answer wrong.

    A frozen dataclass in a file of its own. It names a ball of contexts, further predictors, or
    both; an answer is valid if the criterion holds in each of these contexts under each of the
    predictors, the pipeline's own among them.
    """

    @property
    @abstractmethod
    def words(self) -> str:
        """Where it holds: "in every context within 0.1 of it"."""

    @property
    def ball(self) -> Ball | None:
        """How far contexts may be off, if they may."""
        return None

    @property
    def predictors(self) -> tuple[Any, ...]:
        """The further predictors."""
        return ()

    def described(self) -> Self:
        """The same for the record: without models, which are not kept."""
        return self

    @staticmethod
    def of(given: Any) -> Robustness | None:
        """What `explain` is given: one robustness, several that must all be withstood, or None."""
        if given is None or isinstance(given, Robustness):
            return given
        parts = tuple(given) if isinstance(given, Sequence) else ()
        if not parts or not all(isinstance(part, Robustness) for part in parts):
            raise InputError(
                "robust needs Ball(radius), Models(predictors) or a list of these; got "
                f"{given!r:.80}."
            )
        return parts[0] if len(parts) == 1 else Together(parts)


@registry.robustness.register
@dataclass(frozen=True)
class Together(Robustness):
    """Several at once: every context of the ball, under every model.

    Arguments:
        parts: what an answer has to stand up to; at most one of them is a ball.
    """

    parts: tuple[Robustness, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        balls = [part for part in self.parts if part.ball is not None]
        if len(balls) > 1:
            raise InputError(f"robust needs no more than one Ball, got {len(balls)}.")

    @property
    def words(self) -> str:
        return join_words([part.words for part in self.parts])

    @property
    def ball(self) -> Ball | None:
        return next((part.ball for part in self.parts if part.ball is not None), None)

    @property
    def predictors(self) -> tuple[Any, ...]:
        return tuple(one for part in self.parts for one in part.predictors)

    def described(self) -> Together:
        return Together(tuple(part.described() for part in self.parts))
