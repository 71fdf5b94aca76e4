"""The application that commands belong to: what they share, and how errors are reported."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import cfopt
from cfopt.app.plain_help import PlainGroup
from cfopt.errors import CfoptError, InputError

app = typer.Typer(
    cls=PlainGroup,
    help="Counterfactual explanations for pipelines that predict and then optimise.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
#: What a shell reports for a command that was stopped with Ctrl-C.
_STOPPED = 130

Debug = Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")]
Trusted = Annotated[
    bool,
    typer.Option("--trust", help="Allow classes and files that can execute code when loaded."),
]
Configuration = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG.toml", help="The description of your pipeline.", show_default=False
    ),
]


def use_one_thread() -> None:
    """Let numpy have one thread, as workers do; to be called before it is loaded.

    With more of them it rounds some sums otherwise, and on a busy machine they wait for each other.
    """
    os.environ["OPENBLAS_NUM_THREADS"] = "1"


@contextmanager
def errors(debug: bool) -> Iterator[None]:
    """Turn errors into a message and an exit code: 2 if the user can fix it, else 1."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise typer.Exit(_STOPPED) from stop
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        elif isinstance(error, CfoptError):
            typer.echo(f"Error: {error}", err=True)
        else:
            # Not foreseen, and so perhaps a fault of cfopt: where it happened may matter.
            kind = type(error).__name__
            typer.echo(f"Error: {kind}: {error} (--debug shows where it comes from)", err=True)
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
