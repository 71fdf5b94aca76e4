"""Predictors and their training."""

from cfopt.predictors.cnn import CompactCNN, PartialResNet
from cfopt.predictors.losses import MSE, Loss, SPOPlus
from cfopt.predictors.mlp import linear, mlp
from cfopt.predictors.training import Quality, assess, fit

__all__ = [
    "MSE",
    "CompactCNN",
    "Loss",
    "PartialResNet",
    "Quality",
    "SPOPlus",
    "assess",
    "fit",
    "linear",
    "mlp",
]
