"""A fleet of answers.

A thousand mornings, explained in parts that are kept: what would have to be different for the ring
road to be the best way, over all of them? And by how much would the toll of the bridge, the same
every day, have to rise for that to be so on half of the mornings?
"""

import numpy as np
import pandas as pd
import torch

import cfopt
from cfopt.problems import ShortestPath

roads = [("home", "bridge"), ("home", "ring"), ("bridge", "centre"), ("ring", "centre")]
town = ShortestPath(roads, "home", "centre")
predictor = torch.nn.Linear(3, 4).double()  # minutes, and the toll as minutes
predictor.weight.data = torch.tensor(
    [[0.8, 0.2, 0.0], [0.1, 0.6, 0.0], [0.9, 0.1, 1.0], [0.2, 0.5, 0.0]], dtype=torch.float64
)
predictor.bias.data = torch.tensor([4.0, 9.0, 5.0, 8.0], dtype=torch.float64)
pipeline = cfopt.Pipeline(predictor, town)

random = np.random.default_rng(0)
mornings = pd.DataFrame(
    {"traffic": random.gamma(2, 2, 1000), "rain": random.gamma(1, 2, 1000), "toll": 1.0}
)
along_the_ring = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64)
features = cfopt.Features(["traffic", "rain", "toll"], lower=0.0, immutable=["rain"])

answers = cfopt.fleet.explain_dataset(
    mornings, pipeline, cfopt.Absolute(along_the_ring), "answers", features=features
)
e = cfopt.Explanation.concat(list(answers))
print(answers.summary())

some = mornings[:60]
group = cfopt.explain_group(
    some, pipeline, cfopt.Absolute(along_the_ring), change=["toll"], share=0.5, features=features
)
print(group.summary())

answered = [row for row, status in enumerate(e.status) if status is cfopt.Status.VALID]
e[answered[0]].plot("fleet.png")
