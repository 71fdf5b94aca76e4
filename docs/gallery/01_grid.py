"""A linear model and a street grid.

The plain case: costs of the arcs of a grid are linear in the context, and the route is the shortest
path. The answer is the nearest context in which another route is the best of all, with a proof.
"""

import torch

import cfopt
from cfopt.problems import GridShortestPath

torch.manual_seed(0)
town = GridShortestPath(5, 5)
predictor = torch.nn.Linear(6, town.num_costs)
with torch.no_grad():
    predictor.weight.abs_()
    predictor.bias.fill_(3.0)
pipeline = cfopt.Pipeline(predictor, town)
today, another_day = torch.rand(1, 6), torch.rand(1, 6)

names = ["rain", "traffic", "roadworks", "market", "school", "football"]
e = cfopt.explain(
    today,
    pipeline,
    cfopt.Absolute(pipeline.decide(another_day)),
    features=cfopt.Features(names=names, lower=0, upper=1),
)
print(e.summary())
e.plot("grid.png")
