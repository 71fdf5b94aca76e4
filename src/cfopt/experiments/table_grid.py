"""Shortest paths on a grid: the paper's sweeps over features, size, depth and epsilon."""

from __future__ import annotations

from cfopt.experiments.scale import Scale
from cfopt.experiments.table_models import TrainTable, base_model
from cfopt.experiments.table_sweeps import Knob, TableEpsilon, TableSweep


class GridFeatures(TableSweep):
    """Iterations on the 5x5 grid against the number of features."""

    name = "grid-features"
    title = "Explaining paths on a 5x5 grid, with more and more features"
    keys = ("search", "criterion", "features")
    knob = Knob("features", "Number of features", "grid: iterations vs number of features n_x")

    def models(self, scale: Scale) -> list[TrainTable]:
        """Linear regression with the mean squared error."""
        return [base_model("grid", features=features) for features in scale.grid_features]


class GridSize(TableSweep):
    """Iterations with 10 features against the size of the grid."""

    name = "grid-size"
    title = "Explaining paths on larger and larger grids"
    keys = ("search", "criterion", "size")
    knob = Knob("size", "Side of the grid", "grid: iterations vs grid size N")

    def models(self, scale: Scale) -> list[TrainTable]:
        """Linear regression with SPO+."""
        return [base_model("grid", size=size, training="SPO+") for size in scale.grid_sizes]


class GridDepth(TableSweep):
    """Iterations on the 5x5 grid with 10 features against the depth of the predictor."""

    name = "grid-depth"
    title = "Explaining paths on a 5x5 grid, with deeper and deeper predictors"
    keys = ("search", "criterion", "layers")
    knob = Knob("layers", "Number of layers", "grid: iterations vs number of layers L")

    def models(self, scale: Scale) -> list[TrainTable]:
        """Networks trained with the mean squared error until they get no better."""
        return [base_model("grid", layers=depth, converged=True) for depth in scale.depths]


class GridEpsilon(TableEpsilon):
    """How far epsilon-explanations on the 5x5 grid with 10 features are, against epsilon."""

    name = "grid-epsilon"
    title = "Epsilon-explanations on a 5x5 grid"
    knob = Knob("epsilon", "epsilon", "grid: squared distance vs epsilon")

    def model(self) -> TrainTable:
        """Linear regression with SPO+."""
        return base_model("grid", training="SPO+")

    def epsilons(self, scale: Scale) -> tuple[float, ...]:
        """Those of the scale."""
        return scale.grid_epsilons
