"""Few changes.

Ten features a little different are hard to talk about. `Features(max_changes=...)` asks for the
nearest answer that changes no more than so many of them, and proves that fewer do not suffice.
"""

import torch

import cfopt
from cfopt.problems import GridShortestPath

torch.manual_seed(3)
town = GridShortestPath(5, 5)
pipeline = cfopt.Pipeline(torch.nn.Linear(8, town.num_costs), town)
x0, other = torch.randn(1, 8), torch.randn(1, 8)
names = ["rain", "traffic", "roadworks", "market", "school", "football", "frost", "fog"]
wish = cfopt.Absolute(pipeline.decide(other))

for count in (1, 2, 3, 8):
    features = cfopt.Features(names=names, lower=-3, upper=3, max_changes=count)
    e = cfopt.explain(x0, pipeline, wish, features=features)
    found = f"distance {e.distance[0]:.3f}" if e.valid[0] else "none"
    print(f"at most {count}: {e.status[0]}, {found}")
    if e.valid[0]:
        break
print(e.summary())
e.plot("few_changes.png")
