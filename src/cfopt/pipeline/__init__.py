"""What is explained: a predictor and a problem, and the contexts they are given."""

from cfopt.pipeline.pipeline import Pipeline, Predictor, relative_regret

__all__ = ["Pipeline", "Predictor", "relative_regret"]
