"""XGBoost and a scheduling MILP.

Three jobs go to two machines, each for the hours that it needs. XGBoost predicts what an hour of
each job costs on each machine from the price of energy and the temperature; a mixed-integer program
assigns the jobs.
"""

import numpy as np
import xgboost

import cfopt
from cfopt.problems import MILP

rng = np.random.default_rng(0)
context = np.c_[rng.uniform(20, 80, 400), rng.uniform(-5, 35, 400)]
energy, heat = context.T
base = rng.uniform(1, 2, 6)
costs = (
    base + np.c_[[0.02 * energy * (1 + k % 2) + 0.05 * np.abs(heat - 9 * k) for k in range(6)]].T
)
booster = xgboost.XGBRegressor(n_estimators=15, max_depth=3, multi_strategy="multi_output_tree")
booster.fit(context, costs)

# One column for each job and machine: every job once, at most two jobs on a machine.
once = [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]
room = [[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]]
shop = MILP(
    np.array(once + room, float),
    row_lower=[1, 1, 1, 0, 0],
    row_upper=[1, 1, 1, 2, 2],
    upper=1.0,
    integer=True,
)
pipeline = cfopt.Pipeline(booster, shop)
features = cfopt.Features(
    names=["energy price", "temperature"],
    scale=[15.0, 10.0],
    lower={"energy price": 0},
)
wanted = pipeline.decide(context[5:6])[0]
e = cfopt.explain(
    context[:1], pipeline, cfopt.Absolute(wanted), features=features, reference=context
)
print(e.summary())
e.plot("boosting.png")
