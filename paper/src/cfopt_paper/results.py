"""The files of an experiment: rows, summary, pictures, and how they came about."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from cfopt.running.surroundings import surroundings
from cfopt.storage.files import write_whole
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import in_order
from cfopt_paper.paper import SOURCE
from cfopt_paper.study import Study


def write_results(experiment: Experiment, study: Study) -> list[Path]:
    """Write NAME.csv, NAME-summary.csv, the pictures and NAME.json, each whole or not at all.

    Arguments:
        experiment: an experiment whose jobs are all done.
        study: the study with their results, and the folder to write to.
    """
    rows = experiment.rows(study)
    summary = experiment.summary(rows)
    contents = {
        f"{experiment.name}.csv": _csv(rows),
        f"{experiment.name}-summary.csv": _csv(summary),
        **{
            f"{stem}.png": _png(figure)
            for stem, figure in experiment.draw(study, rows, summary).items()
        },
    }
    # Written last: where it exists, the others do too.
    contents[f"{experiment.name}.json"] = _settings(experiment, study, list(contents))
    for name, content in contents.items():
        write_whole(study.folder / name, content)
    return [study.folder / name for name in contents]


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def _png(figure: Figure) -> bytes:
    content = BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def _settings(experiment: Experiment, study: Study, files: list[str]) -> bytes:
    jobs = in_order(experiment.jobs(study))
    content = {
        "experiment": experiment.name,
        "title": experiment.title,
        **study.settings(),
        "paper": SOURCE,
        "files": files,
        "jobs": len(jobs),
        "seconds": round(study.seconds(jobs), 1),
        "seconds are": "CPU time of all jobs it needs, also of those shared with other experiments",
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "written with": surroundings(),
    }
    return json.dumps(content, indent=1).encode()
