"""The house: what is loaded when, documentation, and global state left alone."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from tests.pipelines import another, normal

import cfopt
from cfopt.app import demo
from cfopt.app.config import read_config
from cfopt.app.job import load
from cfopt.generative import Anchored
from cfopt.models.terrain import TerrainModels
from cfopt.running import heartbeat

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_names_are_loaded_on_first_use_and_a_task_loads_no_training_code() -> None:
    code = (
        "import sys, cfopt\n"
        "assert 'torch' not in sys.modules\n"
        "import cfopt.engine.task\n"
        "print(*(name for name in sys.modules if name.startswith('cfopt.generative.')))\n"
        "assert 'rich' not in sys.modules and 'matplotlib' not in sys.modules\n"
        "assert cfopt.generative.train and 'cfopt.generative.training' in sys.modules\n"
        "from cfopt.explaining.explain import explain\n"
        "assert cfopt.explain is explain and cfopt.MDMM and cfopt.datasets.Terrain\n"
        "assert {'MDMM', 'explain'} <= set(dir(cfopt)) and cfopt.__version__\n"
        "from cfopt import *\n"
        "assert Pipeline is cfopt.Pipeline and explain is cfopt.explain\n"
        "try: cfopt.Explain\n"
        "except AttributeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = "cfopt.generative.protocol cfopt.generative.anchored"
    assert done.stdout == f"{loaded}\nNo cfopt attribute Explain\n"


def _blocks(path: Path, language: str) -> list[str]:
    """The examples in a language, as they are printed."""
    parts = path.read_text().split(f"```{language}\n")[1:]
    return [part.split("```")[0] for part in parts]


def _check_limits(module: ModuleType, folder: Path) -> None:
    """Few changes, several options and remedies: by other questions, and by configurations."""
    # Later examples have other pipelines; the first snippet makes that of these.
    start: dict[str, Any] = {}
    exec(_blocks(ROOT / "docs/questions.md", "python")[0], start)
    # One change is the nearest that only one feature makes, the others held.
    held = [[k for k in module.names if k != name] for name in module.names]
    alone = [
        cfopt.explain(
            module.today,
            start["pipeline"],
            module.plan,
            features=cfopt.Features(module.names, immutable=kept),
        )
        for kept in held
    ]
    losses = [float(one.loss[0]) for one in alone if one.valid[0]]
    assert float(module.few.loss[0]) == pytest.approx(min(losses))
    assert module.curve.fewest == (1,)
    assert float(module.curve.answers[0][0].loss[0]) == pytest.approx(min(losses))
    assert (folder / "curve.png").is_file()
    assert len(module.ways.options[0]) == 3
    assert module.no.status[0] == "proved infeasible"
    assert "if events could change" in module.helped.summary()
    # The configurations ask the same.
    linear = 'kind = "linear", arguments = { num_features = 3, num_costs = 24 }'
    common = [
        f'predictor = {{ {linear}, weights = "weights.safetensors" }}',
        'problem = { kind = "GridShortestPath", arguments = { rows = 4, cols = 4 } }',
        'contexts = { file = "today.csv" }',
    ]
    save_file(start["predictor"].state_dict(), folder / "weights.safetensors")
    pd.DataFrame(module.today, columns=module.names).to_csv("today.csv", index=False)
    pd.DataFrame(module.e.wanted).to_csv("plan.csv", index=False)
    asked = _blocks(ROOT / "docs/questions.md", "toml")[1:4]
    for text, answer in zip(asked, (module.few, module.ways, module.no), strict=True):
        (folder / "CONFIG.toml").write_text("\n".join([*common, text]))
        again = load(read_config(folder / "CONFIG.toml")).explain(range(1))
        assert again.status == answer.status
        found, known = again.every_option(), answer.every_option()
        assert torch.allclose(found.loss, known.loss, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/questions.md",
        pytest.param("docs/any-predictor.md", marks=pytest.mark.slow),
    ],
)
def test_the_examples_in_the_documents_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    snippets = _blocks(ROOT / name, "python")
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
        for e, predict in (
            (module.certified, module.network.predict),
            (module.fast, module.boosted.predict),
        ):
            worth, old = predict(e.frame) @ paths.T, (predict(e.frame) * e.factual.numpy()).sum(1)
            assert (old >= 1.02 * worth.min(1) - 1e-4)[e.valid.numpy()].all()
            assert (e.optimal | ~e.valid).all()
            assert e.valid.any()
        # The configuration asks the same of the same model.
        (tmp_path / "CONFIG.toml").write_text(_blocks(ROOT / name, "toml")[0])
        again = load(read_config(tmp_path / "CONFIG.toml")).explain(range(5))
        assert again.status == module.linear.status
        worth = module.model.predict(again.frame) @ paths.T
        asked = (module.model.predict(again.frame) * again.alternative.numpy()).sum(1)
        assert again.valid.all()
        assert (asked <= worth.min(1) + 1e-5).all()
    elif name == "docs/questions.md":
        # By all routes: one through G and not along A-B is as cheap as any.
        routes, streets = module.streets.decisions(), module.streets
        first = streets.cached_scene.names.index("A-B")
        granted = [bool(y[first] == 0) and "G" in streets.nodes_of(y.numpy()) for y in routes]
        costs = module.e.costs @ routes.T
        best = costs[:, torch.tensor(granted)].amin(1)
        assert module.e.optimal.all()
        assert torch.allclose(best, costs.amin(1), rtol=1e-5)
        assert torch.allclose(best, (module.e.costs * module.e.wanted).sum(1))
        printed = capsys.readouterr().out
        assert "in every context within 0.1 of it" in printed
        assert "would have to cost" in printed
        assert set(module.found.status) <= {"valid", "already valid", "proved infeasible"}
        _check_limits(module, tmp_path)
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
    torch.set_num_threads(2)  # which no search would choose
    try:
        cfopt.explain(x0, grid, cfopt.Absolute(another(grid, x0)), search=cfopt.MDMM(max_steps=20))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled() == gradients
    with torch.no_grad():  # a caller's own mode is no obstacle
        cfopt.explain(x0, grid, cfopt.Epsilon(0.1), search=cfopt.MDMM(max_steps=20))


@pytest.mark.slow
@pytest.mark.parametrize("codes", ["few codes", pytest.param("as shipped", marks=pytest.mark.long)])
def test_the_demonstration_writes_its_pictures_and_summary_and_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: str
) -> None:
    from rich.console import Console

    load_terrain = demo.load_terrain

    def with_few_codes(maps: int) -> TerrainModels:
        models = load_terrain(maps)
        return replace(models, generative=Anchored(models.cost_aware_vae).eval())

    if codes == "few codes":  # which are searched in a fraction of the time
        monkeypatch.setattr(demo, "load_terrain", with_few_codes)

    threads, before, hearts = [], torch.get_num_threads(), []

    def heart(*given: Any) -> heartbeat.Heartbeat:
        hearts.append(heartbeat.Heartbeat(*given, silence=0.0))
        return hearts[-1]

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **settings: Any) -> Any:
            hearts[-1].beat()
            if function is explain:
                threads.append(torch.get_num_threads())
                assert threads[-1] == 1  # at once: with more it would go on for minutes
            return function(*given, **settings)

        return call

    explain = cfopt.explain
    monkeypatch.setattr(cfopt, "explain", watched(explain))
    monkeypatch.setattr(demo, "Heartbeat", heart)
    for name in ("load_terrain", "plot_gallery"):
        monkeypatch.setattr(demo, name, watched(getattr(demo, name)))
    printed = io.StringIO()
    torch.set_num_threads(2)
    try:
        demo.run(tmp_path / "demo", Console(file=printed), maps=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    # Several threads wait for one another on a busy machine, and one day of flights has no use for
    # those of trees.
    assert threads == [1, 1, 1, 1, 1]
    for words in ("Loading the models.", "Explaining 1 maps (absolute): 0 of 1 done.", "Drawing."):
        assert words in printed.getvalue()
    for picture in ("relative", "absolute", "epsilon", "gallery", "naive"):
        assert (tmp_path / "demo" / f"{picture}.png").is_file()
    for kind in ("relative", "absolute", "epsilon"):
        e = cfopt.Explanation.from_json(tmp_path / "demo" / f"{kind}.json")
        assert len(e) == 1
        assert e.valid.any()
        assert e.latent is not None
    summary = (tmp_path / "demo" / "summary.txt").read_text()
    assert "## absolute" in summary
    assert "naive, among pixels" in summary
    assert (tmp_path / "demo" / "flights.png").is_file()
    assert "Decided: JFK at 6, LGA at 10, JFK at 14 and LGA at 18." in summary
    assert "humidity at JFK (%): 45.37 -> 61.4" in summary
