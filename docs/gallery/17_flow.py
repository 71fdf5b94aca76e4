"""A table with a flow.

What drier or windier day would have made this plan wrong by a tenth? The nearest such day is dry at
one airport and damp at its neighbours, unlike any known day. A normalising flow learns from the
table which values go together; its codes are searched instead, and the whole region turns dry.
`LocalOutlier(50)` trains nothing: its answer is no more of an outlier than half of the known days.
"""

import torch
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge

import cfopt
from cfopt.datasets import flights
from cfopt.generative import Flow, Training, train

data = flights.load()
known, new = data.split()
columns = [name for name in data.contexts if "humidity" in name or "wind" in name]
days, delays = known.contexts[columns], known.delays
pipeline = cfopt.Pipeline(Ridge().fit(days, delays), data.problem)

weather = torch.tensor(days.to_numpy())
torch.manual_seed(0)
flow = Flow(len(columns), layers=4, width=16).double().standardise(weather)
train(flow, weather[::2], weather[1::2], Training(epochs=12, learning_rate=4e-3))

day = new.contexts.loc[["2013-04-23"], columns]
features = cfopt.Features(columns, scale=tuple(days.std()))
ways = {
    "nearest": {},
    "with a flow": {"generative": flow, "plausibility": cfopt.Sphere(1.0)},
    "near known days": {"plausibility": cfopt.LocalOutlier(50), "reference": days},
}
answers = {
    name: cfopt.explain(day, pipeline, cfopt.Epsilon(0.1), features=features, **way)
    for name, way in ways.items()
}
e = answers["with a flow"]
with torch.no_grad():
    usual = torch.quantile(flow.log_density(weather), 0.05)
    print(f"95% of the known days have a log-likelihood above {usual:.1f}.")
    for name, one in answers.items():
        change = dict(zip(columns, (one.x - one.x0)[0].tolist(), strict=True))
        drier = [f"{change[f'humidity at {at} (%)']:+.0f}" for at in ("EWR", "JFK", "LGA")]
        likelihood = float(flow.log_density(one.x))
        print(f"{name}: {one.status[0]}, log-likelihood {likelihood:.1f},")
        print(f"  humidity at EWR, JFK, LGA: {', '.join(drier)} points")

figure = Figure(figsize=(6, 4.5), layout="constrained")
axes = figure.subplots()
pair = ["humidity at JFK (%)", "humidity at LGA (%)"]
axes.scatter(*days[pair].to_numpy().T, s=12, color="0.75", label="known days")
axes.scatter(*day[pair].to_numpy().T, s=70, color="black", marker="s", label="23 April")
for (name, one), marker in zip(answers.items(), "XoD", strict=True):
    after = one.x[0, [columns.index(name) for name in pair]].tolist()
    axes.scatter(*after, s=80, marker=marker, edgecolor="black", zorder=3, label=name)
axes.set(xlabel=pair[0], ylabel=pair[1], title="A day on which the plan is wrong by a tenth")
axes.legend()
figure.savefig("flow.png", dpi=120)
