"""treecf: a genetic search, and branch and bound with proofs, for tree ensembles only."""

from __future__ import annotations

import numpy as np
from case import Case, Explain, answer
from treecf import Counterfactual, Explainer, Target


def settings(case: Case) -> dict[str, Explain]:
    if case.trees is None:
        return {}
    explainer = Explainer(case.trees, normalizers=case.known.std(axis=0))
    target = Target.raw(op="<=", value=0.0)

    def make(**options: str) -> Explain:
        def explain(row: np.ndarray) -> tuple[np.ndarray | None, bool]:
            found = explainer.explain(row[0], target=target, seed=0, **options)
            if not isinstance(found, Counterfactual):
                return None, False
            return np.asarray(found.x_cf), found.proof == "optimal"

        return explain

    return {"treecf, default (genetic)": make(), "treecf, exact": make(backend="exact")}


answer(settings)
