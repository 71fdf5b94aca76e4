"""Models in the files of their own libraries: XGBoost, LightGBM, scikit-learn, treelite, ONNX."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from cfopt.app.trust import Trust
from cfopt.errors import InputError, MissingExtraError
from cfopt.trees.importers import load_ensemble
from cfopt.trees.predictor import TreePredictor
from cfopt.trees.sound import check_lightgbm, check_sklearn, sound_xgboost

#: Compiled types of scikit-learn that its tree ensembles consist of: arrays, no functions.
_PARTS_OF_TREES = (
    "sklearn.tree._tree.Tree",
    "sklearn._loss.",
    "sklearn.ensemble._hist_gradient_boosting.",
)


def load_model(path: Path, trust: Trust, rounding: bool | None = None) -> Any:
    """The model in a file, known by its suffix; any failure to read it is an InputError.

    Arguments:
        path: the file.
        trust: decides whether a file that can execute code is read.
        rounding: of a treelite file, whether the model rounds contexts to float32.
    """
    known = _FORMATS.get(path.suffix.lower())
    if known is None:
        raise InputError(
            f"{path} has a suffix that is not known. Models are read from {', '.join(_FORMATS)}."
        )
    what, package, read = known
    if rounding is not None and read is not _treelite:
        raise InputError(f"rounding is said of files of treelite; {path} is {what}.")
    try:
        return read(path, trust) if rounding is None else _treelite(path, trust, rounding)
    except InputError:
        raise
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{path} is {what}, and {error.name} is not installed. Install it with: "
            f"pip install {package}"
        ) from error
    # Any: a damaged file may raise anything.
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"{path} cannot be read as {what}: {lines[0]:.200}") from error


def _xgboost(path: Path, trust: Trust) -> Any:
    found = import_module("xgboost").Booster()
    found.load_model(sound_xgboost(path))
    return found


def _lightgbm(path: Path, trust: Trust) -> Any:
    library = import_module("lightgbm")
    check_lightgbm(path)
    return library.Booster(model_file=str(path))


def _treelite(path: Path, trust: Trust, rounding: bool | None = None) -> Any:
    return TreePredictor(load_ensemble(path, rounding))


def _skops(path: Path, trust: Trust) -> Any:
    io = import_module("skops.io")
    held = io.get_untrusted_types(file=path)
    unknown = [name for name in held if not name.startswith(_PARTS_OF_TREES)]
    if unknown:
        trust.need(f"{path} holds types that skops does not know ({', '.join(unknown):.120})")
    found = io.load(path, trusted=held)
    check_sklearn(found)
    return found


def _onnx(path: Path, trust: Trust) -> Any:
    session = import_module("onnxruntime").InferenceSession
    return session(str(path), providers=["CPUExecutionProvider"])


def _pickled(path: Path, trust: Trust) -> Any:
    trust.need(
        f"{path} is a pickle, which can execute code on loading; save the model with skops, or in "
        "its library's own format"
    )
    return import_module("joblib").load(path)


_PICKLED = ("a pickled model", "'cfopt[sklearn]'", _pickled)
#: What is in a file, what needs to be installed for it, and how it is read.
_FORMATS: dict[str, tuple[str, str, Callable[[Path, Trust], Any]]] = {
    ".json": ("a model of XGBoost", "xgboost", _xgboost),
    ".ubj": ("a model of XGBoost", "xgboost", _xgboost),
    ".txt": ("a model of LightGBM", "lightgbm", _lightgbm),
    ".treelite": ("a model of treelite", "'cfopt[trees]'", _treelite),
    ".skops": ("a model of scikit-learn, saved by skops", "'cfopt[sklearn]'", _skops),
    ".onnx": ("an ONNX model", "'cfopt[onnx]'", _onnx),
    ".joblib": _PICKLED,
    ".pkl": _PICKLED,
    ".pickle": _PICKLED,
}
