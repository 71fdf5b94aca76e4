"""Commands that show and measure: demonstration, explorer, benchmarks, versions, the paper."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from cfopt.app.plain_help import PlainCommand
from cfopt.cli.application import Debug, Trusted, app, errors, use_one_thread
from cfopt.extras import require


@app.command(cls=PlainCommand)
def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results go.")] = Path("demo"),
    maps: Annotated[
        int, typer.Option(metavar="N", min=1, max=20, help="Number of maps to explain.")
    ] = 6,
    debug: Debug = False,
) -> None:
    """Explain a route across a map in three ways, naively and plausibly, and a day of flights.

    It takes about a minute.

    Example: cfopt demo --out demo
    """
    use_one_thread()
    with errors(debug):
        from rich.console import Console

        from cfopt.app.demo import run

        run(out, Console(), maps)


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
    with errors(debug):
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
    with errors(debug):
        from cfopt.app.bench import bench

        raise typer.Exit(bench(groups or []))


@app.command(cls=PlainCommand)
def info(debug: Debug = False) -> None:
    """Show versions, the solvers found, and the models shipped with cfopt.

    Example: cfopt info
    """
    with errors(debug):
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
    with errors(debug):
        from rich.console import Console

        from cfopt.app.study import find_study

        most = workers or os.cpu_count() or 1
        find_study()(names or [], scale, out, seed, data, tasks, most, Console())
