"""Prices.

What would a road have to cost? There is no predictor here: the costs themselves change, as little
as possible, until the route asked for is the best. This is inverse optimisation.
"""

import torch

import cfopt
from cfopt.problems import ShortestPath

roads = [
    ("home", "bridge"),
    ("home", "ring road"),
    ("bridge", "centre"),
    ("ring road", "tunnel"),
    ("tunnel", "centre"),
    ("bridge", "tunnel"),
]
town = ShortestPath(roads, "home", "centre")
minutes = torch.tensor([6.0, 4.0, 9.0, 5.0, 7.5, 2.0])
along_the_ring = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])

e = cfopt.explain_costs(
    minutes,
    town,
    cfopt.Absolute(along_the_ring),
    features=cfopt.Features(lower=0.0),
    margin=0.01,
)
print(e.summary())
e.plot("prices.png")
