"""What is installed: versions, solvers and shipped models."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import cfopt

#: That of `cfopt.models.terrain`, which is not imported: it would load torch.
FOLDER = Path(cfopt.__file__).parent / "models" / "terrain"
_LIBRARIES = ("torch", "numpy", "scipy", "pandas", "pyarrow", "safetensors")
_SOLVERS = {
    "highspy": "HiGHS: linear and mixed-integer models",
    "daqp": "DAQP: quadratic programs",
    "ortools": "OR-Tools, through PyEPO",
    "gurobipy": "Gurobi, through PyEPO",
    "pyepo": "PyEPO: its optModels, SPO+ and synthetic data",
}


def info() -> list[str]:
    """Lines for the terminal."""
    lines = [
        f"cfopt {cfopt.__version__}, Python {platform.python_version()}, {platform.platform()}, "
        f"{os.cpu_count()} cores",
        ", ".join(f"{name} {_version(name) or 'missing'}" for name in _LIBRARIES),
        "Solvers:",
    ]
    width = max(map(len, _SOLVERS))
    for name, what in _SOLVERS.items():
        found = _version(name) or "not found; pip install 'cfopt[pyepo]'"
        lines.append(f"  {name:{width}}  {found:12}  {what}")
    lines.append(f"Shipped models, in {FOLDER}:")
    shipped = sorted(FOLDER.glob("*.safetensors"))
    return lines + [f"  {path.name:28} {path.stat().st_size / 1e6:.1f} MB" for path in shipped]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
