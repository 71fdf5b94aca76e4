"""The measures of the field, taken of an explanation in one call."""

from cfopt.result.measures.evaluate import evaluate, evaluate_rows

__all__ = ["evaluate", "evaluate_rows"]
