"""From an explanation to a file: the page is filled in, and written whole."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

import cfopt
from cfopt.drawing import palette
from cfopt.drawing.panel import scene_of
from cfopt.drawing.svg import common
from cfopt.report.overview import overview
from cfopt.report.pictures import ROOM, galleries
from cfopt.report.quality import measure_lines
from cfopt.report.sentences import PLAIN, value_word
from cfopt.report.tally import Tally
from cfopt.report.tasks import task_views
from cfopt.report.whole import whole
from cfopt.result.explanation import Explanation
from cfopt.storage.files import write_whole


def write_report(
    explanation: Explanation,
    path: Path,
    *,
    title: str,
    seconds: float,
    settings: Mapping[str, str],
    measures: pd.DataFrame | None = None,
    room: int = ROOM,
    tally: Tally | None = None,
    numbers: Sequence[int] | None = None,
) -> Path:
    """Write a report of all rows: one HTML file that needs no network and no other file.

    Arguments:
        explanation: what is reported.
        path: the file to write; its folder must exist. What was there is replaced at once.
        title: the title of the page.
        seconds: the time it took to find the explanations.
        settings: how they were found, by name, for the foot of the page.
        measures: what `cfopt.metrics.evaluate` found, for a table at the end of the page.
        room: the most bytes that all pictures may take together; when they are used up, the
            remaining tasks are drawn as sketches, or not at all.
        tally: what all rows say together, where these are a sample of them.
        numbers: the numbers that rows have there; from 0 by default.
    """
    shown = galleries(explanation, room)
    style, script = palette.css() + _text("style.css"), _text("script.js")
    scene = scene_of(explanation)
    page = _environment().get_template("report.html")
    html = page.render(
        title=title,
        overview=overview(explanation, seconds, tally),
        whole=None if tally is None else whole(tally),
        tasks=task_views(explanation, shown, numbers),
        measures=measure_lines(measures),
        settings=settings,
        plain=PLAIN,
        contrasts=explanation.criterion.contrasts,
        value=value_word(explanation),
        common=common(scene),
        shaded=scene.has_places,
        noun=scene.noun,
        rated=explanation.latent is not None,
        thinned=sum(gallery.thinned for gallery in shown),
        style=Markup(style),
        script=Markup(script),
        # Only this script runs, whatever the data hold.
        allowed=f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}",
        version=cfopt.__version__,
    )
    write_whole(path, html.encode("utf-8", "replace"))
    return path


def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _text(name: str) -> str:
    """A file of the package's templates."""
    return (files("cfopt.report") / "templates" / name).read_text(encoding="utf-8")
