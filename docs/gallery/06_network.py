"""A ReLU network, with a proof.

A network is not affine, so a search by gradients finds a good answer at best. `Certify` divides the
ways in which the neurons can be on or off into cases and proves that no nearer answer exists, or
finds it.
"""

import torch

import cfopt
from cfopt.problems import GridShortestPath

torch.manual_seed(5)
town = GridShortestPath(4, 4)
network = torch.nn.Sequential(
    torch.nn.Linear(5, 10), torch.nn.ReLU(), torch.nn.Linear(10, town.num_costs)
)
pipeline = cfopt.Pipeline(network, town)
x0, other = torch.randn(1, 5), torch.randn(1, 5)
wanted = pipeline.decide(other)

climbed = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=cfopt.Sequential())
proved = cfopt.explain(
    x0, pipeline, cfopt.Absolute(wanted), search=cfopt.Certify(cfopt.Sequential())
)
print(f"climbed: distance {climbed.distance[0]:.4f}, proved optimal: {bool(climbed.optimal[0])}")
print(f"certified: distance {proved.distance[0]:.4f}, proved optimal: {bool(proved.optimal[0])}")
proved.plot("network.png")
