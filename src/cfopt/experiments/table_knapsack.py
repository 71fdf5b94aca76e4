"""Knapsacks: the paper's sweeps over features, items, depth and epsilon."""

from __future__ import annotations

from cfopt.experiments.scale import Scale
from cfopt.experiments.table_models import TrainTable, base_model
from cfopt.experiments.table_sweeps import Knob, TableEpsilon, TableSweep


class KnapsackFeatures(TableSweep):
    """Iterations with 16 items against the number of features.

    With few features linear regression cannot make every packing the best one. The paper takes the
    tasks on which MDMM runs out of steps for such; our search proves which ones are.
    """

    name = "knapsack-features"
    title = "Explaining knapsacks of 16 items, with more and more features"
    keys = ("search", "criterion", "features")
    knob = Knob("features", "Number of features", "knapsack: iterations vs number of features n_x")

    def models(self, scale: Scale) -> list[TrainTable]:
        """Linear regression with the mean squared error."""
        return [base_model("knapsack", features=features) for features in scale.knapsack_features]


class KnapsackItems(TableSweep):
    """Iterations with 5 features against the number of items."""

    name = "knapsack-items"
    title = "Explaining knapsacks of more and more items"
    keys = ("search", "criterion", "size")
    knob = Knob("size", "Number of items", "knapsack: iterations vs number of items m")

    def models(self, scale: Scale) -> list[TrainTable]:
        """Linear regression with SPO+."""
        return [base_model("knapsack", size=items, training="SPO+") for items in scale.items]


class KnapsackDepth(TableSweep):
    """Iterations with 16 items and 5 features against the depth of the predictor."""

    name = "knapsack-depth"
    title = "Explaining knapsacks of 16 items, with deeper and deeper predictors"
    keys = ("search", "criterion", "layers")
    knob = Knob("layers", "Number of layers", "knapsack: iterations vs number of layers L")

    def models(self, scale: Scale) -> list[TrainTable]:
        """Networks trained with the mean squared error until they get no better."""
        return [base_model("knapsack", layers=depth, converged=True) for depth in scale.depths]


class KnapsackEpsilon(TableEpsilon):
    """How far epsilon-explanations with 16 items and 5 features are, against epsilon."""

    name = "knapsack-epsilon"
    title = "Epsilon-explanations of knapsacks of 16 items"
    knob = Knob("epsilon", "epsilon", "knapsack: squared distance vs epsilon")
    log = True

    def model(self) -> TrainTable:
        """Linear regression with SPO+."""
        return base_model("knapsack", training="SPO+")

    def epsilons(self, scale: Scale) -> tuple[float, ...]:
        """Those of the scale."""
        return scale.knapsack_epsilons
