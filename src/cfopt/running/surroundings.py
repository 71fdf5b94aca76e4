"""What a result was made with."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import highspy
import torch

import cfopt


def surroundings() -> dict[str, Any]:
    """Versions, cores, and the commit if this is a checkout."""
    return {
        "cfopt": cfopt.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "highspy": highspy.Highs().version(),
        "cores": torch.get_num_threads(),
        "commit": _commit(),
    }


def _commit() -> str | None:
    """The commit of this checkout, marked if files differ from it; None outside of one."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
