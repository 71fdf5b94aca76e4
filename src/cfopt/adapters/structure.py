"""Which models of scikit-learn are affine maps of their columns, known by their structure.

A model is followed step by step, from the columns that it was fitted on to its prediction. Only
scikit-learn's own classes are recognised, by exact type and settings: a subclass may do anything.
Nothing is concluded from samples, since a model that is affine where it was tried need not be so
elsewhere, and would yield false proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from cfopt.pipeline import Columns


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Regressors whose predictions are affine, whatever their settings.
_LINEAR = _names(
    "LinearRegression Ridge RidgeCV Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC Lars LarsCV "
    "ElasticNet ElasticNetCV MultiTaskLasso MultiTaskLassoCV MultiTaskElasticNet "
    "MultiTaskElasticNetCV OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV BayesianRidge "
    "ARDRegression HuberRegressor TheilSenRegressor QuantileRegressor SGDRegressor LinearSVR "
    "PLSRegression PLSCanonical CCA DummyRegressor"
)
#: Those that are, with a linear kernel.
_WITH_KERNEL = frozenset({"SVR", "NuSVR", "KernelRidge"})
#: Models that predict as the one they have chosen.
CHOSEN = {
    "GridSearchCV": "best_estimator_",
    "RandomizedSearchCV": "best_estimator_",
    "HalvingGridSearchCV": "best_estimator_",
    "HalvingRandomSearchCV": "best_estimator_",
    "RANSACRegressor": "estimator_",
}
_SCALERS = frozenset({"StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"})
_IMPUTERS = frozenset({"SimpleImputer", "KNNImputer", "IterativeImputer"})
_SELECTORS = _names(
    "VarianceThreshold SelectKBest SelectPercentile SelectFpr SelectFdr SelectFwe SelectFromModel "
    "GenericUnivariateSelect RFE RFECV SequentialFeatureSelector"
)
_PROJECTIONS = _names(
    "PCA IncrementalPCA TruncatedSVD FactorAnalysis FastICA GaussianRandomProjection "
    "SparseRandomProjection PLSRegression"
)
_ENCODERS = frozenset({"OneHotEncoder", "OrdinalEncoder", "TargetEncoder"})


def name_of(model: object) -> str:
    """The name of a class of scikit-learn; "" for anything else, subclasses among it."""
    kind = type(model)
    own = {"predict", "transform", "inverse_transform"} & set(getattr(model, "__dict__", ()))
    known = kind.__module__.partition(".")[0] == "sklearn" and not own
    return kind.__name__ if known else ""


@dataclass(frozen=True)
class Entry:
    """A column somewhere within a model.

    Arguments:
        source: the column of the data that it is a function of, if it is one column alone.
        untouched: whether it is that column itself.
    """

    source: int | None = None
    untouched: bool = False


def _is_linked_by_identity(name: str, model: Any) -> bool:
    """Whether a generalised linear model was fitted without a logarithm."""
    loss = getattr(model, "_base_loss", None)  # what `predict` goes by, whatever was set since
    return name == "TweedieRegressor" and type(loss).__name__ == "HalfTweedieLossIdentity"


class NotAffineError(Exception):
    """The model has a step that is not known to be affine."""


@dataclass
class Structure:
    """What is learned about the data's columns while a model is followed.

    Encoders turn a column into functions of its value alone, and each function of one of several
    values is affine in the 0 or 1 that stand for them.

    Arguments:
        size: the number of columns.
        lenient: whether to go on after a step that is not affine, to see the columns' categories.
        categories: the values of those columns that an encoder reads.
        used: the columns that some step reads; others were dropped.
    """

    size: int
    lenient: bool = False
    categories: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)

    @property
    def start(self) -> list[Entry]:
        """The columns of the data."""
        return [Entry(j, True) for j in range(self.size)]

    def predict(self, model: Any, entries: Sequence[Entry] | None) -> None:
        """Follow a regressor; NotAffineError if it is not affine in the entries."""
        name = name_of(model)
        if name in CHOSEN:
            self.predict(getattr(model, CHOSEN[name]), entries)
        elif name == "Pipeline":
            for _, step in model.steps[:-1]:
                entries = self.transform(step, entries)
            self.predict(model.steps[-1][1], entries)
        elif name == "TransformedTargetRegressor":
            self.predict(model.regressor_, entries)
            self._need(has_affine_inverse(model.transformer_))
        elif name in ("MultiOutputRegressor", "VotingRegressor"):
            for one in model.estimators_:
                self.predict(one, entries)
        elif name == "RegressorChain":
            for k, one in enumerate(model.estimators_):
                self.predict(one, None if entries is None else [*entries, *[Entry()] * k])
        else:
            self._read(entries or ())
            linear = name in _WITH_KERNEL and model.kernel == "linear"
            self._need(name in _LINEAR or linear or _is_linked_by_identity(name, model))

    def transform(self, step: Any, entries: Sequence[Entry] | None) -> list[Entry] | None:
        """What a transformer makes of entries; None where that is not known."""
        if entries is None:
            return None
        name = name_of(step)
        if step is None or (isinstance(step, str) and step == "passthrough"):
            return list(entries)
        if isinstance(step, str):
            return []  # dropped
        if name == "Pipeline":
            found: list[Entry] | None = list(entries)
            for _, one in step.steps:
                found = self.transform(one, found)
            return found
        if name == "FeatureUnion":
            return self._joined([(one, entries) for _, one in step.transformer_list])
        if name == "ColumnTransformer":
            names = getattr(step, "feature_names_in_", None)
            parts = [(one, _picked(which, names, entries)) for _, one, which in step.transformers_]
            return self._joined(parts)
        self._read(entries)
        if name in _ENCODERS:
            return self._encoded(step, entries)
        return self._plain(name, step, entries)

    def _joined(self, parts: Sequence[tuple[Any, Sequence[Entry]]]) -> list[Entry] | None:
        found = [self.transform(one, entries) for one, entries in parts]
        known = [part for part in found if part is not None]
        return [entry for part in known for entry in part] if len(known) == len(found) else None

    def _encoded(self, encoder: Any, entries: Sequence[Entry]) -> list[Entry] | None:
        found: list[Entry] = []
        for entry, values in zip(entries, encoder.categories_, strict=True):
            if entry.source is None or not entry.untouched:
                return self._refuse()
            taken = tuple(value for value in values.tolist() if not pd.isna(value))
            if self.categories.setdefault(entry.source, taken) != taken:
                return self._refuse()  # two encoders that know different values
            found.append(Entry(entry.source))
        counts = _encoded_widths(encoder)
        if sum(counts) != len(encoder.get_feature_names_out()):  # of costs that are classes
            return [Entry()] * len(encoder.get_feature_names_out())
        return [entry for entry, count in zip(found, counts, strict=True) for _ in range(count)]

    def _plain(self, name: str, step: Any, entries: Sequence[Entry]) -> list[Entry] | None:
        """Transformers of numbers."""
        if name == "FunctionTransformer" and step.func is None:
            return list(entries)
        if name in _SCALERS and not getattr(step, "clip", False):
            return [replace(entry, untouched=False) for entry in entries]
        if name in _IMPUTERS and not step.add_indicator and _is_missing(step.missing_values):
            # The identity, as contexts are complete; but columns that were always empty are left.
            whole = len(step.get_feature_names_out()) == len(entries)
            return list(entries) if whole else self._refuse()
        if name in _SELECTORS:
            kept = zip(entries, step.get_support().tolist(), strict=True)
            return [entry for entry, keep in kept if keep]
        if name in _PROJECTIONS:
            return [Entry()] * len(step.get_feature_names_out())
        if name == "PolynomialFeatures":
            sources = {entry.source for entry in entries}
            alone = len(sources) == 1 and next(iter(sources)) in self.categories
            degree = step.degree if isinstance(step.degree, int) else max(step.degree)
            if alone or degree <= 1:
                source = next(iter(sources)) if alone else None
                return [Entry(source)] * step.n_output_features_
        return self._refuse()

    def _read(self, entries: Sequence[Entry]) -> None:
        self.used |= {entry.source for entry in entries if entry.source is not None}

    def _need(self, affine: bool) -> None:
        if not affine:
            self._refuse()

    def _refuse(self) -> list[Entry] | None:
        if not self.lenient:
            raise NotAffineError
        return None


def has_affine_inverse(transformer: Any) -> bool:
    """Whether the inverse of a transformer of targets is affine."""
    name = name_of(transformer)
    if name == "FunctionTransformer":
        return transformer.func is None and transformer.inverse_func is None
    return name in _SCALERS and not getattr(transformer, "clip", False)


def columns_of(model: Any) -> Columns | None:
    """The columns of the DataFrames that a model reads; None if it reads arrays of numbers.

    Categories are those whose values an encoder within the model knows. Columns that the model
    drops are left out.
    """
    size = getattr(model, "n_features_in_", None)
    names = getattr(model, "feature_names_in_", None)
    if size is None:
        return None
    structure = Structure(size, lenient=True)
    structure.predict(model, structure.start)
    if names is None and not structure.categories:
        return None
    labels = [f"x{j}" for j in range(size)] if names is None else [str(name) for name in names]
    kept = range(size) if names is None else sorted(structure.used)
    categories = {labels[j]: values for j, values in structure.categories.items()}
    return Columns([labels[j] for j in kept], categories)


def is_affine(model: Any, size: int) -> bool:
    """Whether a regressor is known to be an affine map of its columns, if categories allow."""
    structure = Structure(size)
    try:
        structure.predict(model, structure.start)
    except NotAffineError:
        return False
    return True


def is_affine_step(step: Any, size: int) -> bool:
    """Whether a transformer is known to be an affine map of its columns."""
    structure = Structure(size)
    try:
        structure.transform(step, structure.start)
    except NotAffineError:
        return False
    return True


def _picked(which: Any, names: Any, entries: Sequence[Entry]) -> list[Entry]:
    """The entries that a ColumnTransformer hands to one of its transformers."""
    index = pd.Index([] if names is None else names)
    texts = [which] if isinstance(which, str) else which
    if isinstance(which, slice) and isinstance(which.start or which.stop, str):
        numbers = np.arange(len(index))[index.slice_indexer(which.start, which.stop)]
    elif not isinstance(which, slice) and len(np.atleast_1d(texts)) and _is_text(texts):
        numbers = index.get_indexer(list(texts))
    else:
        numbers = np.atleast_1d(np.arange(len(entries))[which])
    return [entries[int(j)] for j in numbers]


def _is_text(which: Any) -> bool:
    return all(isinstance(one, str) for one in which) if np.ndim(which) else False


def _encoded_widths(encoder: Any) -> list[int]:
    """How many columns an encoder makes of each of its columns."""
    if name_of(encoder) != "OneHotEncoder":
        return [1] * len(encoder.categories_)
    counts = [len(values) for values in encoder.categories_]
    rare = getattr(encoder, "infrequent_categories_", None) or [None] * len(counts)
    left_out = [None] * len(counts) if encoder.drop_idx_ is None else encoder.drop_idx_
    for j, (few, dropped) in enumerate(zip(rare, left_out, strict=True)):
        counts[j] += (0 if few is None else 1 - len(few)) - (dropped is not None)
    return counts


def _is_missing(value: Any) -> bool:
    return value is None or bool(pd.isna(value))
