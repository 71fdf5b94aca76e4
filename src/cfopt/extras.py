"""Extras: packages that only some uses of cfopt need, and what to do where they are missing."""

from __future__ import annotations

from importlib.util import find_spec

from cfopt.errors import MissingExtraError

_PLOTS = ("matplotlib", "markupsafe", "pillow")
_REPORT = ("jinja2", "markupsafe", "pillow")
# `cfopt explain` reads a configuration and writes Parquet, pictures and a report.
_CLI = ("typer", "rich", "pydantic", "pydantic-core", "pyarrow", "fsspec", *_PLOTS, *_REPORT)
_WEB = ("fastapi", "uvicorn", "starlette", *_CLI)
#: The packages of each extra, those of the extras that it includes among them; a test compares
#: them with pyproject.toml.
EXTRAS = {
    "plots": _PLOTS,
    "report": _REPORT,
    "cli": _CLI,
    "web": _WEB,
    "sklearn": ("scikit-learn", "skops"),
    "trees": ("numba", "treelite"),
    "onnx": ("onnxruntime",),
    "dask": ("dask", "distributed", *_CLI),
}
#: The modules of packages that have another name.
MODULES = {
    "lazy-loader": "lazy_loader",
    "pillow": "PIL",
    "pydantic-core": "pydantic_core",
    "scikit-learn": "sklearn",
    "xgboost-cpu": "xgboost",
}


def require(what: str, extra: str, *packages: str) -> None:
    """Raise a MissingExtraError that names the packages that are missing, and the remedy.

    Arguments:
        what: the use that needs them, as the subject of a sentence: "`cfopt serve`".
        extra: the extra that brings them.
        packages: those of its packages that are needed; all of them by default.
    """
    needed = dict.fromkeys(packages or EXTRAS[extra])
    # Found, not imported: the caller knows when to spend the time.
    missing = [name for name in needed if find_spec(MODULES.get(name, name)) is None]
    if missing:
        *others, last = missing
        names = f"{', '.join(others)} and {last}" if others else last
        are, them = ("are", "them") if others else ("is", "it")
        raise MissingExtraError(
            f"{what} needs {names}, which {are} not installed. Install {them} with: "
            f"pip install 'cfopt[{extra}]'"
        )
