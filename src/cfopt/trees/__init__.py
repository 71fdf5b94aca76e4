"""Tree ensembles: read from other libraries, cells, and exact searches over boxes of them."""

from cfopt.trees.ensemble import TreeEnsemble
from cfopt.trees.importers import load_ensemble, read_ensemble
from cfopt.trees.predictor import TreePredictor

__all__ = ["TreeEnsemble", "TreePredictor", "load_ensemble", "read_ensemble"]
