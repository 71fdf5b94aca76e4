"""Robust answers.

The nearest answer lies on the edge: a slightly different forecast, and it explains nothing.
`robust=Ball(r)` asks for an answer that holds in every context within r of it, with a proof where
the predictor is affine; here two hundred random points of the ball are tried as well.
"""

import torch

import cfopt
from cfopt.problems import GridShortestPath

torch.manual_seed(0)
town = GridShortestPath(5, 5)
pipeline = cfopt.Pipeline(torch.nn.Linear(6, town.num_costs), town)
x0, other = torch.randn(1, 6), torch.randn(1, 6)
wanted = pipeline.decide(other)

nearest = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted))
e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), robust=cfopt.Ball(0.1))
for name, answer in (("nearest", nearest), ("robust", e)):
    error = torch.randn(200, 6)
    tried = answer.x + 0.1 * error / error.norm(dim=1, keepdim=True)
    kept = (pipeline.decide(tried) == wanted).all(1).float().mean()
    print(f"{name}: distance {answer.distance[0]:.3f}, still the best in {kept:.0%} of 200 trials")
print(e.summary())
e.plot("robust.png")
