"""A random forest, exactly.

A context matters to a forest only through the cell between its thresholds, so the nearest context
in which another route wins is found without approximation, and proved.
"""

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import cfopt
from cfopt.problems import GridShortestPath

rng = np.random.default_rng(0)
roads = GridShortestPath(4, 4)
weather = rng.uniform(0, 10, (300, 3))
costs = 5 + np.abs(weather @ rng.normal(0, 1, (3, roads.num_costs)))
forest = RandomForestRegressor(n_estimators=10, max_depth=4, random_state=0).fit(weather, costs)

pipeline = cfopt.Pipeline(forest, roads)
features = cfopt.Features(names=["rain", "wind", "cloud"], lower=0, upper=10)
wanted = pipeline.decide(weather[7:8])[0]
e = cfopt.explain(
    weather[:1], pipeline, cfopt.Absolute(wanted), features=features, reference=weather
)
print(e.summary())
e.plot("forest.png")
