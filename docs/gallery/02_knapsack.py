"""A knapsack whose profits are predicted.

Which orders go into the van? The problem maximises, and you write profits as they are. The question
is what would have made the load that was taken 10% worse than the best one.
"""

import torch

import cfopt
from cfopt.problems import Knapsack

torch.manual_seed(1)
needs = [[3, 4, 2, 5, 3, 4, 2, 3], [2, 5, 4, 3, 1, 4, 3, 2]]
orders = ["bread", "milk", "fruit", "drinks", "meat", "frozen", "sweets", "flowers"]
van = Knapsack(needs, [12, 11])
profits = torch.nn.Linear(4, 8)
with torch.no_grad():
    profits.bias.fill_(2.0)
pipeline = cfopt.Pipeline(profits, van)

names = ["temperature", "demand", "fuel price", "holidays"]
x0 = torch.zeros(1, 4)
e = cfopt.explain(
    x0, pipeline, cfopt.Epsilon(0.1), features=cfopt.Features(names=names), proximity=cfopt.L1()
)
print("Loaded:", [name for name, taken in zip(orders, e.factual[0], strict=True) if taken])
print(e.summary())
e.plot("knapsack.png")
