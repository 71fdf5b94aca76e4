"""What is asked: criteria, each in a file of its own, and the question as a whole."""

from cfopt.question.absolute import Absolute
from cfopt.question.criterion import Contrastive, Criterion, Knob
from cfopt.question.epsilon import Epsilon
from cfopt.question.question import Question
from cfopt.question.relative import Relative
from cfopt.question.words import RowFacts

__all__ = [
    "Absolute",
    "Contrastive",
    "Criterion",
    "Epsilon",
    "Knob",
    "Question",
    "Relative",
    "RowFacts",
]
