"""ONNX graphs as predictors, against the same arithmetic in NumPy."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from tests.pipelines import normal
from torch import Tensor

import cfopt
from cfopt.errors import InputError, PredictorError
from cfopt.pipeline.adapted import as_predictor
from cfopt.problems import Finite
from cfopt.testing import PredictorContract

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

WEIGHT = np.random.default_rng(0).uniform(0.5, 1.5, size=(4, 3))
DECISIONS = np.eye(3)


def _write(
    path: Path, rows: str | int = "rows", inputs: int = 1, kind: int = TensorProto.FLOAT
) -> Path:
    """`relu(x) @ WEIGHT` for one input; what others are called is not read."""
    dtype = np.float32 if kind == TensorProto.FLOAT else np.float64
    given = [helper.make_tensor_value_info(f"x{k}", kind, [rows, 4]) for k in range(inputs)]
    nodes = [
        helper.make_node("Relu", ["x0"], ["positive"]),
        helper.make_node("MatMul", ["positive", "weight"], ["costs"]),
    ]
    weight = numpy_helper.from_array(WEIGHT.astype(dtype), "weight")
    costs = helper.make_tensor_value_info("costs", kind, [rows, 3])
    graph = helper.make_graph(nodes, "costs", given, [costs], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_a_file_predicts_and_is_explained(tmp_path: Path, kind: int) -> None:
    path = _write(tmp_path / "costs.onnx", kind=kind)
    x = np.random.default_rng(1).uniform(0.0, 2.0, size=(5, 4))
    for model in (path, str(path)):
        pipeline = cfopt.Pipeline(model, Finite(DECISIONS))
        assert pipeline.costs(x).numpy() == pytest.approx(np.maximum(x, 0) @ WEIGHT, rel=1e-5)
    wanted = 1.0 * (DECISIONS[(x @ WEIGHT).argsort(1)[:, 1]])
    e = cfopt.explain(x, pipeline, cfopt.Absolute(wanted))
    assert e.valid.all()
    costs = np.maximum(e.x.numpy(), 0) @ WEIGHT
    assert ((costs * wanted).sum(1) <= costs.min(1) + 1e-4).all()


def test_a_session_is_taken_as_it_is(tmp_path: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(_write(tmp_path / "costs.onnx")))
    x = np.ones((2, 4))
    costs = cfopt.Pipeline(session, Finite(DECISIONS)).costs(x)
    assert costs.numpy() == pytest.approx(x @ WEIGHT, rel=1e-5)


def test_what_cannot_be_run_is_refused(tmp_path: Path) -> None:
    problem = Finite(DECISIONS)
    with pytest.raises(InputError, match="one input and one output; got 2 and 1: x0, x1, costs"):
        cfopt.Pipeline(_write(tmp_path / "two.onnx", inputs=2), problem)
    with pytest.raises(InputError, match="dynamic first axis"):
        cfopt.Pipeline(_write(tmp_path / "fixed.onnx", rows=1), problem)
    with pytest.raises(InputError, match="There is no ONNX model"):
        cfopt.Pipeline(tmp_path / "none.onnx", problem)
    (tmp_path / "text.onnx").write_text("no graph")
    with pytest.raises(InputError, match="is not an ONNX model that can be run"):
        cfopt.Pipeline(tmp_path / "text.onnx", problem)
    pipeline = cfopt.Pipeline(_write(tmp_path / "costs.onnx"), problem)
    with pytest.raises(PredictorError, match=r"shape \(rows, 4\); got contexts of shape \(1, 5\)"):
        pipeline.costs(np.ones((1, 5)))


class TestGraph(PredictorContract):
    def predictor(self) -> Any:
        with TemporaryDirectory() as folder:
            return as_predictor(_write(Path(folder) / "costs.onnx", kind=TensorProto.DOUBLE))

    def contexts(self) -> Tensor:
        return normal(5, 4)
