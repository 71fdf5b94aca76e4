"""Your own solver.

Any function from costs to the best decision is a problem: here one that picks days for three
visits, no two of them on neighbouring days.
"""

import itertools

import numpy as np
import torch

import cfopt
from cfopt.problems import Oracle

DAYS, VISITS = 7, 3
PLANS = np.array(
    [
        [float(day in chosen) for day in range(DAYS)]
        for chosen in itertools.combinations(range(DAYS), VISITS)
        if all(b - a > 1 for a, b in itertools.pairwise(chosen))
    ]
)


def schedule(costs):
    """The cheapest plan for the costs of one week."""
    return PLANS[(PLANS @ costs).argmin()]


torch.manual_seed(0)
problem = Oracle(schedule, DAYS, binary=True)
pipeline = cfopt.Pipeline(torch.nn.Linear(4, DAYS), problem)
names = ["rain", "wind", "holiday", "fuel price"]
x0, other = torch.randn(1, 4), torch.randn(1, 4)
e = cfopt.explain(
    x0,
    pipeline,
    cfopt.Absolute(pipeline.decide(other)),
    margin=0.01,
    features=cfopt.Features(names=names),
)
print(e.summary())
e.plot("own_solver.png")
