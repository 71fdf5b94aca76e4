"""The command line: what it prints, its exit codes, and how fast it answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel
from tests.commands import cf

import cfopt
from cfopt.app import info
from cfopt.app.config import Tables
from cfopt.app.criterion_source import CriterionSource
from cfopt.app.files import LEARNT, MODELS, TABLES
from cfopt.app.sources import Data, File
from cfopt.models import terrain


def test_help_examples_and_files_that_cannot_be_read_are_answered_without_torch(
    tmp_path: Path,
) -> None:
    code = (
        "import sys; from pathlib import Path; from typer.testing import CliRunner\n"
        "from cfopt.cli import app\n"
        "def cf(*words):\n"
        "    done = CliRunner().invoke(app, words); print(done.exit_code, done.output)\n"
        "helps = [[name, '--help'] for name in ('explain', 'init', 'train', 'info', 'reproduce')]\n"
        "for words in (['--help'], ['--version'], *helps): cf(*words)\n"
        "cf('info'); cf('init', 'a'); cf('explain', 'b.toml')\n"
        "data = Path('a/contexts.csv'); data.write_bytes(b'day,rain\\nLuned\\xec,1\\n')\n"
        "cf('explain', 'a/CONFIG.toml'); cf('train', 'a/CONFIG.toml', '--to', 'w.safetensors')\n"
        "data.unlink(); cf('explain', 'a/CONFIG.toml')\n"
        "cf('train', 'a/CONFIG.toml', '--to', 'w.safetensors')\n"
        "Path('a/weights.safetensors').unlink(); cf('explain', 'a/CONFIG.toml')\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "0 Wrote a/CONFIG.toml" in done.stdout
    for table in ("contexts", "training"):
        place = f"2 Error: a/CONFIG.toml, [{table}]: "
        assert f"{place}a/contexts.csv is not encoded in UTF-8. Save it as UTF-8." in done.stdout
        assert f"{place}There is no file a/contexts.csv." in done.stdout
    missing = "2 Error: a/CONFIG.toml, [predictor]: There is no file a/weights.safetensors."
    assert missing in done.stdout
    assert "2 Error: There is no configuration b.toml." in done.stdout
    assert f"0 cfopt {cfopt.__version__}" in done.stdout
    assert "Example: cfopt reproduce maps-alpha-regret --scale quick" in done.stdout


def test_every_file_that_a_run_reads_is_looked_for_beforehand() -> None:
    def named(table: type[BaseModel], within: str) -> set[str]:
        found = set()
        for name, field in table.model_fields.items():
            kinds = [field.annotation, *get_args(field.annotation)]
            paths = {File.__metadata__[0], Data.__metadata__[0]}
            if paths.intersection(field.metadata) or any(kind is File for kind in kinds):
                found.add(f"{within}{name}")
            for kind in kinds:
                if isinstance(kind, type) and issubclass(kind, BaseModel):
                    found |= named(kind, f"{within}{name}.")
        return found

    every = named(Tables, "") | named(CriterionSource, "criterion.")
    assert {name for name in every if not name.startswith("output.")} == {*MODELS, *TABLES, *LEARNT}
    assert terrain.FOLDER == info.FOLDER


def test_the_package_runs_as_a_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cfopt", "explain", "nowhere.toml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert "nowhere.toml" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_rows_are_explained_with_one_thread_of_numpy_by_a_worker_or_without(tmp_path: Path) -> None:
    """With more of them, the last digits of some bounds depend on who explains."""
    assert cf("init", tmp_path / "a").exit_code == 0  # here: it loads numpy
    code = (
        "from typer.testing import CliRunner\n"
        "from cfopt.cli import app\n"
        "done = CliRunner().invoke(app, ['explain', 'a/CONFIG.toml', '--dry-run'])\n"
        "from threadpoolctl import threadpool_info\n"
        "found = {one['num_threads'] for one in threadpool_info() if one['user_api'] == 'blas'}\n"
        "print(done.exit_code, found)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "2"},
    )
    assert done.stdout.split("\n")[-2] == "0 {1}"
