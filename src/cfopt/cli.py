"""The command line: one function for each command; the work is done elsewhere.

Commands import what they need themselves, so that help and mistakes get an answer at once.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import cfopt
from cfopt.app.plain_help import PlainCommand, PlainGroup
from cfopt.errors import CfoptError, InputError
from cfopt.extras import require

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


@contextmanager
def _errors(debug: bool) -> Iterator[None]:
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


@app.command(cls=PlainCommand)
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Created if missing.")] = Path(),
    example: Annotated[
        str,
        typer.Option(
            metavar="streets|flights", help="An invented town, or real flights from New York."
        ),
    ] = "streets",
    debug: Debug = False,
) -> None:
    """Write a commented CONFIG.toml, with a small working example beside it.

    Example: cfopt init deliveries && cfopt explain deliveries/CONFIG.toml
    """
    with _errors(debug):
        from cfopt.app.example import write_example

        paths = write_example(folder, example)
        typer.echo(f"Wrote {', '.join(str(path) for path in paths)}.")
        typer.echo(f"Now try: cfopt explain {paths[0]}")


@app.command(cls=PlainCommand)
def explain(
    config: Configuration,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where results go (default: as configured)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and say what would be done.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of processes (default: one for each core)."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Explain only every N-th part, from the I-th on."),
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="processes|dask", help="What runs the parts.")
    ] = "processes",
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask scheduler (default: a local cluster)."),
    ] = None,
    trust: Trusted = False,
    debug: Debug = False,
) -> None:
    """Explain the decisions of your own pipeline, and write a report.

    Finished work is kept: after a stop, the same command resumes. `cfopt init` writes an example.
    The results depend neither on the engine nor on the number of workers. The exit code is 1 if
    no row has an answer, or a proof that there is none.

    Example: cfopt explain CONFIG.toml --out results --workers 4
    """
    with _errors(debug):
        from cfopt.app.files import check_files

        content = check_files(config)
        if not dry_run and _is_finished(config, content, out):
            return

        from cfopt.app.config import read_config

        described = read_config(config, trust)

        from rich.console import Console

        from cfopt.app.dry_run import plan
        from cfopt.app.job import load
        from cfopt.app.run import results_folder, run
        from cfopt.fleet.run import Orders, any_settled
        from cfopt.running.heartbeat import Heartbeat

        orders = Orders(workers, Orders.shard_of(shard), engine, scheduler)
        folder, console = results_folder(described, out), Console()
        with Heartbeat(console, lambda: "Loading the pipeline."):
            work = load(described)
        if dry_run:
            with Heartbeat(console, lambda: "Checking every row."):
                planned = plan(work, folder)
            typer.echo("\n".join(planned.lines))
            answerable = planned.answerable
        else:
            answerable = any_settled(run(work, folder, console, orders))
            if not answerable:
                typer.echo("No row has an answer, or a proof that there is none.", err=True)
        if not answerable:
            raise typer.Exit(1)


def _is_finished(config: Path, content: dict[str, Any], out: Path | None) -> bool:
    """Say so if a run has ended before, and nothing that it depends on has changed since."""
    from cfopt.fleet.finished import REPORT, find_finished

    named = content.get("output", {}).get("folder", "results")
    folder = config.parent / Path(str(named)).expanduser() if out is None else out
    found = find_finished(folder, content, config.parent)
    if found is None:
        return False
    typer.echo(
        f"{found.rows} of {found.rows} rows are already done, and nothing has changed since."
    )
    typer.echo(f"{folder / REPORT} is the report; `cfopt summarise {folder}` writes it again.")
    if not found.settled:
        typer.echo("No row has an answer, or a proof that there is none.", err=True)
        raise typer.Exit(1)
    return True


@app.command(cls=PlainCommand)
def summarise(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The results of a run.", show_default=False),
    ],
    trust: Trusted = False,
    debug: Debug = False,
) -> None:
    """Write the report of a run again, even while the run is still going on.

    Example: cfopt summarise results
    """
    with _errors(debug):
        from rich.console import Console

        from cfopt.app.summarise import summarise

        summarise(folder, trust, Console())


@app.command(cls=PlainCommand)
def train(
    config: Configuration,
    to: Annotated[Path, typer.Option(metavar="FILE", help="A new file for the weights.")],
    generative: Annotated[
        bool, typer.Option("--generative", help="Train the VAE instead of the predictor.")
    ] = False,
    trust: Trusted = False,
    debug: Debug = False,
) -> None:
    """Train the predictor (or the VAE) that a configuration describes, on the data it names.

    Its training section gives contexts, costs, loss ("MSE" or "SPO+"), epochs, learning_rate,
    batch_size, seed, and for a VAE alpha.

    Example: cfopt train CONFIG.toml --to new.safetensors
    """
    with _errors(debug):
        from rich.console import Console

        from cfopt.app.config import read_config
        from cfopt.app.training import train_model
        from cfopt.running.heartbeat import Heartbeat

        reached = "Before the first epoch."

        def show(epoch: int, loss: float) -> None:
            nonlocal reached
            reached = f"epoch {epoch}: validation loss {loss:.4g}"
            # At each doubling: the first epochs say most.
            if epoch & (epoch - 1) == 0:
                heart.say(reached)

        with Heartbeat(Console(), lambda: reached) as heart:
            done = train_model(read_config(config, trust), to, generative=generative, on_epoch=show)
        for warning in done.warnings:
            typer.echo(f"Warning: {warning}", err=True)
        typer.echo(f"Wrote {done.path}: {done.rows} rows, best validation loss {done.loss:.4g}.")


@app.command(cls=PlainCommand)
def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results go.")] = Path("demo"),
    debug: Debug = False,
) -> None:
    """Explain a route across a map in three ways, naively and plausibly, and a day of flights.

    It takes about a minute.

    Example: cfopt demo --out demo
    """
    with _errors(debug):
        from rich.console import Console

        from cfopt.app.demo import run

        run(out, Console())


@app.command(cls=PlainCommand)
def serve(
    host: Annotated[str, typer.Option(metavar="NAME", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 picks a free one.")
    ] = 8321,
    config: Annotated[
        Path | None,
        typer.Option(metavar="CONFIG.toml", help="Serve your own pipeline too."),
    ] = None,
    trust: Trusted = False,
    workers: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of searches at the same time.")
    ] = 1,
    limit: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Time limit of one search.")
    ] = 120.0,
    debug: Debug = False,
) -> None:
    """Ask "why not?" in the browser: maps, tables, and your own pipeline; also over HTTP.

    Example: cfopt serve --config CONFIG.toml
    """
    with _errors(debug):
        require("`cfopt serve`", "web")

        from cfopt.web.limits import Limits
        from cfopt.web.process import Source
        from cfopt.web.serve import check_config, serve

        if config is not None:
            check_config(config)  # so that a mistake is reported at once
        most = min(workers, os.cpu_count() or 1)
        serve(Source(config, trust), Limits(workers=most, search_seconds=limit), host, port)


@app.command(cls=PlainCommand)
def bench(
    groups: Annotated[
        list[str] | None,
        typer.Argument(metavar="GROUP", help="What to measure (default: all).", show_default=False),
    ] = None,
    debug: Debug = False,
) -> None:
    """Measure the claims about speed and quality; needs a checkout of the source.

    Example: cfopt bench maps
    """
    with _errors(debug):
        from cfopt.app.bench import bench

        raise typer.Exit(bench(groups or []))


@app.command(cls=PlainCommand)
def info(debug: Debug = False) -> None:
    """Show versions, the solvers found, and the models shipped with cfopt.

    Example: cfopt info
    """
    with _errors(debug):
        from cfopt.app.info import info

        typer.echo("\n".join(info()))


@app.command(cls=PlainCommand)
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Experiments, or 'all'; without a name, list them.",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(metavar="quick|standard|paper", help="Size of the study.")
    ] = "standard",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where results go (default: reproduction/SCALE)."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of data, models and tasks.")] = 0,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Published Warcraft maps (default: generated ones)."),
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option(metavar="N", help="Explanations at each point (default: the scale's own)."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Processes that share the work (default: one for each core)."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Reproduce the paper's figures: tables, pictures with the paper's values, and settings.

    Finished work is kept: after a stop, the same command resumes. Needs the package cfopt-paper.

    Example: cfopt reproduce maps-alpha-regret --scale quick
    """
    with _errors(debug):
        from rich.console import Console

        from cfopt.app.study import find_study

        most = workers or os.cpu_count() or 1
        find_study()(names or [], scale, out, seed, data, tasks, most, Console())


def main() -> None:
    """Run the command line."""
    app(prog_name="cfopt")
