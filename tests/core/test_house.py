"""The house: what is loaded when, documentation, and global state left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.pipelines import another, normal

import cfopt
from cfopt.app.demo import run

ROOT = Path(__file__).parents[2]


def test_a_task_loads_no_training_code() -> None:
    code = (
        "import sys, cfopt.engine.task\n"
        "print(*(name for name in sys.modules if name.startswith('cfopt.generative.')))\n"
        "assert 'rich' not in sys.modules and 'matplotlib' not in sys.modules\n"
        "assert cfopt.generative.train and 'cfopt.generative.training' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cfopt.generative.protocol"]


@pytest.mark.slow
def test_the_package_can_be_used_without_its_extras() -> None:
    """PyEPO, OR-Tools and Gurobi are optional, and pydantic is for the outer layers only."""
    code = (
        "import sys\n"
        "for name in ('pyepo', 'ortools', 'gurobipy', 'pydantic'): sys.modules[name] = None\n"
        "import cfopt, torch\n"
        "from cfopt.datasets import synthetic\n"
        "problem = cfopt.problems.GridShortestPath(3, 3)\n"
        "pipeline = cfopt.Pipeline(torch.nn.Linear(2, 12), problem)\n"
        "search = cfopt.MDMM(max_steps=3)\n"
        "e = cfopt.explain(torch.ones(2), pipeline, cfopt.Epsilon(0.1), search=search)\n"
        "try: synthetic.grid(5, 2)\n"
        "except cfopt.MissingExtraError as error: print(len(e), error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "1 Synthetic data needs pyepo" in done.stdout
    assert "pip install 'cfopt[pyepo]'" in done.stdout


@pytest.mark.slow
def test_public_names_are_loaded_on_first_use() -> None:
    code = (
        "import sys, cfopt\n"
        "assert 'torch' not in sys.modules\n"
        "from cfopt._explain import explain\n"
        "assert cfopt.explain is explain and cfopt.MDMM and cfopt.datasets.Terrain\n"
        "assert {'MDMM', 'explain'} <= set(dir(cfopt)) and cfopt.__version__\n"
        "from cfopt import *\n"
        "assert Pipeline is cfopt.Pipeline and explain is cfopt.explain\n"
        "try: cfopt.Explain\n"
        "except AttributeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "No cfopt attribute Explain\n"


def _snippets(path: Path) -> list[str]:
    parts = path.read_text().split("```python\n")[1:]
    return [part.split("```")[0] for part in parts]


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "CONTRIBUTING.md",
        pytest.param("docs/any-predictor.md", marks=pytest.mark.slow),
    ],
)
def test_the_examples_in_the_documents_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snippets = _snippets(ROOT / name)
    assert snippets
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    module = ModuleType("documented")
    monkeypatch.setitem(sys.modules, "documented", module)
    for snippet in snippets:
        exec(compile(snippet, name, "exec"), module.__dict__)
    if name == "README.md":
        e = cfopt.Explanation.from_json(tmp_path / "why.json")
        assert e.x.shape == (100, 10)
        assert e.valid.shape == e.distance.shape == e.optimal.shape == (100,)
        assert isinstance(module.e, cfopt.Explanation)
        assert module.e.status[0] in ("valid", "proved infeasible", "already valid")
        assert (tmp_path / "why.png").is_file()
        assert (tmp_path / "why.json").is_file()
    elif name == "docs/any-predictor.md":
        # By the libraries' own predictions and all paths, not by what cfopt made of them.
        paths = module.roads.decisions().numpy()
        for e, predict, own in (
            (module.linear, module.model.predict, module.linear.frame),
            (module.exact, module.forest.predict, module.exact.frame),
            (module.found, module.simulated, module.found.frame),
        ):
            worth = predict(own) @ paths.T
            old = (predict(own) * e.factual.numpy()).sum(1)
            assert (worth.min(1) <= old + 1e-9)[e.valid.numpy()].all()
            if e is not module.linear:
                lost = old >= (1 + e.criterion.epsilon) * worth.min(1) - 1e-5 * old
                assert lost[e.valid.numpy()].all()
        assert module.linear.valid.all()
        assert set(module.exact.status) <= {"valid", "proved infeasible", "already valid"}
        assert module.exact.optimal[module.exact.valid].all()
        assert module.found.valid.all()
        assert module.each.valid.all()
    else:
        for contract in (module.TestCheapestOf(), module.TestCheaper()):
            tests = [getattr(contract, test) for test in dir(contract) if test.startswith("test_")]
            assert len(tests) >= 7
            for test in tests:
                test()


def test_global_state_is_left_alone(grid: cfopt.Pipeline) -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    gradients = torch.is_grad_enabled()
    x0 = normal(4, 4)
    cfopt.explain(x0, grid, cfopt.Absolute(another(grid, x0)), search=cfopt.MDMM(max_steps=20))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled() == gradients
    with torch.no_grad():  # a caller's own mode is no obstacle
        cfopt.explain(x0, grid, cfopt.Epsilon(0.1), search=cfopt.MDMM(max_steps=20))


@pytest.mark.slow
def test_the_demonstration_writes_its_pictures_and_summary(tmp_path: Path) -> None:
    from rich.console import Console

    run(tmp_path / "demo", Console(quiet=True), maps=2)
    for picture in ("relative", "absolute", "epsilon", "gallery", "naive"):
        assert (tmp_path / "demo" / f"{picture}.png").is_file()
    for kind in ("relative", "absolute", "epsilon"):
        e = cfopt.Explanation.from_json(tmp_path / "demo" / f"{kind}.json")
        assert len(e) == 2
        assert e.valid.any()
        assert e.latent is not None
    summary = (tmp_path / "demo" / "summary.txt").read_text()
    assert "## absolute" in summary
    assert "naive, among pixels" in summary
