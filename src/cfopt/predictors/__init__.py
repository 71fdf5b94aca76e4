"""Predictors and their training."""

from cfopt.predictors.losses import MSE, Loss, SPOPlus
from cfopt.predictors.mlp import linear, mlp
from cfopt.predictors.training import fit

__all__ = ["MSE", "Loss", "SPOPlus", "fit", "linear", "mlp"]
