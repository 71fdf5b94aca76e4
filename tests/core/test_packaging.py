"""What is installed with cfopt and what is an extra: declared, and named where it is missing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cfopt.extras import EXTRAS, MODULES

ROOT = Path(__file__).parents[2]
#: Never imported by name: PyEPO solves with one, skops files are read by the other.
BEHIND_THE_SCENES = {"gurobipy", "skops"}
#: The packages of this repository.
OWN = {"cfopt", "cfopt_paper", "benchmarks", "tests"}
#: What packages are called when they are imported, those for development included.
IMPORTED_AS = MODULES | {"pytest-xdist": "xdist"}


def _project(path: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return project


LIBRARY = _project(ROOT / "pyproject.toml")


def _packages(requirements: list[str]) -> set[str]:
    """The names of required packages, in place of an extra of cfopt those that it brings."""
    found = set()
    for requirement in requirements:
        name, extras = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", requirement).groups()  # type: ignore[union-attr]
        if name == "cfopt":
            for extra in extras.split(","):
                found |= _packages(LIBRARY["optional-dependencies"][extra])
        else:
            found.add(name)
    return found


def _modules(packages: set[str]) -> set[str]:
    return {IMPORTED_AS.get(name, name) for name in packages}


#: Scripts that run in environments of their own, with the library that they ask.
ELSEWHERE = ROOT / "benchmarks" / "peers" / "inside"


def _imported(folder: Path) -> set[str]:
    """The packages of others that files in a folder import, anywhere in them."""
    names = set()
    for path in folder.rglob("*.py"):
        if ELSEWHERE in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names - OWN - set(sys.stdlib_module_names)


@pytest.mark.slow
def test_the_library_declares_what_it_imports_and_nothing_else() -> None:
    declared = _packages(LIBRARY["dependencies"]) | _packages(["cfopt[all]"])
    assert _imported(ROOT / "src") == _modules(declared - BEHIND_THE_SCENES)


def test_the_paper_s_study_declares_what_it_imports_and_nothing_else() -> None:
    requirements = _project(ROOT / "paper" / "pyproject.toml")["dependencies"]
    own = {name for name in requirements if not name.startswith("cfopt")}
    assert _imported(ROOT / "paper" / "src") == _modules(_packages(sorted(own)))


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_what_tests_and_benchmarks_import_is_installed_for_development(folder: str) -> None:
    declared = _packages([*LIBRARY["dependencies"], "cfopt[all,dev]"])
    # Tests import helpers that stand beside them, and what makes the documentation.
    helpers = {path.stem for path in (ROOT / folder).rglob("*.py")} | {"docs"}
    assert _imported(ROOT / folder) - helpers <= _modules(declared)


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_named_when_they_are_missing_are_those_of_the_extra(extra: str) -> None:
    assert set(EXTRAS[extra]) == _packages([f"cfopt[{extra}]"])


def test_all_brings_every_extra_but_the_tools_of_development() -> None:
    extras = LIBRARY["optional-dependencies"]
    each = [f"cfopt[{name}]" for name in extras if name not in ("all", "dev")]
    assert _packages(["cfopt[all]"]) == _packages(each)


def _without(packages: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Run code where these packages cannot be found."""
    missing = [MODULES.get(name, name) for name in packages]
    block = f"import sys\nfor name in {missing!r}: sys.modules[name] = None\n"
    command = [sys.executable, "-c", block + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


_COMMAND = "from cfopt.__main__ import main\nsys.argv = ['cfopt', *{arguments!r}]\nmain()\n"


@pytest.mark.long
def test_the_core_explains_without_any_extra() -> None:
    everything = tuple(_packages(["cfopt[all]"]))
    done = _without(
        everything,
        "import torch, cfopt, cfopt.datasets, cfopt.generative, cfopt.predictors, cfopt.testing\n"
        "from cfopt import *\n"
        "problem = cfopt.problems.GridShortestPath(3, 3)\n"
        "pipeline = cfopt.Pipeline(torch.nn.Linear(2, 12), problem)\n"
        "e = cfopt.explain(torch.ones(2), pipeline, cfopt.Epsilon(0.1))\n"
        "assert cfopt.Explanation.from_json(e.to_json()).status == e.status\n"
        "print(e.summary(), len(e.to_dataframe()), len(cfopt.load_terrain(2).maps))\n"
        "try: cfopt.datasets.synthetic.grid(5, 2)\n"
        "except cfopt.MissingExtraError as error: print(error)\n",
    )
    assert done.returncode == 0, done.stderr
    explained, *missing = done.stdout.splitlines()[-2:]
    assert explained.endswith(" 1 2")
    assert "Synthetic data needs pyepo" in missing[0]
    assert "pip install 'cfopt[pyepo]'" in missing[0]


def test_a_command_line_without_its_packages_says_how_to_install_them() -> None:
    as_module = "import runpy\nrunpy.run_module('cfopt', run_name='__main__')"
    for code in (_COMMAND.format(arguments=["info"]), as_module):
        done = _without(("typer", "rich"), code)
        assert done.returncode == 1
        assert done.stderr == (
            "Error: The command `cfopt` needs typer and rich, which are not installed. Install "
            "them with: pip install 'cfopt[cli]'\n"
        )


def test_a_server_without_its_packages_says_how_to_install_them() -> None:
    done = _without(("fastapi", "uvicorn"), _COMMAND.format(arguments=["serve"]))
    assert done.returncode == 1
    assert done.stderr == (
        "Error: `cfopt serve` needs fastapi and uvicorn, which are not installed. Install them "
        "with: pip install 'cfopt[web]'\n"
    )


#: What needs a package: the package, its extra, and the use.
_USES = (
    ("matplotlib", "plots", "import cfopt.plots"),
    ("jinja2", "report", "import cfopt.report"),
    ("rich", "cli", "import cfopt.generative as g\ng.ProgressBar('a model', 3)"),
    ("pyarrow", "cli", "from cfopt.datasets import flights\nflights.load()"),
    ("pyarrow", "cli", "import cfopt\ncfopt.fleet.explain_dataset"),
    ("scikit-learn", "sklearn", "from cfopt.datasets import flights\nflights.forest()"),
)


@pytest.mark.long
def test_a_missing_package_is_named_with_the_extra_that_brings_it() -> None:
    """Each use in a process of its own, which has torch: that is what takes long to load."""
    cases = [(MODULES.get(package, package), use) for package, _, use in _USES]
    done = _without(
        (),
        "import os, torch\n"
        f"for name, use in {cases!r}:\n"
        "    if not (child := os.fork()):\n"
        "        assert name not in sys.modules\n"
        "        sys.modules[name] = None\n"
        "        try: exec(use, {})\n"
        "        except Exception as error: print(type(error).__name__, error, flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n",
    )
    said = done.stdout.splitlines()
    assert len(said) == len(_USES), done.stderr
    for (package, extra, _), line in zip(_USES, said, strict=True):
        assert line.startswith("MissingExtraError ")
        assert line.endswith(
            f" needs {package}, which is not installed. Install it with: pip install "
            f"'cfopt[{extra}]'"
        )
