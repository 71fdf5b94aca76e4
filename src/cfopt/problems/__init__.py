"""Optimisation problems: costs in, best decisions out, a batch at a time."""

from cfopt.problems.base import Problem as Problem
from cfopt.problems.cells import Cells as Cells
from cfopt.problems.finite import Finite as Finite
from cfopt.problems.knapsack import Knapsack as Knapsack
from cfopt.problems.milp import MILP as MILP
from cfopt.problems.network import ShortestPath as ShortestPath
from cfopt.problems.network_scene import Network as Network
from cfopt.problems.oracle import Oracle as Oracle
from cfopt.problems.pyepo import PyEPOProblem as PyEPOProblem
from cfopt.problems.scene import Bars as Bars
from cfopt.problems.scene import Items as Items
from cfopt.problems.scene import Scene as Scene
from cfopt.problems.shortest_path import GridShortestPath as GridShortestPath
from cfopt.problems.terrain import TerrainShortestPath as TerrainShortestPath
