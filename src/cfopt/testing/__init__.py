"""Contracts: tests that a new problem, criterion, search and so on inherits.

Subclass a contract in a test module, say how to make the thing, and pytest runs the rest:

    class TestMyProblem(ProblemContract):
        def problem(self) -> Problem:
            return MyProblem(...)
"""

from cfopt.testing.criteria import CriterionContract
from cfopt.testing.generative import GenerativeContract
from cfopt.testing.inexact import InexactOracle
from cfopt.testing.predictors import PredictorContract
from cfopt.testing.problems import ProblemContract
from cfopt.testing.proximities import ProximityContract
from cfopt.testing.searches import SearchContract

__all__ = [
    "CriterionContract",
    "GenerativeContract",
    "InexactOracle",
    "PredictorContract",
    "ProblemContract",
    "ProximityContract",
    "SearchContract",
]
