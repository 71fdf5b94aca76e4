"""Asking a question again, of some of its rows and with other limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from cfopt.explaining.explain import answer
from cfopt.pipeline import Pipeline
from cfopt.question.features import Features
from cfopt.result.explanation import Explanation


def ask_again(
    e: Explanation, rows: Sequence[int], pipeline: Pipeline, features: Features, deadline: float
) -> Explanation:
    """What the same question gives for some rows, if features are limited otherwise.

    Arguments:
        e: as `explain` returned it.
        rows: which of its rows are asked about, by number.
        pipeline: the pipeline that it explains.
        features: the features with their new limits.
        deadline: when to end with what there is.
    """
    places = torch.tensor(rows)
    asked = replace(e.asked, criterion=e.criterion[places], features=features, options=1)
    found = answer(e.x0[places], pipeline, asked, deadline=deadline)
    labels = None if e.labels is None else tuple(e.labels[row] for row in rows)
    return replace(found, columns=e.columns, labels=labels)
