"""The nearest point of a polyhedron, with multipliers that prove it."""

from cfopt.exact.geometry.master import (
    Grid,
    Leaf,
    Master,
    Nearest,
    Split,
    Tree,
    leaves,
    proved_bound,
)
from cfopt.exact.geometry.norms import Euclidean, Norm, Taxicab
from cfopt.exact.geometry.system import FAR, HalfSpaces, Leeway, System

__all__ = [
    "FAR",
    "Euclidean",
    "Grid",
    "HalfSpaces",
    "Leaf",
    "Leeway",
    "Master",
    "Nearest",
    "Norm",
    "Split",
    "System",
    "Taxicab",
    "Tree",
    "leaves",
    "proved_bound",
]
