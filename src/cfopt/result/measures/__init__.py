"""The measures of the field, taken of an explanation in one call."""

from cfopt.result.measures.evaluate import evaluate, evaluate_rows
from cfopt.result.measures.stopwatch import Stopwatch

__all__ = ["Stopwatch", "evaluate", "evaluate_rows"]
