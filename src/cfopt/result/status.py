"""How the explanation of a row may end."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How the explanation of one row ended."""

    VALID = "valid"
    ALREADY_VALID = "already valid"
    #: It held at every point at which it was tried, which proves nothing.
    SAMPLED = "sampled"
    BEST_EFFORT = "best effort"
    PROVED_INFEASIBLE = "proved infeasible"
    REJECTED = "rejected"

    @property
    def is_valid(self) -> bool:
        """Whether the row's context was verified to explain."""
        return self in (Status.VALID, Status.ALREADY_VALID)

    @property
    def is_found(self) -> bool:
        """Whether the row's context was looked for, and answers as far as is known."""
        return self in (Status.VALID, Status.SAMPLED)

    @property
    def is_answer(self) -> bool:
        """Whether the row's context was verified to explain, or was not refuted by any trial."""
        return self.is_valid or self is Status.SAMPLED

    @property
    def is_settled(self) -> bool:
        """Whether the row has an answer, or a proof that there is none."""
        return self.is_answer or self is Status.PROVED_INFEASIBLE
