"""Models of scikit-learn: translated, they predict what scikit-learn predicts."""

from __future__ import annotations

import itertools
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import cfopt
from cfopt.adapters.forests import predict_of
from cfopt.exact.affine import is_affine
from cfopt.pipeline import Adapted, Function
from cfopt.pipeline.adapted import as_predictor
from cfopt.problems import Finite
from cfopt.testing import PredictorContract

pytest.importorskip("sklearn")
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor, VotingRegressor
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    HuberRegressor,
    Lasso,
    LinearRegression,
    MultiTaskLasso,
    PoissonRegressor,
    Ridge,
    RidgeCV,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVR, LinearSVR

#: Small models need not have converged.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CITIES = ["Milan", "Rome", "Turin"]
PLANS = np.eye(4)


def _numbers(rows: int = 60) -> np.ndarray:
    """Four columns of very different sizes."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 4)) * [1.0, 100.0, 1e-3, 1e6] + [0.0, 500.0, 0.0, 3e6]


def _frame(rows: int = 80, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "temp": rng.normal(15, 8, rows),
            "city": rng.choice(CITIES, rows),
            "wind": rng.gamma(2.0, 5.0, rows),
            "month": rng.integers(1, 5, rows),
            "holiday": rng.random(rows) < 0.3,
        }
    )


def _targets(rows: int, costs: int = 4) -> np.ndarray:
    return np.random.default_rng(5).normal(10, 2, size=(rows, costs))


def _learnable(frame: pd.DataFrame) -> np.ndarray:
    rng = np.random.default_rng(3)
    numbers = np.column_stack(
        [
            (frame["temp"] - 15) / 8,
            (frame["wind"] - 10) / 7,
            frame["holiday"],
            pd.get_dummies(frame["city"]),
            pd.get_dummies(frame["month"]),
        ]
    ).astype(float)
    noise = 0.05 * rng.normal(size=(len(frame), 4))
    return numbers @ rng.normal(size=(numbers.shape[1], 4)) + 12 + noise


def _mlp(**more: Any) -> MLPRegressor:
    return MLPRegressor(hidden_layer_sizes=(6, 5), max_iter=30, random_state=0, **more)


REGRESSORS = [
    LinearRegression(),
    Ridge(0.5),
    RidgeCV(),
    Lasso(0.01),
    ElasticNet(0.01),
    MultiTaskLasso(0.01),
    PLSRegression(2),
    KernelRidge(kernel="linear"),
    RegressorChain(Ridge()),
    GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2),
    TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
    TransformedTargetRegressor(Ridge()),
    MultiOutputRegressor(SGDRegressor(random_state=0)),
    MultiOutputRegressor(HuberRegressor()),
    MultiOutputRegressor(LinearSVR()),
    MultiOutputRegressor(TweedieRegressor(power=0)),
    MultiOutputRegressor(BayesianRidge()),
    MultiOutputRegressor(SVR(kernel="linear")),
    MultiOutputRegressor(TransformedTargetRegressor(Ridge(), transformer=MinMaxScaler())),
    MultiOutputRegressor(VotingRegressor([("a", Ridge()), ("b", Lasso(0.1))])),
]
STEPS = [
    StandardScaler(),
    MinMaxScaler(),
    MaxAbsScaler(),
    RobustScaler(),
    PCA(3),
    PCA(2, whiten=True),
    TruncatedSVD(3),
    PolynomialFeatures(1),
    SimpleImputer(),
    FunctionTransformer(),
    VarianceThreshold(),
    SelectKBest(k=2, score_func=lambda x, y: (x**2).sum(0)),
    make_pipeline(StandardScaler(), make_pipeline(PCA(2))),
    FeatureUnion([("a", StandardScaler()), ("b", PCA(2)), ("c", "drop"), ("d", "passthrough")]),
    ColumnTransformer(
        [("a", StandardScaler(), [0, 1]), ("b", "drop", [2])], remainder="passthrough"
    ),
    ColumnTransformer([("a", PCA(2), slice(1, 4))], remainder=MinMaxScaler()),
    ColumnTransformer([("a", RobustScaler(), [True, False, False, True])]),
]
OTHERS = [
    MultiOutputRegressor(SVR()),
    MultiOutputRegressor(TweedieRegressor(power=0, link="log")),
    make_pipeline(PolynomialFeatures(2), Ridge()),
    make_pipeline(MinMaxScaler(clip=True), Ridge()),
    make_pipeline(FunctionTransformer(np.abs), Ridge()),
    make_pipeline(SimpleImputer(missing_values=0), Ridge()),
    make_pipeline(SimpleImputer(add_indicator=True), Ridge()),
    TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp),
]
NETWORKS = [
    _mlp(),
    _mlp(activation="tanh"),
    _mlp(activation="logistic"),
    _mlp(activation="identity"),
    make_pipeline(PCA(3), _mlp()),
    TransformedTargetRegressor(_mlp(), transformer=StandardScaler()),
    MultiOutputRegressor(make_pipeline(StandardScaler(), _mlp())),
    KernelRidge(kernel="rbf"),
    KernelRidge(kernel="poly", degree=2, gamma=0.3, coef0=2.0),
    KernelRidge(kernel="laplacian", gamma=0.2),
    KernelRidge(kernel="sigmoid", gamma=0.01),
    MultiOutputRegressor(SVR()),
    MultiOutputRegressor(make_pipeline(StandardScaler(), SVR(kernel="poly", coef0=1.0))),
    GaussianProcessRegressor(
        ConstantKernel(2.0) * RBF([1, 2, 1, 3.0]) + WhiteKernel(), optimizer=None
    ),
    GaussianProcessRegressor(
        RBF(2.0) + 0.1 * DotProduct(), alpha=0.1, normalize_y=True, optimizer=None
    ),
    GaussianProcessRegressor(Matern(3.0, nu=2.5), alpha=0.1, optimizer=None),
]
ENCODERS = [
    OneHotEncoder(),
    OneHotEncoder(drop="first"),
    OneHotEncoder(drop="if_binary", sparse_output=False),
    OneHotEncoder(handle_unknown="ignore", min_frequency=0.3),
    OrdinalEncoder(),
    make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
    make_pipeline(OneHotEncoder(sparse_output=False), StandardScaler(), PCA(2)),
    make_pipeline(OrdinalEncoder(), StandardScaler(), PolynomialFeatures(2)),
]


def _name(model: object) -> str:
    """What is tested, the same in every process: without the addresses of functions."""
    text = " ".join(re.sub(r" at 0x[0-9a-f]+", "", str(model)).split())
    return text[:60]


def _agree(predictor: Any, model: Any, given: Any, x: np.ndarray) -> None:
    """The translation, and the model as it is asked in verification."""
    own = np.asarray(model.predict(given)).reshape(len(x), -1)
    tensor = torch.from_numpy(x)
    with torch.no_grad():
        there = predictor(tensor).numpy()
    assert np.abs(there - own).max() <= 1e-9 * np.abs(own).max()
    if isinstance(predictor, Adapted):
        np.testing.assert_array_equal(predictor.deployed(tensor).numpy(), own)


def _elsewhere(x: np.ndarray) -> np.ndarray:
    """Contexts far from the data."""
    rng = np.random.default_rng(9)
    return x.mean(0) + 5 * x.std(0) * rng.normal(size=x.shape)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", REGRESSORS, ids=_name)
def test_linear_models_are_one_affine_map(model: Any) -> None:
    x = StandardScaler().fit_transform(_numbers())
    model.fit(x, _targets(len(x)))
    predictor = as_predictor(model)
    assert is_affine(predictor)
    _agree(predictor, model, _elsewhere(x), _elsewhere(x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("step", STEPS, ids=_name)
@pytest.mark.parametrize("framed", [False, True], ids=["array", "frame"])
def test_affine_steps_are_folded(step: Any, framed: bool) -> None:
    x = _numbers()
    far = _elsewhere(x)
    given = (lambda a: pd.DataFrame(a, columns=list("abcd"))) if framed else (lambda a: a)
    model = make_pipeline(step, Ridge(1e-3)).fit(given(x), _targets(len(x)))
    predictor = as_predictor(model)
    assert is_affine(predictor)
    features = predictor.columns.encode(given(far)) if framed else far
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _agree(predictor, model, given(far), features)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", OTHERS, ids=_name)
def test_what_is_not_affine_is_not_taken_for_it(model: Any) -> None:
    x = StandardScaler().fit_transform(_numbers())
    model.fit(x, _targets(len(x)))
    predictor = as_predictor(model)
    assert not is_affine(predictor)
    _agree(predictor, model, x, x)


def test_a_subclass_may_do_anything_and_is_not_taken_for_affine() -> None:
    class Kinked(LinearRegression):
        def predict(self, x: Any) -> Any:
            return np.maximum(super().predict(x), 0)

    x = _numbers()
    model = Kinked().fit(x, _targets(len(x)))
    assert not is_affine(as_predictor(model))
    assert not is_affine(as_predictor(make_pipeline(StandardScaler(), model)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", NETWORKS, ids=_name)
def test_networks_and_kernels_are_translated_by_their_formulas(model: Any) -> None:
    x = StandardScaler().fit_transform(_numbers())
    model.fit(x, _targets(len(x)))
    predictor = as_predictor(model)
    assert isinstance(predictor, Adapted)
    x = x + 0.1
    _agree(predictor, model, x, x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("encoder", ENCODERS, ids=_name)
@pytest.mark.parametrize("last", [Ridge(), _mlp()], ids=["Ridge", "MLP"])
def test_encoders_are_affine_in_the_values_of_their_columns(encoder: Any, last: Any) -> None:
    frame = _frame()
    model = make_pipeline(
        make_column_transformer(
            (encoder, ["city", "month"]),
            (StandardScaler(), make_column_selector("temp|wind")),
            remainder="passthrough",
        ),
        last,
    )
    if "Polynomial" in repr(encoder):
        model.steps[0][1].transformers[0] = ("city", encoder, ["city"])
    model.fit(frame, _learnable(frame))
    predictor = as_predictor(model)
    assert isinstance(predictor, Adapted)
    assert is_affine(predictor) == isinstance(last, Ridge)
    other = _frame(50, seed=1)
    assert predictor.columns.categories["city"] == tuple(CITIES)
    _agree(predictor, model, other, predictor.columns.encode(other))


@pytest.mark.filterwarnings("ignore")
def test_target_encoders_are_affine_in_the_values_of_their_columns() -> None:
    frame = _frame()
    steps = make_column_transformer((TargetEncoder(), ["city"]), remainder="drop")
    model = MultiOutputRegressor(make_pipeline(steps, Ridge())).fit(frame, _learnable(frame))
    predictor = as_predictor(model)
    assert is_affine(predictor)
    _agree(predictor, model, frame, predictor.columns.encode(frame))


def test_the_polynomial_of_several_encoded_columns_is_not_affine() -> None:
    frame = _frame()
    steps = make_pipeline(OneHotEncoder(), PolynomialFeatures(2))
    steps = make_column_transformer((steps, ["city", "month"]))
    model = make_pipeline(steps, Ridge()).fit(frame, _learnable(frame))
    predictor = as_predictor(model)
    assert isinstance(predictor, Function)
    _agree(predictor, model, frame, predictor.columns.encode(frame))


@pytest.mark.parametrize(
    "model", [RandomForestRegressor(3, random_state=0), PoissonRegressor()], ids=_name
)
def test_other_models_are_functions_of_the_columns_they_were_fitted_on(model: Any) -> None:
    frame = _frame()
    steps = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    costs = _learnable(frame)
    costs = costs[:, 0] if isinstance(model, PoissonRegressor) else costs
    model = make_pipeline(steps, model).fit(frame, costs)
    predictor = as_predictor(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _agree(predictor, model, frame, predictor.columns.encode(frame))


@pytest.mark.parametrize("model", [Ridge(), RandomForestRegressor(), make_pipeline(Ridge())])
def test_a_model_that_is_not_fitted_is_refused_at_once(model: Any) -> None:
    with pytest.raises(cfopt.InputError, match="Call fit first"):
        cfopt.Pipeline(model, Finite(np.eye(3)))


def test_columns_that_a_model_drops_need_not_be_numbers() -> None:
    frame = _frame().assign(note="text")
    steps = make_column_transformer((OneHotEncoder(), ["city"]), ("passthrough", ["temp"]))
    model = make_pipeline(steps, Ridge()).fit(frame, _learnable(frame))
    predictor = as_predictor(model)
    assert is_affine(predictor)
    assert predictor.columns.names == ("temp", "city")
    _agree(predictor, model, frame, predictor.columns.encode(frame))
    e = cfopt.explain(frame.head(3), cfopt.Pipeline(model, Finite(PLANS)), cfopt.Epsilon(0.1))
    assert e.valid.all()


def test_a_model_fitted_on_an_array_of_objects_reads_one() -> None:
    frame = _frame()
    steps = make_column_transformer((OneHotEncoder(), [1]), ("passthrough", [0, 2]))
    model = make_pipeline(steps, Ridge()).fit(frame.to_numpy(dtype=object), _learnable(frame))
    predictor = as_predictor(model)
    assert is_affine(predictor)
    assert predictor.columns.categories == {"x1": tuple(CITIES)}
    named = frame.set_axis(predictor.columns.names, axis=1)
    _agree(predictor, model, frame.to_numpy(dtype=object), predictor.columns.encode(named))


@pytest.fixture(scope="module")
def mixed() -> Any:
    """A pipeline as people have them: scaled numbers, encoded categories, a linear model."""
    frame = _frame(300)
    steps = make_column_transformer(
        (StandardScaler(), ["temp", "wind"]),
        (OneHotEncoder(drop="first"), ["city", "month"]),
        ("passthrough", ["holiday"]),
    )
    return make_pipeline(steps, Ridge(0.1)).fit(frame, _learnable(frame))


def _asked(mixed: Any) -> tuple[pd.DataFrame, np.ndarray, cfopt.Explanation]:
    frame = _frame(6, seed=7)
    wanted = (mixed.predict(frame).argmin(1) + 1) % 4
    features = cfopt.Features(
        scale=[8.0, 1.0, 7.0, 1.0, 1.0],
        lower={"temp": -10.0, "wind": 0.0},
        upper={"temp": 40.0, "wind": 40.0},
    )
    e = cfopt.explain(
        frame,
        cfopt.Pipeline(mixed, Finite(PLANS)),
        cfopt.Absolute(torch.from_numpy(PLANS[wanted])),
        features=features,
    )
    return frame, wanted, e


def test_a_mixed_frame_goes_in_and_comes_out_with_proofs(mixed: Any) -> None:
    frame, wanted, e = _asked(mixed)
    assert e.valid.all()
    assert e.optimal.all()
    pd.testing.assert_frame_equal(e.frame_before, frame)
    assert e.frame.dtypes.tolist() == frame.dtypes.tolist()
    own = mixed.predict(e.frame)
    # The answer lies on a boundary, where the wanted plan ties with another.
    assert (own[np.arange(6), wanted] <= own.min(1) + 1e-6).all()
    np.testing.assert_allclose(e.costs.numpy(), own, rtol=1e-12)


def test_proved_distances_are_those_of_brute_force_over_categories(mixed: Any) -> None:
    """For each city, month and holiday a fine grid of the two numbers that are left."""
    frame, wanted, e = _asked(mixed)
    temp, wind = np.meshgrid(np.linspace(-10, 40, 161), np.linspace(0, 40, 161))
    for row in range(3):
        here, best = frame.iloc[row], np.inf
        for city, month, holiday in itertools.product(CITIES, range(1, 5), [False, True]):
            changed = 2 * (city != here["city"]) + 2 * (month != here["month"])
            near = changed + (holiday != here["holiday"])
            near = near + ((temp - here["temp"]) / 8) ** 2 + ((wind - here["wind"]) / 7) ** 2
            grid = pd.DataFrame({"temp": temp.ravel(), "wind": wind.ravel()})
            grid = grid.assign(city=city, month=month, holiday=holiday)[list(frame.columns)]
            valid = mixed.predict(grid).argmin(1) == wanted[row]
            best = min(best, near.ravel()[valid].min(initial=np.inf))
        assert float(e.loss[row]) <= best
        assert best <= float(e.loss[row]) + 0.15


def test_a_category_can_be_held_and_an_unknown_value_is_refused(mixed: Any) -> None:
    frame = _frame(4, seed=8)
    pipeline = cfopt.Pipeline(mixed, Finite(PLANS))
    features = cfopt.Features(immutable=["city", "month"])
    e = cfopt.explain(frame, pipeline, cfopt.Epsilon(0.2), features=features)
    assert e.valid.all()
    assert (e.frame[["city", "month"]] == frame[["city", "month"]]).all(axis=None)
    with pytest.raises(cfopt.InputError, match=r"row 2 has 'Milano'\. Did you mean 'Milan'"):
        pipeline.decide(frame.assign(city=["Rome", "Rome", "Milano", "Turin"]))


def test_a_network_behind_a_preprocessing_pipeline_is_explained() -> None:
    frame = _frame(200)
    steps = make_column_transformer(
        (StandardScaler(), ["temp", "wind"]), (OneHotEncoder(), ["city"]), remainder="drop"
    )
    target = StandardScaler()
    network = TransformedTargetRegressor(
        MLPRegressor(hidden_layer_sizes=(12,), max_iter=300, random_state=0), transformer=target
    )
    model = make_pipeline(steps, network).fit(frame, _learnable(frame))
    pipeline = cfopt.Pipeline(model, Finite(PLANS))
    e = cfopt.explain(frame.head(4), pipeline, cfopt.Epsilon(0.1))
    assert e.valid.all()
    own = model.predict(e.frame)
    factual = e.factual.numpy().astype(bool)
    assert (own[factual] >= 1.1 * own.min(1) - 1e-6).all()


class TestFolded(PredictorContract):
    def predictor(self) -> Any:
        x = _numbers()
        model = make_pipeline(StandardScaler(), Ridge()).fit(x, _targets(len(x)))
        return as_predictor(model)

    def contexts(self) -> torch.Tensor:
        return torch.from_numpy(_numbers(5))


class TestNetwork(PredictorContract):
    def predictor(self) -> Any:
        x = StandardScaler().fit_transform(_numbers())
        return as_predictor(_mlp(activation="tanh").fit(x, _targets(len(x))))

    def contexts(self) -> torch.Tensor:
        return torch.from_numpy(StandardScaler().fit_transform(_numbers(5)))


class TestForest(PredictorContract):
    def predictor(self) -> Any:
        x = _numbers()
        forest = RandomForestRegressor(4, random_state=0).fit(x, _targets(len(x)))
        return Function(forest.predict)

    def contexts(self) -> torch.Tensor:
        return torch.from_numpy(_numbers(5))


class TestProcess(PredictorContract):
    """A Gaussian process behind a scaler, by its formula."""

    def predictor(self) -> Any:
        x = _numbers(20)
        kernel = ConstantKernel() * RBF(2.0) + DotProduct() + WhiteKernel(0.1)
        process = GaussianProcessRegressor(kernel, optimizer=None)
        return as_predictor(make_pipeline(StandardScaler(), process).fit(x, _targets(len(x))))

    def contexts(self) -> torch.Tensor:
        return torch.from_numpy(_numbers(5))


class TestEncoded(PredictorContract):
    """Categories, numbers and truth values, as one affine map of what stands for them."""

    def predictor(self) -> Any:
        frame = _frame()
        steps = make_column_transformer(
            (StandardScaler(), ["temp", "wind"]), (OneHotEncoder(), ["city", "month"])
        )
        return as_predictor(make_pipeline(steps, Ridge()).fit(frame, _targets(len(frame))))

    def contexts(self) -> torch.Tensor:
        return torch.from_numpy(self.predictor().columns.encode(_frame(5)))


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
@pytest.mark.parametrize("targets", [1, 4])
def test_a_forest_asked_for_few_rows_predicts_the_same_numbers_to_the_last_bit(
    kind: type, targets: int
) -> None:
    x, rng = _numbers(), np.random.default_rng(1)
    y = rng.normal(size=(len(x), targets)) + x[:, :1]
    model = kind(n_estimators=7, max_depth=5, random_state=0)
    model.fit(x, y[:, 0] if targets == 1 else y)
    predict = predict_of(model)
    at_thresholds = np.tile(x[:1], (7, 1))
    for row, tree in enumerate(model.estimators_):
        at_thresholds[row, tree.tree_.feature[0]] = tree.tree_.threshold[0]
    for given in (x[:1], x[:20], at_thresholds):
        assert np.array_equal(predict(given), model.predict(given))
    with pytest.raises(ValueError, match="3 features"):
        predict(x[:, :3])
    with pytest.raises(ValueError, match="infinity"):
        predict(np.full((1, 4), np.inf))
