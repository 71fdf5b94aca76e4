"""Partial wishes.

"Why not through the tunnel?" is not a whole plan. `Uses("tunnel → centre")` stands for all routes
that take that road, and the answer says which of them would have been the best of all.
"""

import torch

import cfopt
from cfopt.problems import ShortestPath

torch.manual_seed(1)
roads = [
    ("home", "bridge"),
    ("home", "ring road"),
    ("bridge", "centre"),
    ("ring road", "tunnel"),
    ("tunnel", "centre"),
    ("bridge", "tunnel"),
]
town = ShortestPath(roads, "home", "centre")
minutes = torch.nn.Linear(3, len(roads))
with torch.no_grad():
    minutes.bias.copy_(torch.tensor([6.0, 4.0, 5.0, 5.0, 7.5, 2.0]))
pipeline = cfopt.Pipeline(minutes, town)

today = torch.zeros(1, 3)
features = cfopt.Features(names=["rain", "traffic", "roadworks"])
print("Taken:", town.describe(pipeline.decide(today)[0].numpy()))
e = cfopt.explain(
    today,
    pipeline,
    cfopt.Absolute(cfopt.Uses("tunnel → centre") & cfopt.Avoids("bridge → tunnel")),
    features=features,
)
print(e.summary())
print("It would be:", town.describe(e.wanted[0].numpy()))
e.plot("wishes.png")
