"""Predictors without a gradient: exact answers behind tree ensembles, and other means beside them.

Seconds are those of one core, of the whole call: search, verification and the check of the proof.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import torch

import cfopt
from benchmarks.cp_sat import ForestModel
from benchmarks.forests import SETTINGS, Behind, Setting, one_thread, seconds_of, warm_up
from cfopt.search import DerivativeFree, TreeCells

_CP_SAT_ROWS, _CP_SAT_SECONDS = 6, 60.0
_FREE_ROWS = 24


def exact(settings: Sequence[Setting] = SETTINGS) -> list[dict[str, Any]]:
    """Absolute questions one at a time: how many are answered and proved, and how fast."""
    with one_thread():
        warm_up()
        return [_measure(Behind.of(setting)) for setting in settings]


def _measure(behind: Behind) -> dict[str, Any]:
    setting = behind.setting
    search = TreeCells(seconds_a_row=setting.seconds)
    timed = [
        seconds_of(lambda k=k: behind.explain(slice(k, k + 1), search)) for k in range(setting.rows)
    ]
    seconds = [one for _, one in timed]
    found = cfopt.Explanation.concat([one for one, _ in timed])
    # A bound of nothing is a gap of everything.
    gap = 1 - found.bound.nan_to_num(0.0)[found.valid] / found.loss[found.valid]
    return {
        "predictor": setting.name,
        "rows": setting.rows,
        "seconds allowed": setting.seconds,
        "answered": int(found.valid.sum()),
        "proved": int((found.optimal & found.valid).sum()),
        "median s": statistics.median(seconds),
        "largest s": max(seconds),
        "mean gap": float(gap.clamp(min=0).mean()),
        "largest gap": float(gap.clamp(min=0).max()),
    }


def second_opinion(rows: int = _CP_SAT_ROWS) -> list[dict[str, Any]]:
    """The same optimum by CP-SAT, on the smallest forest, with cuts until the solver agrees.

    Neither is told of other contexts, and both are timed from the question to the answer.
    """
    behind = Behind.of(SETTINGS[0])
    model, search = ForestModel(behind.model), TreeCells(seconds_a_row=_CP_SAT_SECONDS)
    lines = []
    with one_thread():
        warm_up()
        for k in range(rows):
            row = slice(k, k + 1)
            ours, own = seconds_of(lambda row=row: behind.explain(row, search, reference=False))
            x0, wanted = behind.contexts[k].numpy(), behind.alternative(row)[0].numpy()
            problem, factual = behind.pipeline.problem, behind.decisions[k].numpy()
            theirs = model.nearest(x0, wanted, factual, problem, _CP_SAT_SECONDS)
            loss = float(ours.loss[0])
            lines.append(
                {
                    "row": k,
                    "loss": loss,
                    "proved": bool(ours.optimal[0]),
                    "CP-SAT proved": theirs.proved,
                    "CP-SAT's loss / ours - 1": theirs.loss / loss - 1,
                    "same to 1e-6": theirs.proved and abs(theirs.loss / loss - 1) <= 1e-6,
                    "cuts": theirs.cuts,
                    "s": own,
                    "CP-SAT s": theirs.seconds,
                    "last solve, with all cuts": theirs.last,
                    "CP-SAT s / s": theirs.seconds / own,
                    "last solve / s": theirs.last / own,
                }
            )
    return lines


def derivative_free(rows: int = _FREE_ROWS) -> list[dict[str, Any]]:
    """The search that needs nothing but costs, beside the exact distance on the smallest forest."""
    behind, all_rows = Behind.of(SETTINGS[0]), slice(0, rows)
    with one_thread():
        best = behind.explain(all_rows, TreeCells())
        return [_beside(best, behind, all_rows, reference) for reference in (True, False)]


def _beside(
    best: cfopt.Explanation, behind: Behind, rows: slice, reference: bool
) -> dict[str, Any]:
    found, seconds = seconds_of(lambda: behind.explain(rows, DerivativeFree(), reference))
    both = best.optimal & best.valid & found.valid
    # Distances, not their squares. The factual context is an answer to none of these questions.
    ratio = (found.loss[both] / best.loss[both]).sqrt()
    return {
        "start": "training data" if reference else "nothing known",
        "rows": len(found.x),
        "have an answer": int(best.valid.sum()),
        "answered": int(found.valid.sum()),
        "compared": int(both.sum()),
        "median distance / exact": float(torch.quantile(ratio, 0.5)),
        "worst": float(ratio.max()),
        "s/row": seconds / len(found.x),
    }
