"""What another search found behind trees, proved or improved over their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from cfopt._batch import where_rows
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.exact.regret_proof import RegretProof
from cfopt.exact.tree_proof import TreeProof
from cfopt.search.tree_cells import TreeCells

#: What may be left open, as a fraction of the loss.
_SETTLED = 1e-6


def proved_by_cells(task: Task, points: Points, seconds: float, step: int) -> Iterator[Progress]:
    """Rows that are proved end as they are; others go on from what was found.

    Arguments:
        task: what to work on; its predictor is a tree ensemble.
        points: what was found, with all rows.
        seconds: the time for all rows together.
        step: how many reports there were.
    """
    loss = task.space.loss(points.x).double().cpu().numpy()
    done = [_proves(points, row, float(loss[row])) for row in range(len(task))]
    ended, rest = (
        torch.tensor(np.flatnonzero(np.array(done) == one), device=points.rows.device)
        for one in (True, False)
    )
    left = len(rest)
    if len(ended):
        step += 1
        yield Progress(step, left, len(task), points[ended])
    if not left:
        return
    known = points.x[points.found] if points.found.any() else None
    search = TreeCells(known, seconds_a_row=seconds / left)
    for progress in search.steps(task[rest]):
        step += 1
        finished = progress.finished
        if finished is not None:
            finished = _joined(points[rest[finished.rows]], finished)
            left -= len(finished)
        moving = None if progress.moving is None else progress.moving.of(rest)
        yield Progress(step, left, len(task), finished, moving)


def _proves(points: Points, row: int, loss: float) -> bool:
    """Whether a proof about trees is there that leaves nothing open."""
    proof = points.certificates[row]
    if not isinstance(proof, TreeProof | RegretProof):
        return proof is not None
    return proof.infeasible or (bool(points.found[row]) and proof.claim >= (1 - _SETTLED) * loss)


def _joined(before: Points, after: Points) -> Points:
    """The same rows, with what was found first where nothing was found after it."""
    return replace(
        before,
        x=where_rows(after.found, after.x.to(before.x), before.x),
        found=before.found | after.found,
        steps=before.steps + after.steps,
        solves=before.solves + after.solves,
        passes=before.passes + after.passes,
        notes=after.notes,
        methods=tuple(
            f"{first}, then {second}"
            for first, second in zip(before.methods, after.methods, strict=True)
        ),
        certificates=after.certificates,
    )
