"""A dry run: everything that can be checked beforehand, and what would be done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cfopt.app.job import Job
from cfopt.app.run import try_out
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.run import KIND, room_for
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
    kept = RunFolder(folder, work)
    finished = kept.done()
    kept.check(sorted(finished))  # a damaged one is reported
    done = sum(len(work.parts[k]) for k in finished)
    first, problem, config = work.first, work.pipeline.problem, work.config
    x, question = first.contexts.x, first.question
    lines = [
        f"Contexts: {len(work)} of shape {tuple(x.shape[1:])} from {config.tables.contexts.file}",
        *work.notes,
        f"Predictor: {type(work.pipeline.predictor).__name__} ({x.dtype}), "
        f"{counted(problem.num_costs, 'cost')}",
        f"Problem: {type(problem).__name__}, {problem.sense}imises, decisions of "
        f"{counted(problem.num_columns, 'entry').replace('entrys', 'entries')}",
        f"Criterion: {question.criterion.kind()}, margin {question.margin:g}",
        f"Search: {work.search_in_words()}",
    ]
    if question.generative is not None:
        lines.append(f"Generative model: {type(question.generative).__name__}")
    if question.plausibility is not None:
        lines.append(f"Plausibility: {question.plausibility}")
    lines.append(
        f"Would explain {counted(len(work) - done, 'row')} in batches of up to {work.batch}, kept "
        f"in {counted(len(work.parts), 'part')}{f' ({done} are already done)' if done else ''}, "
        f"and write a Parquet data set, explanations.jsonl, pictures and report.html to {folder}."
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
    labels = work.source_rows(range(first, first + 1)).labels
    label = labels[0] if labels else first
    return (
        f"Of {counted(len(work), 'row')}, at least {len(rejected)} would be rejected. Row {label}: "
        f"{rejected[first]}. Nothing was written."
    )


def _rejected(work: Job, tried: Explanation) -> dict[int, str]:
    """Rows that will be rejected, and why: all with bad contexts, and some of those tried."""
    rejected: dict[int, str] = {}
    for rows in work.parts:  # one after the other: no more than a part is held at once
        contexts = work.source_rows(rows)
        domain = Domain.of(contexts.features, contexts.x)
        faults = [""] * len(rows) if domain is None else domain.faults(contexts.x)
        found = {
            row: f"the context itself is not allowed: {fault}"
            for row, fault in enumerate(faults)
            if fault
        }
        found |= contexts.not_finite()
        rejected |= {rows.start + row: why for row, why in found.items()}
    return rejected | {
        row: tried.message[row]
        for row, status in enumerate(tried.status)
        if status is Status.REJECTED
    }
