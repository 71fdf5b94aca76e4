"""Whether a run is finished, and still that of its configuration: asked before anything is loaded.

Nothing here imports torch, which takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cfopt
from cfopt.errors import InputError
from cfopt.storage.digests import digest, digest_data, digest_json

#: The data set within the folder of a run, and what says that it is complete.
DATA, MANIFEST, SUCCESS = "explanations", "_manifest.json", "_SUCCESS"
#: The page that is made of it.
REPORT = "report.html"
#: The packages whose versions may change digits of an answer.
_VERSIONED = ("torch", "numpy", "scipy", "highspy", "daqp", "pyarrow")


def versions() -> dict[str, str]:
    """The versions of all that results depend on."""
    return {"cfopt": cfopt.__version__, **{name: version(name) for name in _VERSIONED}}


@dataclass(frozen=True)
class Finished:
    """A run that needs no more work.

    Arguments:
        rows: how many rows it has.
        settled: how many of them have an answer, or a proof that there is none.
    """

    rows: int
    settled: int


def find_finished(folder: Path, content: Mapping[str, Any], beside: Path) -> Finished | None:
    """A finished run of just this configuration, with all its files as they were; else None.

    Arguments:
        folder: the folder of the run.
        content: the configuration as it is now.
        beside: the folder that paths in it start from.
    """
    if not (folder / DATA / SUCCESS).exists() or not (folder / REPORT).exists():
        return None
    try:
        manifest = json.loads((folder / DATA / MANIFEST).read_text(encoding="utf-8"))
        settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        same = (
            manifest["content"] == digest_json(content)
            and manifest["settings"] == digest_json(settings)
            and settings["versions"] == versions()
            and _unchanged(settings["files"], beside)
            and all(digest(Path(path)) == was for path, was in manifest["code"].items())
            and all(
                (folder / DATA / name).stat().st_size == part["size"]
                for name, part in manifest["parts"].items()
            )
        )
        return Finished(manifest["rows"], manifest["settled"]) if same else None
    # Whatever is wrong is reported when it is loaded.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError):
        return None


def _unchanged(files: Mapping[str, str], beside: Path) -> bool:
    return all(
        digest_data(name if "://" in name else beside / name) == was for name, was in files.items()
    )
