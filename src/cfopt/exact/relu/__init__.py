"""ReLU networks exactly: bounds by planes that follow from multipliers, over a tree of cases."""

from cfopt.exact.relu.layers import layer_sizes
from cfopt.exact.relu.list_proof import ReluListProof
from cfopt.exact.relu.program import Relaxed, relax
from cfopt.exact.relu.proof import Division, Node, ReluProof, State
from cfopt.exact.relu.task import ReluTask

__all__ = [
    "Division",
    "Node",
    "Relaxed",
    "ReluListProof",
    "ReluProof",
    "ReluTask",
    "State",
    "layer_sizes",
    "relax",
]
