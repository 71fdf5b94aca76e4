"""How good explanations are: plain functions of an Explanation, or of decisions and costs."""

from __future__ import annotations

from torch import Tensor

from cfopt.explanation import Explanation
from cfopt.pipeline import relative_regret

__all__ = ["proximity_l1", "proximity_l2", "relative_regret", "sparsity", "validity"]


def validity(explanation: Explanation) -> float:
    """The share of rows that were verified to explain, rejected rows counted as failures."""
    return float(explanation.valid.double().mean())


def proximity_l2(explanation: Explanation) -> Tensor:
    """The Euclidean distance of each row, `(B,)`."""
    return explanation.distance


def proximity_l1(explanation: Explanation) -> Tensor:
    """The sum of absolute changes of each row, `(B,)`."""
    return (explanation.x - explanation.x0).flatten(1).abs().sum(1)


def sparsity(explanation: Explanation, threshold: float = 1e-6) -> Tensor:
    """How many features each row changes by more than `threshold`, `(B,)`."""
    return ((explanation.x - explanation.x0).flatten(1).abs() > threshold).sum(1)
