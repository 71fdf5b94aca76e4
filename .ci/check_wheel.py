"""Build sdist and wheel, install the wheel in an empty environment, and use it: `make wheel`.

The wheel is built from the sdist, so that what is wrong with either is found. Stage by stage: the
core explains, the command line too once its extra is installed, and then every module can be
imported with the page's; whatever is still missing is named with its remedy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
#: Without PYTHONPATH, which could lead to the checkout.
SURROUNDINGS = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
#: What follows README's example where no extra is installed.
CORE = """
import importlib
assert e.valid.any() and len(cfopt.Explanation.from_json("why.json")) == 100
assert len(cfopt.load_terrain(2).maps) == 2
for use in (e[3].plot, lambda: importlib.import_module("cfopt.report")):
    try:
        use()
    except cfopt.MissingExtraError as error:
        print(error)
"""
EVERY_MODULE = """
import importlib, pkgutil, cfopt
names = [module.name for module in pkgutil.walk_packages(cfopt.__path__, "cfopt.")]
assert len(names) > 100
for name in names:
    importlib.import_module(name)
"""


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist of a copy of the sources, and the wheel that follows from the sdist alone.

    A copy, so that nothing left by another build gets in; and by tools of its own, so that it can
    be built while `make setup` runs.
    """
    tools = folder / "tools"
    venv.create(tools, with_pip=True)
    options = ["--quiet", "--no-compile", "-c", str(ROOT / "constraints.txt")]
    install = [str(tools / "bin" / "pip"), "install", *options, "build"]
    subprocess.run(install, check=True, env=SURROUNDINGS)
    copy = folder / "source"
    shutil.copytree(
        SOURCE, copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [str(tools / "bin" / "python"), "-m", "build", "--outdir", str(folder), str(copy)]
    subprocess.run(command, check=True, env=SURROUNDINGS, stdout=subprocess.DEVNULL)
    (sdist,), (wheel,) = folder.glob("cfopt-*.tar.gz"), folder.glob("cfopt-*.whl")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    """Every file of the package is in both: modules, models, templates, styles and scripts."""
    files = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "cfopt").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as packed:
        in_wheel = {name for name in packed.namelist() if name.startswith("cfopt/")}
        (metadata,) = (name for name in packed.namelist() if name.endswith("/METADATA"))
        check_metadata(packed.read(metadata).decode())
    with tarfile.open(sdist) as unpacked:
        members = [one.name.partition("/")[2] for one in unpacked.getmembers() if one.isfile()]
    in_sdist = {name.removeprefix("src/") for name in members if name.startswith("src/cfopt/")}
    for what, names in (("wheel", in_wheel), ("sdist", in_sdist)):
        if names != files:
            sys.exit(f"The {what} and src/cfopt differ in {sorted(names ^ files)}.")


def check_metadata(text: str) -> None:
    """What an index shows: nothing is missing, and the description is README."""
    needed = ("Name", "Version", "Summary", "Author", "License-Expression", "Requires-Python")
    lines = text.partition("\n\n")[0].splitlines()
    missing = [name for name in needed if not any(line.startswith(f"{name}: ") for line in lines)]
    if missing or (ROOT / "README.md").read_text().strip() not in text:
        sys.exit(f"The metadata lack {', '.join(missing) or 'README as the description'}.")


def example() -> str:
    """README's first example, without the picture, which takes an extra."""
    snippet = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    lines = snippet.splitlines()
    kept = [line for line in lines if ".plot(" not in line]
    assert len(kept) == len(lines) - 1
    return "\n".join(kept)


class Environment:
    """An environment of its own, and commands in it.

    Arguments:
        folder: for the environment, and for what commands write.
        wheel: what is installed in it.
    """

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._folder, self._wheel = folder, wheel
        self._programs = folder / "environment" / "bin"
        venv.create(folder / "environment", with_pip=True)

    def install(self, extra: str = "") -> None:
        """Install the wheel, with the packages of an extra if one is named."""
        wheel = f"cfopt{extra} @ {self._wheel.as_uri()}"
        # What is imported is compiled then; most of torch never is.
        options = ["--quiet", "--no-compile", "-c", str(ROOT / "constraints.txt")]
        self.run("pip", "install", *options, wheel)

    def run(self, program: str, *arguments: str, fails: bool = False) -> str:
        """What a program prints; it has to succeed, or to fail."""
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(
            command, cwd=self._folder, env=SURROUNDINGS, capture_output=True, text=True, check=False
        )
        printed = done.stdout + done.stderr
        if (done.returncode != 0) != fails or "Traceback" in printed:
            sys.exit(f"{' '.join(command)} ended with code {done.returncode}:\n{printed}")
        return printed


def expect(printed: str, *parts: str) -> None:
    """End with an error unless all of these are in what was printed."""
    for part in parts:
        if part not in printed:
            sys.exit(f"Expected {part!r} in:\n{printed}")


def main() -> None:
    """Build, install, and use."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = build(folder)
        check_contents(sdist, wheel)
        for one in (sdist, wheel):
            print(f"{one.name}, {one.stat().st_size / 1e6:.1f} MB, has every file of src/cfopt.")

        there = Environment(folder, wheel)
        there.install()
        printed = there.run("python", "-I", "-c", example() + CORE)
        expect(
            printed, "100 contexts: ", "pip install 'cfopt[plots]'", "pip install 'cfopt[report]'"
        )
        expect(there.run("cfopt", "info", fails=True), "typer", "pip install 'cfopt[cli]'")
        print("Without extras it explains, and says what pictures, reports and commands need.")

        there.install("[cli]")
        there.run("cfopt", "init", "van")
        there.run("cfopt", "explain", "van/CONFIG.toml", "--out", "answers")
        assert (folder / "answers" / "report.html").is_file()
        printed = there.run("cfopt", "serve", fails=True)
        expect(printed, "`cfopt serve` needs fastapi", "pip install 'cfopt[web]'")
        print(
            "With [cli], `cfopt explain` writes its report, and `cfopt serve` says what it needs."
        )

        there.install("[trees,web]")
        there.run("python", "-I", "-c", EVERY_MODULE)
        print("With [trees,web], every module can be imported.")


if __name__ == "__main__":
    main()
