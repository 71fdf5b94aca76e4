"""What is explained: a predictor and a problem, and the contexts they are given."""

from cfopt.pipeline.adapted import Adapted, Deployed, Predictor
from cfopt.pipeline.columns import Columns
from cfopt.pipeline.forgiving import Forgiving
from cfopt.pipeline.function import Function
from cfopt.pipeline.per_item import PerItem
from cfopt.pipeline.pipeline import Pipeline, relative_regret

__all__ = [
    "Adapted",
    "Columns",
    "Deployed",
    "Forgiving",
    "Function",
    "PerItem",
    "Pipeline",
    "Predictor",
    "relative_regret",
]
