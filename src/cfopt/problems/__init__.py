"""Optimisation problems: costs in, best decisions out, a batch at a time."""

from cfopt.problems.base import Problem
from cfopt.problems.finite import Finite
from cfopt.problems.knapsack import Knapsack
from cfopt.problems.milp import MILP
from cfopt.problems.network import ShortestPath
from cfopt.problems.oracle import Oracle
from cfopt.problems.pyepo import PyEPOProblem
from cfopt.problems.routes import Cells, Network
from cfopt.problems.scene import Bars, Items, Scene
from cfopt.problems.shortest_path import GridShortestPath
from cfopt.problems.terrain import TerrainShortestPath

__all__ = [
    "MILP",
    "Bars",
    "Cells",
    "Finite",
    "GridShortestPath",
    "Items",
    "Knapsack",
    "Network",
    "Oracle",
    "Problem",
    "PyEPOProblem",
    "Scene",
    "ShortestPath",
    "TerrainShortestPath",
]
