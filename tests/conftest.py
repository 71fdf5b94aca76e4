"""Small pipelines that many tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rich.console import Console
from tests.browsing import find_browser
from tests.commands import cf, change
from tests.pipelines import random_linear

import cfopt
from cfopt.problems import GridShortestPath, Knapsack

if TYPE_CHECKING:
    from cfopt_paper.study import Study


@pytest.fixture(autouse=True)
def _exceptions_end_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that an exception leaves without an answer would pass unseen in most tests."""
    if "failing_rows" not in request.keywords:
        for module in ("search.base", "result.settle"):
            monkeypatch.setattr(f"cfopt.{module}.MISUSE", Exception)


@pytest.fixture
def grid() -> cfopt.Pipeline:
    """Costs on a 3x3 grid, linear in 4 features."""
    problem = GridShortestPath(3, 3)
    return cfopt.Pipeline(random_linear(4, problem.num_costs, bias=5.0), problem)


@pytest.fixture
def knapsack() -> cfopt.Pipeline:
    """Values of 6 items, linear in 3 features."""
    weights = np.array([[3.0, 5.0, 4.0, 7.0, 2.0, 6.0], [4.0, 1.0, 6.0, 3.0, 5.0, 2.0]])
    problem = Knapsack(weights, [11.0, 9.0])
    return cfopt.Pipeline(random_linear(3, 6, seed=1, bias=2.0), problem)


#: Files that share a server, or what its workers load: each line is run by one process.
_TOGETHER = (
    (
        *("web/test_explorer", "web/test_explorer_drawing", "web/test_explorer_searches"),
        *("web/test_explorer_wishes", "web/test_explorer_scenes", "web/test_web_terms"),
    ),
    (
        *("web/test_web_workers", "web/test_web", "web/test_web_guard", "web/test_web_input"),
        *("web/test_web_load", "extensions/test_near_best", "extensions/test_problems"),
        "extensions/test_other_nouns",
    ),
)
#: What takes longest comes first, so that at the end no process is left alone with it: these
#: groups, and then these files and folders.
_LONGEST = (
    *("web", "exact/test_relu", "trees/test_tree_cells", "latent/test_latent", "core/test_house"),
    *("search/test_derivative_free", "exact/test_exact", "search/test_sequential", "app/test_app"),
    *("core/test_explain", "fleet", "search", "exact", "core", "report", "app", "gallery", "paper"),
    *("trees", "problems", "adapters", "latent"),
)


def _file(nodeid: str) -> str:
    """The file of a test, within `tests` and without its suffix."""
    return nodeid.partition("::")[0].removeprefix("tests/").removesuffix(".py")


def _order(item: pytest.Item) -> tuple[int, int]:
    file = _file(item.nodeid)
    groups = [k for k, files in enumerate(_TOGETHER) if file in files]
    places = [k for k, place in enumerate(_LONGEST) if f"{file}/".startswith(f"{place}/")]
    return (groups or [len(_TOGETHER)])[0], (places or [len(_LONGEST)])[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file is run by one process, and so are files that share what is slow to start."""
    from xdist.scheduler import LoadFileScheduling

    class BySharing(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = _file(nodeid)
            return next((files[0] for files in _TOGETHER if file in files), file)

    return BySharing(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_order)
    for item in items:
        if "quick_study" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.study)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The configuration that `cfopt init` writes, without pictures."""
    assert cf("init", tmp_path / "town").exit_code == 0
    config = tmp_path / "town" / "CONFIG.toml"
    change(config, "pictures = 12", "pictures = 0")
    return config


@pytest.fixture(scope="session")
def quick_study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The whole paper at the quick scale."""
    # Here: an experiment under work shall not stop the tests of all else.
    from cfopt_paper.catalogue import experiments_named
    from cfopt_paper.reproduce import reproduce
    from cfopt_paper.scale import QUICK
    from cfopt_paper.study import Study

    study = Study(tmp_path_factory.mktemp("quick"), QUICK)
    reproduce(experiments_named(["all"]), study, Console(quiet=True))
    return study


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "browser: drives a page in a real browser",
        "failing_rows: exceptions inside searches become the status of their rows, as for users",
        "long: left out of `make test`; `make long` runs it",
        "slow: left out of `make quick`, as `long` is",
        "study: needs the whole paper at the quick scale",
    ):
        config.addinivalue_line("markers", marker)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say plainly what was left out: a skipped test is only a letter in a row of dots."""
    skipped = terminalreporter.stats.get("skipped", [])
    left_out = [report for report in skipped if "browser" in report.keywords]
    if left_out and find_browser() is None:
        terminalreporter.write_line(
            f"LEFT OUT: {len(left_out)} browser tests, as there is no chromium, "
            "chromium-browser or google-chrome on the PATH.",
            yellow=True,
        )
