"""Whether less is better, or more."""

from __future__ import annotations

from enum import StrEnum

from cfopt.errors import InputError


class Sense(StrEnum):
    """Whether the problem minimises or maximises `<costs, decision>`."""

    MIN = "min"
    MAX = "max"

    @classmethod
    def _missing_(cls, value: object) -> Sense:
        raise InputError(f'sense needs to be "min" or "max", got {value!r}.')

    @property
    def sign(self) -> float:
        """The factor that turns costs into those of a minimisation."""
        return 1.0 if self is Sense.MIN else -1.0
