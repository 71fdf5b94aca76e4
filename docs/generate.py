"""Write the pages of the site that follow from the code: `make docs`.

Commands, configuration and HTTP interface come from the objects that validate them, measurements
from the last run of the benchmarks; each example of the gallery is run, and its page shows the
code, what it prints and the picture that it makes.
The pages are not kept in the repository.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import runpy
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from typer.main import get_command

from cfopt import registry
from cfopt.app.config import Tables
from cfopt.app.schema import Table
from cfopt.cli import app
from cfopt.question.features import Features
from cfopt.web.address import Address
from cfopt.web.docs import operations
from cfopt.web.limits import Limits
from cfopt.web.process import Source
from cfopt.web.server import create_app

DOCS = Path(__file__).parent
GALLERY = DOCS / "gallery"
BENCHMARKS = DOCS.parent / "benchmarks"


@dataclass(frozen=True)
class Example:
    """One file of the gallery.

    Arguments:
        path: the file.
        title: the first line of its docstring.
        text: the rest of it.
        code: what follows.
    """

    path: Path
    title: str
    text: str
    code: str

    @classmethod
    def read(cls, path: Path) -> Example:
        """Take a file apart."""
        source = path.read_text()
        first = ast.parse(source).body[0]
        assert isinstance(first, ast.Expr)
        title, _, text = inspect.cleandoc(ast.literal_eval(first.value)).partition("\n")
        code = "\n".join(source.splitlines()[first.end_lineno :]).strip()
        return cls(path, title.rstrip("."), text.strip(), code)

    @property
    def name(self) -> str:
        """The name of its page and of its picture."""
        return self.path.stem.partition("_")[2]

    def run(self, folder: Path) -> tuple[str, dict[str, Any]]:
        """What it prints, and its variables; its picture is left in the folder."""
        printed = StringIO()
        with chdir(folder), redirect_stdout(printed):
            variables = runpy.run_path(str(self.path))
        return printed.getvalue().strip(), variables


def examples() -> list[Example]:
    """The gallery, in its order: by the numbers with which the names begin."""
    return [Example.read(path) for path in sorted(GALLERY.glob("[0-9]*.py"))]


def gallery(folder: Path) -> None:
    """A page for each example, and one that leads to them."""
    folder.mkdir(exist_ok=True)
    every = examples()
    # In processes of their own: an example may set threads, seeds or the folder that it works in.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        pages = list(pool.map(_page, every, repeat(folder)))
    cards = [
        "# Gallery\n",
        "Each example is one file, which the tests run, and which makes its picture.\n",
        '<div class="grid cards" markdown>\n',
    ]
    for example, page in zip(every, pages, strict=True):
        (folder / f"{example.name}.md").write_text(page)
        first = " ".join(example.text.split("\n\n")[0].split())
        cards += [
            f"-   [![]({example.name}.png)]({example.name}.md)\n",
            f"    **[{example.title}]({example.name}.md)**\n",
            f"    {first}\n",
        ]
    (folder / "index.md").write_text("\n".join([*cards, "</div>"]) + "\n")


def _page(example: Example, folder: Path) -> str:
    """Run an example, and keep its picture in the folder: its page."""
    picture = f"{example.name}.png"
    with TemporaryDirectory() as elsewhere:  # some leave more than a picture
        printed, _ = example.run(Path(elsewhere))
        shutil.move(Path(elsewhere) / picture, folder / picture)
    page = [f"# {example.title}\n", f"{example.text}\n", f"![{example.title}]({picture})\n"]
    page += [f"```python\n{example.code}\n```\n", "It prints:\n", f"```text\n{printed}\n```\n"]
    return "\n".join(page)


def command_line() -> str:
    """Every command with its arguments and options, as the command line itself knows them."""
    root: Any = get_command(app)  # with the classes of typer's own copy of click
    parts = ["# Command line\n", f"{root.help}\n"]
    for name, command in root.commands.items():
        parts += [f"## cfopt {name}\n", f"{_paragraphs(command.help or '')}\n"]
        rows = [_parameter(one) for one in command.params]
        parts += ["| argument | meaning |", "| --- | --- |", *rows, ""]
    return "\n".join(parts)


def _paragraphs(words: str) -> str:
    lines = inspect.cleandoc(words).splitlines()
    return "\n".join(
        f"`{line.removeprefix('Example: ')}`" if line.startswith("Example: ") else line
        for line in lines
    )


def _parameter(one: Any) -> str:
    names, words = one.metavar or one.name.upper(), one.help or ""
    if one.param_type_name == "option":
        names = f"{', '.join(one.opts)}{f' {one.metavar}' if one.metavar else ''}"
        if one.default not in (None, False, ()) and not callable(one.default):
            words = f"{words} The default is {one.default}."
    return f"| `{names}` | {words} |"


def configuration() -> str:
    """Every table of a configuration with its keys, and what can be named in it."""
    parts = [
        "# Configuration\n",
        "A configuration is a TOML file; `cfopt init` writes one with comments, and "
        "[Explain your own pipeline](../own-pipeline.md#the-configuration) tells what the keys "
        "mean. This page lists what the program accepts; anything else is an error.\n",
        *_keys("The file itself", Tables),
        "## `[features]`\n",
        *_kind(Features),
    ]
    for title, known in _NAMED.items():
        parts.append(f"## {title}\n")
        for name in known.names():
            parts += [f"### {name}\n", *_kind(known.find(name))]
    return "\n".join(parts)


_NAMED = {
    "Criteria, `[criterion] kind`": registry.criteria,
    "Problems, `[problem] kind`": registry.problems,
    "Searches, `[search] kind`": registry.searches,
    "Proximities, `[proximity] kind`": registry.proximities,
    "Plausibilities, `[plausibility] kind`": registry.plausibilities,
    "Generative models, `[generative] kind`": registry.generative_models,
    "Predictors, `[predictor] kind`": registry.predictors,
}


def _keys(title: str, table: type[Table]) -> Iterator[str]:
    """The keys of a table, then those of the tables within it."""
    yield f"## {title}\n"
    yield f"{_summary(table)}\n"
    yield "| key | needed | what it is |"
    yield "| --- | --- | --- |"
    words, inner = _arguments(table), []
    for name, one in table.model_fields.items():
        key, kind = one.alias or name, _table_of(one.annotation)
        if kind is not None:
            inner.append((key, kind))
        what = f"the table `[{key}]`" if kind is not None else _type_words(one.annotation)
        what += f": {words[name]}" if name in words else ""
        yield f"| `{key}` | {'yes' if one.is_required() else ''} | {what} |"
    yield ""
    for key, kind in inner:
        yield from _keys(f"`[{key}]`", kind)


def _table_of(hint: Any) -> type[Table] | None:
    found = [one for one in (hint, *get_args(hint)) if isinstance(one, type)]
    return next((one for one in found if issubclass(one, Table)), None)


def _type_words(hint: Any) -> str:
    """What a value may be, in a few words."""
    inner, origin = get_args(hint), get_origin(hint)
    if origin is Annotated:
        return _type_words(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(_type_words(one) for one in inner if one is not NoneType)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " or ".join(f'"{one.value}"' for one in hint)
    return _WORDS.get(origin or hint, "a table")


_WORDS: dict[Any, str] = {
    Any: "any value",
    Path: "a file or folder",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    tuple: "a list",
    dict: "a table",
}


def _kind(one: Callable[..., Any]) -> Iterator[str]:
    """What a class is, and its settings, from its docstring and its signature."""
    yield f"{_summary(one)}\n"
    words = _arguments(one)
    for name in inspect.signature(one).parameters:
        if name != "alternative":
            yield f"- `{name}`{f': {words[name]}' if name in words else ''}"
    yield ""


def _summary(one: Any) -> str:
    first, *_ = (inspect.getdoc(one) or "").partition("\n\n")
    return " ".join(first.split())


def _arguments(one: Any) -> dict[str, str]:
    """What a docstring says of each argument; of several together, the same."""
    _, _, said = (inspect.getdoc(one) or "").partition("Arguments:\n")
    block = inspect.cleandoc(said.split("\n\n")[0]) if said else ""
    words: dict[str, str] = {}
    names: list[str] = []
    for line in block.splitlines():
        if line[:1].strip():
            head, _, text = line.partition(":")
            names = [name.strip() for name in head.split(",")]
            words |= dict.fromkeys(names, text.strip())
        else:
            words |= {name: f"{words[name]} {line.strip()}" for name in names}
    return words


def http() -> str:
    """Every request that the server answers, from its own description."""
    described = create_app(Source(), Limits(), Address("localhost", 8321)).openapi()
    parts = [
        "# HTTP interface\n",
        "`cfopt serve` answers these requests on this machine; `/docs` on the server shows the "
        "same page, and `/openapi.json` is its machine-readable form.\n",
    ]
    for one in operations(described):
        parts += [f"## {one['method']} {one['path']}\n", f"{one['words']}\n"]
        if one["fields"]:
            parts += ["| field | kind | needed | meaning |", "| --- | --- | --- | --- |"]
            parts += [
                f"| `{entry['name']}` | {entry['kind']} | {'yes' if entry['needed'] else ''} | "
                f"{' '.join(entry['words'].split())} |"
                for entry in one["fields"]
            ]
            parts.append("")
        parts += [f"```json\n{given}\n```\n" for given in one["examples"][:1]]
        parts += [f"- {code}: {said}" for code, said in one["answers"]]
        parts.append("")
    return "\n".join(parts)


def measurements(folder: Path) -> None:
    """A page of all measurements; those of other libraries in short, to be included in another."""
    shutil.copyfile(BENCHMARKS / "results.md", folder / "measurements.md")
    shutil.copyfile(BENCHMARKS / "growth.png", folder / "growth.png")
    (folder / "peers.txt").write_text(peers())


#: What the short table has of each method, and what it is called there.
_PEERS = {
    "method": "method",
    "valid": "valid",
    "proved": "proved",
    "L1 / least": "L1",
    "L2 / least": "L2",
    "changed": "changed",
    "LOF": "LOF",
    "under noise": "noise",
    "under refits": "refits",
    "ms": "ms",
}


def peers() -> str:
    """Other libraries beside cfopt: a table for each predictor, with the most telling columns."""
    lines = json.loads((BENCHMARKS / "results.json").read_text())["peers"]
    parts = []
    for predictor in dict.fromkeys(line["predictor"] for line in lines):
        own = [line for line in lines if line["predictor"] == predictor]
        parts += [
            f"**{predictor.capitalize()}**, {own[0]['rows']} days\n",
            f"| {' | '.join(_PEERS.values())} |",
            f"|{' --- |' * len(_PEERS)}",
            *(f"| {' | '.join(_cell(line[name]) for name in _PEERS)} |" for line in own),
            "",
        ]
    return "\n".join(parts)


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Write all pages."""
    made = DOCS / "made"
    made.mkdir(exist_ok=True)
    (made / "command-line.md").write_text(command_line())
    (made / "configuration.md").write_text(configuration())
    (made / "http.md").write_text(http())
    measurements(made)
    gallery(made / "gallery")


if __name__ == "__main__":
    main()
