"""Contracts: tests that a new problem, criterion, search and so on inherits.

Subclass a contract in a test module, say how to make the thing, and pytest runs the rest:

    class TestMyProblem(ProblemContract):
        def problem(self) -> Problem:
            return MyProblem(...)
"""

from cfopt.testing.criteria import CriterionContract as CriterionContract
from cfopt.testing.generative import GenerativeContract as GenerativeContract
from cfopt.testing.inexact import InexactOracle as InexactOracle
from cfopt.testing.predictors import PredictorContract as PredictorContract
from cfopt.testing.problems import ProblemContract as ProblemContract
from cfopt.testing.proximities import ProximityContract as ProximityContract
from cfopt.testing.robustness import RobustnessContract as RobustnessContract
from cfopt.testing.searches import SearchContract as SearchContract
