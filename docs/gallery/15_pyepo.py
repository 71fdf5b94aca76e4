"""A PyEPO model.

A PyEPO model is a problem as it is; claims about its decisions are checked with a gap of 0. Here
OR-Tools packs a knapsack.
"""

import numpy as np
import torch
from pyepo.model.ort import knapsackModel

import cfopt
from cfopt.problems import PyEPOProblem

torch.manual_seed(5)
weights = np.array([[3, 4, 3, 6, 4], [4, 5, 2, 3, 5]])
problem = PyEPOProblem(knapsackModel(weights, np.array([10, 10])), binary=True)
pipeline = cfopt.Pipeline(torch.nn.Linear(4, 5), problem)
x0, other = torch.randn(2, 4), torch.randn(1, 4)
e = cfopt.explain(x0, pipeline, cfopt.Absolute(pipeline.decide(other)[0]))
print(e.summary())
e[:1].plot("pyepo.png")
