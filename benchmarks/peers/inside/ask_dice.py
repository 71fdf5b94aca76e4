"""DiCE: random search, known contexts (kd-tree), or a genetic search."""

from __future__ import annotations

import random
from typing import Any

import dice_ml
import numpy as np
import pandas as pd
from case import Case, Explain, answer
from raiutils.exceptions import UserConfigValidationException


def settings(case: Case) -> dict[str, Explain]:
    table = pd.DataFrame(case.known, columns=case.names).assign(outcome=case.labels)
    data = dice_ml.Data(dataframe=table, continuous_features=case.names, outcome_name="outcome")
    model = dice_ml.Model(model=case.classifier, backend="sklearn", model_type="classifier")
    scale = case.known.std(axis=0)
    weights = dict(zip(case.names, 1 / scale, strict=True))

    def make(method: str, total: int, **options: Any) -> Explain:
        dice = dice_ml.Dice(data, model, method=method)

        def explain(row: np.ndarray) -> tuple[np.ndarray | None, bool]:
            np.random.seed(0)  # noqa: NPY002 - it draws from the global generators
            random.seed(0)
            asked = pd.DataFrame(row, columns=case.names)
            try:
                found = dice.generate_counterfactuals(
                    asked, total_CFs=total, desired_class="opposite", **options
                )
            except UserConfigValidationException:  # its way to say that there is none
                return None, False
            one = found.cf_examples_list[0]
            answers = one.final_cfs_df_sparse
            if answers is None or not len(answers):
                return None, False
            x = answers[case.names].to_numpy(dtype=np.float64)
            return x[(np.abs(x - row) / scale).sum(axis=1).argmin()], False

        return explain

    return {
        "DiCE, default (random)": make("random", 1),
        "DiCE, random, nearest of 10": make("random", 10, posthoc_sparsity_algorithm="binary"),
        "DiCE, kd-tree, nearest of 10": make("kdtree", 10, posthoc_sparsity_algorithm="binary"),
        "DiCE, genetic, nearest of 10": make("genetic", 10, feature_weights=weights),
    }


answer(settings)
