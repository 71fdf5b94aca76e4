"""Whether cfopt can be installed and read by every Python that pyproject.toml names.

Each dependency of `cfopt[all]`, in the version that is tested, needs a wheel on PyPI for each of
them; and those that are on the PATH compile every file. Nothing is downloaded but lists of files.
Ends with code 1 if something is missing. `python .ci/check_pythons.py` prints a line for each.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).parent.parent
#: What the project is tested on, from the newest on.
_PLATFORMS = [f"manylinux_2_{k}_x86_64" for k in range(34, 4, -1)] + ["manylinux2014_x86_64"]
_INDEX = "https://pypi.org/pypi/{}/json"


def pythons(project: dict) -> list[str]:
    """The versions that the classifiers name, such as "3.12"."""
    named = [re.fullmatch(r".* :: (3\.\d+)", one) for one in project["classifiers"]]
    return [found[1] for found in named if found]


def needed(project: dict, extra: str = "all") -> Iterator[Requirement]:
    """The dependencies, and those of an extra with all that it includes."""
    optional = project["optional-dependencies"]
    for line in [*project["dependencies"], *optional[extra]]:
        one = Requirement(line)
        if one.name != project["name"]:
            yield one
            continue
        for included in one.extras:
            yield from needed(project, included)


def tested() -> dict[str, str]:
    """The version of each package in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {canonicalize_name(name): version for name, version in pairs}


def wheels(one: Requirement, version: str | None) -> list[frozenset[Tag]]:
    """The tags of a package's wheels: of one version, or of all that are allowed."""
    with urllib.request.urlopen(_INDEX.format(one.name), timeout=60) as answer:
        releases = json.load(answer)["releases"].values()
    files = [file["filename"] for release in releases for file in release]
    parsed = [_parsed(name) for name in files if name.endswith(".whl")]
    return [
        tags
        for found, tags in filter(None, parsed)
        if (str(found) == version if version else found in one.specifier)
    ]


def _parsed(name: str) -> tuple[Version, frozenset[Tag]] | None:
    """Version and tags of a wheel; None of an old one whose name means nothing today."""
    try:
        _, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    return version, tags


def suited(python: str) -> set[Tag]:
    """The tags of wheels that a Python can use."""
    number = tuple(map(int, python.split(".")))
    return {
        *cpython_tags(number, platforms=_PLATFORMS),
        *compatible_tags(number, f"cp{number[0]}{number[1]}", _PLATFORMS),
    }


def main() -> int:
    """Print what was found; 1 if a wheel is missing or a file does not compile."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions, missing = tested(), 0
    names = {canonicalize_name(one.name): one for one in needed(project)}
    found = {name: wheels(one, versions.get(name)) for name, one in sorted(names.items())}
    for python in pythons(project):
        tags = suited(python)
        lacking = [name for name, each in found.items() if not any(tags & one for one in each)]
        missing += len(lacking)
        said = f"no wheel of {', '.join(lacking)}" if lacking else "a wheel of each"
        print(f"Python {python}: {len(found)} dependencies, {said}")
        command = shutil.which(f"python{python}")
        if command is None or subprocess.run([command, "-V"], capture_output=True).returncode:
            print(f"Python {python}: not here, so nothing was compiled")
            continue
        compiled = [command, "-W", "error", "-m", "compileall", "-q", "-f", "src", "paper/src"]
        done = subprocess.run(compiled, cwd=ROOT, check=False)
        missing += done.returncode
        print(f"Python {python}: {'not every file' if done.returncode else 'every file'} compiles")
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
