"""A dry run: everything that can be checked beforehand, and what would be done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cfopt.app.checkpoint import read_part
from cfopt.app.job import Job
from cfopt.app.results import search_in_words
from cfopt.app.run import KIND, part_file, room_for, try_out
from cfopt.names import counted
from cfopt.question.domain import Domain
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status
from cfopt.running.folder import check_claim
from cfopt.running.threads import suited_threads


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    Arguments:
        lines: the same in words.
        answerable: whether some row would not be rejected, as far as that is known beforehand.
    """

    lines: list[str]
    answerable: bool


def plan(work: Job, folder: Path) -> Plan:
    """Check everything and say what a run would do; nothing is written.

    Arguments:
        work: what to explain.
        folder: where the results go.
    """
    with suited_threads(work.pipeline, work.config.tables.run.threads):
        tried = try_out(work)
    check_claim(folder, work.settings, kind=KIND, room=room_for(work))
    finished = [rows for rows in work.batches if part_file(folder, rows).exists()]
    for rows in finished:  # a damaged one is reported
        read_part(part_file(folder, rows), work, rows)
    done = sum(map(len, finished))
    x, problem, config = work.contexts.x, work.pipeline.problem, work.config
    lines = [
        f"Contexts: {len(x)} of shape {tuple(x.shape[1:])} from {config.tables.contexts.file}",
        *work.notes,
        f"Predictor: {type(work.pipeline.predictor).__name__} ({x.dtype}), "
        f"{counted(problem.num_costs, 'cost')}",
        f"Problem: {type(problem).__name__}, {problem.sense}imises, decisions of "
        f"{counted(problem.num_columns, 'entry').replace('entrys', 'entries')}",
        f"Criterion: {work.question.criterion.kind()}, margin {work.question.margin:g}",
        f"Search: {search_in_words(work)}",
    ]
    if work.question.generative is not None:
        model = type(work.question.generative).__name__
        lines.append(f"Generative model: {model}, {work.question.plausibility}")
    lines.append(
        f"Would explain {counted(len(x) - done, 'row')} in batches of up to "
        f"{max(map(len, work.batches))}{f' ({done} are already done)' if done else ''}, and write "
        f"explanations.parquet, explanations.json, pictures and report.html to {folder}."
    )
    rejected = _rejected(work, tried)
    lines.append(_verdict(work, tried, rejected))
    # Where all that were tried are rejected, nothing speaks for the others.
    return Plan(lines, not all(row in rejected for row in range(len(tried))))


def _verdict(work: Job, tried: Explanation, rejected: dict[int, str]) -> str:
    if not rejected:
        return (
            f"Everything that can be checked beforehand is in order (the pipeline was tried on "
            f"{counted(len(tried), 'row')}); nothing was written."
        )
    first = min(rejected)
    label = work.contexts.labels[first] if work.contexts.labels else first
    return (
        f"Of {counted(len(work), 'row')}, at least {len(rejected)} would be rejected. Row {label}: "
        f"{rejected[first]}. Nothing was written."
    )


def _rejected(work: Job, tried: Explanation) -> dict[int, str]:
    """Rows that will be rejected, and why: all with bad contexts, and some of those tried."""
    x = work.contexts.x
    domain = Domain.of(work.contexts.features, x)
    faults = [""] * len(x) if domain is None else domain.faults(x)
    rejected = {
        row: f"the context itself is not allowed: {fault}"
        for row, fault in enumerate(faults)
        if fault
    }
    rejected |= work.contexts.not_finite()
    return rejected | {
        row: tried.message[row]
        for row, status in enumerate(tried.status)
        if status is Status.REJECTED
    }
