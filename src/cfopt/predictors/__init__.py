"""Predictors and their training."""

from cfopt.predictors.cnn import CompactCNN as CompactCNN
from cfopt.predictors.cnn import PartialResNet as PartialResNet
from cfopt.predictors.losses import MSE as MSE
from cfopt.predictors.losses import Loss as Loss
from cfopt.predictors.losses import SPOPlus as SPOPlus
from cfopt.predictors.mlp import costs as costs
from cfopt.predictors.mlp import linear as linear
from cfopt.predictors.mlp import mlp as mlp
from cfopt.predictors.training import Quality as Quality
from cfopt.predictors.training import assess as assess
from cfopt.predictors.training import fit as fit
