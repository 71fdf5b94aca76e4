"""For which decisions a criterion must hold."""

from __future__ import annotations

from enum import StrEnum


class Quantifier(StrEnum):
    """For which decisions a criterion's inequalities must hold."""

    #: For the factual decision.
    GIVEN = "given"
    #: For every feasible decision: an intersection of half-spaces of prices.
    EVERY = "every"
    #: For some feasible decision: a union of polyhedra of prices.
    SOME = "some"
