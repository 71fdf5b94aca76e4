"""A forest on real flights.

New York's flights and weather of 2013 come with cfopt. A forest predicts the delay of each airport
and time of day, and an integer program picks one airport for each part of the day. What weather
would have changed the plan of 12 June?
"""

import cfopt
from cfopt.datasets import flights

data = flights.load()
known, new = data.split()  # every fifth day is held out
forest = flights.forest().fit(known.contexts, known.delays)
pipeline = cfopt.Pipeline(forest, data.problem)

day = new.contexts.loc[["2013-06-12"]]
other = pipeline.decide(new.contexts.loc[["2013-06-17"]])[0]
e = cfopt.explain(
    day, pipeline, cfopt.Relative(other), features=data.features, reference=known.contexts
)
print("Planned:", data.problem.describe(e.factual[0].numpy()))
print("Asked for:", data.problem.describe(other.numpy()))
print(e.summary())
e.plot("flights.png")
