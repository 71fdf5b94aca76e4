"""The command line: one function for each command; what they do stands elsewhere.

Commands import what they need themselves, so that help and mistakes are answered at once.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import cfopt
from cfopt.errors import CfoptError, InputError

app = typer.Typer(
    help="Counterfactual explanations for pipelines that predict and then optimise.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
#: What a shell reports for a command that was stopped with Ctrl-C.
_STOPPED = 130

Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]


@contextmanager
def _errors(debug: bool) -> Iterator[None]:
    """Turn errors into a message and an exit code: 2 for what the user can mend, else 1."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise typer.Exit(_STOPPED) from stop
    except CfoptError as error:
        if debug:
            traceback.print_exc()
        else:
            typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from error


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cfopt {cfopt.__version__}")
        raise typer.Exit


@app.callback()
def _cfopt(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Counterfactual explanations for pipelines that predict and then optimise."""


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Experiments, or all; no name lists them.", show_default=False
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(metavar="quick|standard|paper", help="How large.")
    ] = "standard",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For results; reproduction/SCALE by default."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of data, models and tasks.")] = 0,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Published Warcraft maps; generated ones by default."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Reproduce figures of the paper: tables, pictures beside the paper's values, and settings.

    What is done is kept: the same command goes on after a stop.

    Example: cfopt reproduce maps-alpha-regret --scale quick
    """
    with _errors(debug):
        from rich.console import Console

        from cfopt.experiments.catalogue import EXPERIMENTS, experiments_named
        from cfopt.experiments.reproduce import reproduce
        from cfopt.experiments.scale import scale_named
        from cfopt.experiments.study import Study

        # All names first: a mistake leaves no folder behind.
        chosen, size = experiments_named(names or []), scale_named(scale)
        if not chosen:
            width = max(map(len, EXPERIMENTS))
            for name, experiment in EXPERIMENTS.items():
                typer.echo(f"{name:{width}}  {experiment.title}")
            return
        folder = Path("reproduction", size.name) if out is None else out
        reproduce(chosen, Study(folder, size, seed, data), Console())


def main() -> None:
    """Run the command line."""
    app(prog_name="cfopt")
