"""A scikit-learn pipeline with categories.

A DataFrame goes in as it is, text columns included, and the answer comes back in the same columns.
Scalers, encoders and the linear model are folded into one affine map, so the answer is proved to be
the nearest.
"""

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import cfopt
from cfopt.problems import GridShortestPath

rng = np.random.default_rng(0)
days = pd.DataFrame(
    {
        "temperature": rng.normal(15, 6, 400).round(1),
        "rain": rng.gamma(1.0, 3.0, 400).round(1),
        "day": rng.choice(["workday", "saturday", "sunday"], 400),
    }
)
roads = GridShortestPath(3, 3)
slope = rng.uniform(0, 0.4, (3, roads.num_costs))
busy = days["day"].map({"workday": 4.0, "saturday": 2.0, "sunday": 0.0}).to_numpy()
costs = 5 + np.c_[days["temperature"] / 5, days["rain"], busy] @ slope

columns = make_column_transformer(
    (StandardScaler(), ["temperature", "rain"]), (OneHotEncoder(), ["day"])
)
model = make_pipeline(columns, Ridge(alpha=0.1)).fit(days, costs)

pipeline = cfopt.Pipeline(model, roads)
features = cfopt.Features(scale=(6.0, 3.0, 1.0), lower={"rain": 0})
wanted = pipeline.decide(days[200:201])[0]
e = cfopt.explain(days[:3], pipeline, cfopt.Absolute(wanted), features=features)
print(e.summary())
print(e.frame)
e[1].plot("categories.png")
