"""Contracts: tests that a new problem, generative model or search inherits.

Subclass a contract in a test module, say how to make the thing, and pytest runs the rest:

    class TestMyProblem(ProblemContract):
        def problem(self) -> Problem:
            return MyProblem(...)
"""

from cfopt.testing.generative import GenerativeContract
from cfopt.testing.inexact import InexactOracle
from cfopt.testing.problems import ProblemContract
from cfopt.testing.searches import SearchContract

__all__ = ["GenerativeContract", "InexactOracle", "ProblemContract", "SearchContract"]
