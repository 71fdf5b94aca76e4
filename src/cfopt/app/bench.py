"""`cfopt bench`: the measurements that come with a checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cfopt
from cfopt.errors import InputError


def bench(groups: list[str]) -> int:
    """Run the benchmarks of this checkout, and return their exit code.

    Arguments:
        groups: the groups to run; all by default.
    """
    root = Path(cfopt.__file__).parents[2]
    if not (root / "benchmarks" / "__main__.py").is_file():
        raise InputError(
            "The benchmarks are part of the source code, not of the installed package. Get a "
            "checkout of cfopt, and run `make bench` or `cfopt bench` there."
        )
    return subprocess.run([sys.executable, "-m", "benchmarks", *groups], cwd=root).returncode
