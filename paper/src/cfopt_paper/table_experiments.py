"""The paper's eight experiments on tables: grid and knapsack, each against four settings.

Predictors are linear and trained with the mean squared error against the number of features, with
SPO+ against size and epsilon; against depth, networks are trained with the mean squared error until
the validation loss stops falling. With few features, linear regression cannot make every packing of
a knapsack the best one. The paper assumes this of the tasks on which MDMM runs out of steps; our
search proves for which tasks it is true.
"""

from __future__ import annotations

from cfopt_paper.table_models import base_model
from cfopt_paper.table_sweeps import Setting, TableEpsilon, TableExperiment, TableSweep

TABLES: tuple[TableExperiment, ...] = (
    TableSweep(
        "grid-features",
        "Explaining paths on a 5x5 grid, with more and more features",
        Setting("features", "Number of features", "grid: iterations vs number of features n_x"),
        lambda scale: [base_model("grid", features=count) for count in scale.grid_features],
    ),
    TableSweep(
        "grid-size",
        "Explaining paths on larger and larger grids",
        Setting("size", "Side of the grid", "grid: iterations vs grid size N"),
        lambda scale: [base_model("grid", size=size, training="SPO+") for size in scale.grid_sizes],
    ),
    TableSweep(
        "grid-depth",
        "Explaining paths on a 5x5 grid, with deeper and deeper predictors",
        Setting("layers", "Number of layers", "grid: iterations vs number of layers L"),
        lambda scale: [base_model("grid", layers=depth, converged=True) for depth in scale.depths],
    ),
    TableEpsilon(
        "grid-epsilon",
        "Epsilon-explanations on a 5x5 grid",
        Setting("epsilon", "epsilon", "grid: squared distance vs epsilon"),
        base_model("grid", training="SPO+"),
        lambda scale: scale.grid_epsilons,
    ),
    TableSweep(
        "knapsack-features",
        "Explaining knapsacks of 16 items, with more and more features",
        Setting("features", "Number of features", "knapsack: iterations vs number of features n_x"),
        lambda scale: [base_model("knapsack", features=n) for n in scale.knapsack_features],
    ),
    TableSweep(
        "knapsack-items",
        "Explaining knapsacks of more and more items",
        Setting("size", "Number of items", "knapsack: iterations vs number of items m"),
        lambda scale: [base_model("knapsack", size=n, training="SPO+") for n in scale.items],
    ),
    TableSweep(
        "knapsack-depth",
        "Explaining knapsacks of 16 items, with deeper and deeper predictors",
        Setting("layers", "Number of layers", "knapsack: iterations vs number of layers L"),
        lambda scale: [base_model("knapsack", layers=n, converged=True) for n in scale.depths],
    ),
    TableEpsilon(
        "knapsack-epsilon",
        "Epsilon-explanations of knapsacks of 16 items",
        Setting("epsilon", "epsilon", "knapsack: squared distance vs epsilon"),
        base_model("knapsack", training="SPO+"),
        lambda scale: scale.knapsack_epsilons,
        log=True,
    ),
)
