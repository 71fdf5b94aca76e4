"""What is asked: criteria, each in a file of its own, and the question as a whole."""

from cfopt.question.absolute import Absolute as Absolute
from cfopt.question.ball import Ball as Ball
from cfopt.question.criterion import Contrastive as Contrastive
from cfopt.question.criterion import Criterion as Criterion
from cfopt.question.criterion import Slider as Slider
from cfopt.question.epsilon import Epsilon as Epsilon
from cfopt.question.local_outlier import LocalOutlier as LocalOutlier
from cfopt.question.models import Models as Models
from cfopt.question.prices import Prices as Prices
from cfopt.question.question import Question as Question
from cfopt.question.relative import Relative as Relative
from cfopt.question.robustness import Robustness as Robustness
from cfopt.question.words import RowFacts as RowFacts
