"""The command line: what it prints, its exit codes, and how fast it answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cfopt


def test_help_and_version_are_answered_without_torch() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from cfopt.cli import app\n"
        "helps = [[name, '--help'] for name in ('explain', 'init', 'train', 'info', 'reproduce')]\n"
        "for words in (['--help'], ['--version'], *helps):\n"
        "    done = CliRunner().invoke(app, words); print(done.exit_code, done.output)\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"0 cfopt {cfopt.__version__}" in done.stdout
    assert "Example: cfopt reproduce maps-alpha-regret --scale quick" in done.stdout


def test_the_package_runs_as_a_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cfopt", "explain", "nowhere.toml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert "nowhere.toml" in done.stderr
    assert not list(tmp_path.iterdir())
