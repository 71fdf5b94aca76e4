"""NICE: a nearest unlike neighbour, from which features are taken one after the other."""

from __future__ import annotations

import numpy as np
from case import Case, Explain, answer
from nice import NICE


def settings(case: Case) -> dict[str, Explain]:
    def make(**options: str) -> Explain:
        model = NICE(
            predict_fn=case.classifier.predict_proba,
            X_train=case.known.copy(),
            y_train=case.labels,
            cat_feat=[],
            **options,
        )
        return lambda row: (np.asarray(model.explain(row), dtype=np.float64)[0], False)

    return {
        "NICE, default (sparsity)": make(),
        "NICE, proximity": make(optimization="proximity", num_normalization="std"),
    }


answer(settings)
