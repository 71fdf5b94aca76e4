"""Three predictors of delays, unfitted: what can be proved about a plan depends on which it is."""

from __future__ import annotations

from typing import Any

from cfopt.extras import require


def forest() -> Any:
    """Twenty small trees: explained exactly, by `TreeCells`."""
    _need_sklearn()
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(20, max_depth=4, min_samples_leaf=3, random_state=0)


def ridge() -> Any:
    """A linear model: explained exactly, by cutting planes."""
    _need_sklearn()
    from sklearn.linear_model import Ridge

    return _scaled(Ridge(alpha=10.0))


def network() -> Any:
    """A ReLU network with one small layer: explained by gradients, and proved by `Certify`."""
    _need_sklearn()
    from sklearn.neural_network import MLPRegressor

    return _scaled(
        MLPRegressor(
            hidden_layer_sizes=(8,),
            alpha=30.0,
            batch_size=256,
            learning_rate_init=0.02,
            max_iter=1000,
            random_state=0,
        )
    )


#: Each of them by its name.
MODELS = {"forest": forest, "ridge": ridge, "network": network}


def _scaled(model: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), model)


def _need_sklearn() -> None:
    require("A predictor of delays", "sklearn", "scikit-learn")
