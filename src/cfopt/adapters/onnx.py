"""Models in the ONNX format, run by onnxruntime: predictions without a gradient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cfopt import registry
from cfopt._typing import Array
from cfopt.errors import InputError, PredictorError
from cfopt.extras import require
from cfopt.pipeline import Function

#: What numbers a graph may ask for, as it names them.
_NUMBERS = {"tensor(float)": np.float32, "tensor(double)": np.float64}


@registry.adapters.register
def onnx(model: Any) -> Function | None:
    """An `onnxruntime.InferenceSession`, or the path of an .onnx file, as a function of contexts.

    It needs one input, of numbers in float32 or float64 and any number of rows, and one output.
    Contexts are rounded to the precision that the graph declares.
    """
    if isinstance(model, str | Path) and Path(model).suffix.lower() == ".onnx":
        model = _session(Path(model))
    elif not type(model).__module__.startswith("onnxruntime") or not hasattr(model, "get_inputs"):
        return None
    return Function(_Graph(model))


class _Graph:
    """Runs a session on arrays.

    Arguments:
        session: the session, with one input of numbers, and one output.
    """

    def __init__(self, session: Any) -> None:
        inputs, outputs = session.get_inputs(), session.get_outputs()
        if len(inputs) != 1 or len(outputs) != 1:
            names = [one.name for one in (*inputs, *outputs)]
            raise InputError(
                f"An ONNX model needs one input and one output; got {len(inputs)} and "
                f"{len(outputs)}: {', '.join(names)}. Wrap its session in a function of contexts."
            )
        self.session, self.input, self.output = session, inputs[0], outputs[0].name
        if self.input.type not in _NUMBERS:
            raise InputError(
                f"An ONNX model needs an input of {' or '.join(_NUMBERS)}; {self.input.name!r} is "
                f"{self.input.type}. Wrap its session in a function of contexts."
            )
        rows = self.input.shape[0] if self.input.shape else None
        if isinstance(rows, int):
            raise InputError(
                f"An ONNX model needs an input of any number of rows; {self.input.name!r} has "
                f"{rows}. Export it with a dynamic first axis."
            )

    def __call__(self, x: Array) -> Array:
        """The costs, in the precision that the graph has: `(B, ...) -> (B, n)`."""
        declared = self.input.shape[1:]
        fits = len(declared) == x.ndim - 1 and all(
            size == wanted or not isinstance(wanted, int)
            for size, wanted in zip(x.shape[1:], declared, strict=True)
        )
        if not fits:
            raise PredictorError(
                f"The ONNX model reads {self.input.name!r} of shape "
                f"(rows, {', '.join(map(str, declared))}); got contexts of shape {tuple(x.shape)}."
            )
        if not isinstance(x, np.ndarray):
            raise TypeError("an ONNX model reads arrays")
        given = x.astype(_NUMBERS[self.input.type])
        (costs,) = self.session.run([self.output], {self.input.name: given})
        return np.asarray(costs, dtype=np.float64)


def _session(path: Path) -> Any:
    """Read a file: the graph holds no code of its own, only onnxruntime's operators."""
    require("A model in an .onnx file", "onnx")
    import onnxruntime

    if not path.is_file():
        raise InputError(f"There is no ONNX model {path}.")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors: what it warns of is said again for each batch
    providers = ["CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    # Any: onnxruntime has exceptions of its own, without a common class.
    except Exception as error:
        raise InputError(f"{path} is not an ONNX model that can be run: {error}") from error
