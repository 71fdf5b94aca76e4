"""Several options.

One answer is rarely what a planner can act on. `options=3` gives up to three, different in kind,
each verified and proved to be the best of those that are left.
"""

import torch

import cfopt
from cfopt.problems import GridShortestPath

torch.manual_seed(3)
town = GridShortestPath(5, 5)
pipeline = cfopt.Pipeline(torch.nn.Linear(8, town.num_costs), town)
x0, other = torch.randn(1, 8), torch.randn(1, 8)
names = ["rain", "traffic", "roadworks", "market", "school", "football", "frost", "fog"]

e = cfopt.explain(
    x0,
    pipeline,
    cfopt.Relative(pipeline.decide(other)),
    features=cfopt.Features(names=names, max_changes=2),
    options=3,
)
for k, option in enumerate(e.options[0].x, 1):
    changed = [name for name, a, b in zip(names, x0[0], option, strict=True) if a != b]
    print(f"option {k}: {' and '.join(changed)}, distance {(option - x0[0]).norm():.3f}")
print(e.summary())
e.plot("options.png")
