"""Commands about your own pipeline: a configuration written, explained, summed up, trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cfopt.app.plain_help import PlainCommand
from cfopt.cli.application import Configuration, Debug, Trusted, app, errors, use_one_thread


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
    with errors(debug):
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
    use_one_thread()
    with errors(debug):
        from cfopt.app.files import check_files, check_tables

        content = check_files(config)
        if not dry_run and _is_finished(config, content, out):
            return
        check_tables(config, content)

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
    with errors(debug):
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
    with errors(debug):
        from cfopt.app.files import LEARNT, check_files, check_tables

        check_tables(config, check_files(config, LEARNT), LEARNT)

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
