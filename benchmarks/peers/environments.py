"""Other libraries, each in an environment of its own: what they need contradicts each other."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Where environments are kept; `make clean` removes them.
FOLDER = ROOT / "build" / "peers"
SCRIPTS = Path(__file__).parent / "inside"


@dataclass(frozen=True)
class Peer:
    """A library, as PyPI has it.

    Arguments:
        name: as it calls itself.
        script: the file in `inside` that asks it.
        package: its package and version.
        needs: what else is installed. XGBoost comes as `xgboost-cpu`, the same library without the
            gigabytes for graphics cards; so DiCE, which names `xgboost`, is installed without what
            it names, and that is listed here.
        alone: whether its package is installed without what it names.
    """

    name: str
    script: str
    package: str
    needs: tuple[str, ...]
    alone: bool = False

    def python(self) -> Path | None:
        """The interpreter of its environment, which is made if there is none; None if it cannot."""
        folder = FOLDER / self.package
        python, ready = folder / "bin" / "python", folder / "ready"
        if ready.exists():
            return python
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        first = [*pip, "--no-deps"] if self.alone else pip
        try:
            subprocess.run([*first, self.package], check=True)
            subprocess.run([*pip, *self.needs], check=True)
        except subprocess.CalledProcessError as error:
            print(f"{self.name} cannot be installed here: {error}", file=sys.stderr)
            return None
        ready.touch()
        return python

    def ask(self, python: Path, folder: Path) -> None:
        """Let it answer the case in a folder, on one thread."""
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
        subprocess.run(
            [str(python), "-W", "ignore", str(SCRIPTS / self.script), str(folder)],
            check=True,
            env={"PATH": "/usr/bin:/bin", **threads},
            stderr=subprocess.DEVNULL,  # bars of progress
        )


PEERS = (
    Peer(
        "DiCE",
        "ask_dice.py",
        "dice-ml==0.12",
        ("jsonschema", "lightgbm", "pandas", "raiutils", "scikit-learn", "tqdm", "xgboost-cpu"),
        alone=True,
    ),
    Peer("NICE", "ask_nice.py", "NICEx==0.2.3", ("scikit-learn", "xgboost-cpu")),
    Peer("treecf", "ask_treecf.py", "treecf==0.3.2", ("scikit-learn", "xgboost-cpu")),
)
