"""Which metric distinguishes naive explanations from plausible ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import mannwhitneyu

from cfopt.drawing.mpl import INK
from cfopt_paper.charts import DEFAULT, MDMM, PAPER, panels
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job
from cfopt_paper.map_beta import PIXELS
from cfopt_paper.map_runs import map_runs, naive_runs
from cfopt_paper.paper import paper_values
from cfopt_paper.study import Study

_ERRORS = {
    "reconstruction error": (
        "warcraft: adversarial boxplot median, mean squared reconstruction error",
        PIXELS,
    ),
    "decision-focused error, %": (
        "warcraft: adversarial boxplot median, decision-focused error (%)",
        1,
    ),
}
ADVANTAGE = "AUC of the decision-focused error less that of the other"
#: How often explanations are resampled for an interval.
_RESAMPLED = 1000
_KINDS = {"naive": PAPER, "MDMM": MDMM, "default": DEFAULT}


def auc(high: pd.Series[float], low: pd.Series[float]) -> float:
    """The chance that one of the first values is above one of the second; ties count half.

    `P(high > low) + P(high = low) / 2`, the area under the ROC curve of a metric that tells them
    apart; NaN where there is nothing to compare.
    """
    first, second = high.dropna(), low.dropna()
    if first.empty or second.empty:
        return float("nan")
    statistic = float(mannwhitneyu(first, second).statistic)
    return statistic / (len(first) * len(second))


def advantage(naive: pd.DataFrame, plausible: pd.DataFrame) -> tuple[float, float, float]:
    """By how much the decision-focused error separates better than the reconstruction error.

    The difference of their areas under the curve, with the 95% interval of the bootstrap over
    explanations; NaN where there is nothing to compare.

    Arguments:
        naive, plausible: rows with both errors.
    """
    pixels, decision = _ERRORS
    naive, plausible = (of.dropna(subset=[pixels, decision]) for of in (naive, plausible))

    def difference(high: pd.DataFrame, low: pd.DataFrame) -> float:
        return auc(high[decision], low[decision]) - auc(high[pixels], low[pixels])

    if naive.empty or plausible.empty:
        return (np.nan,) * 3
    random = np.random.default_rng(0)
    drawn = [
        difference(*(of.iloc[random.integers(len(of), size=len(of))] for of in (naive, plausible)))
        for _ in range(_RESAMPLED)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return difference(naive, plausible), float(low), float(high)


class Boxes(Experiment):
    """Errors of naive and of plausible explanations, as the alpha = 2 VAE sees them (Figure 7).

    Plausible ones are searched with the alpha = 0 VAE, so that the judge is another one.
    """

    name = "maps-boxes"
    title = "Naive beside plausible: which error tells them apart?"
    keys = ("search",)
    values = (*_ERRORS, "squared distance", "valid", "steps", "passes", "solves")

    def jobs(self, study: Study) -> Sequence[Job]:
        """Naive search among pixels, both searches among codes."""
        tasks = study.scale.map_tasks
        plausible = [r for kind in ("MDMM", "default") for r in map_runs(tasks, kind, alpha=0.0)]
        return [*naive_runs(study), *plausible]

    def summary(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Means, medians, and how well each error separates: the area under the ROC curve."""
        means = super().summary(rows)
        found = {kind: rows[rows["search"] == kind] for kind in _KINDS}
        medians: list[dict[str, object]] = [
            {"search": kind, "measure": f"median {error}", "mean": of[error].median()}
            for kind, of in found.items()
            for error in _ERRORS
        ]
        areas: list[dict[str, object]] = [
            {
                "search": f"naive against {kind}",
                "measure": f"AUC of {error}",
                "mean": auc(found["naive"][error], found[kind][error]),
            }
            for kind in ("MDMM", "default")
            for error in _ERRORS
        ]
        for kind in ("MDMM", "default"):
            mean, low, high = advantage(found["naive"], found[kind])
            about = {"search": f"naive against {kind}", "measure": ADVANTAGE}
            # As many as there are answers of the rarer kind: what its interval rests on.
            answered = min(len(found[one].dropna(subset=[*_ERRORS])) for one in ("naive", kind))
            areas.append({**about, "mean": mean, "low": low, "high": high, "count": answered})
        return pd.concat([means, pd.DataFrame(medians + areas)], ignore_index=True)

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """A box for each kind, and the paper's medians as dashes."""
        figure, axes = panels(2, self.title)
        for one, (error, (paper, factor)) in zip(axes, _ERRORS.items(), strict=True):
            data = [rows.loc[rows["search"] == kind, error].dropna() for kind in _KINDS]
            labels = ["naive", "plausible,\nMDMM", "plausible,\ndefault"]
            boxes = one.boxplot(data, patch_artist=True, medianprops={"color": INK})
            for box, colour in zip(boxes["boxes"], _KINDS.values(), strict=True):
                box.set(facecolor=colour, alpha=0.55)
            one.set_xticks([1, 2, 3], labels)
            medians = [paper_values(paper, kind)["value"][0] for kind in ("naive", "CF-OPT")]
            ends = [(0.6, 1.4), (1.6, 3.4)]
            for median, (left, right), label in zip(
                medians, ends, ("paper's medians", "_unnamed"), strict=True
            ):
                one.hlines(
                    factor * median, left, right, INK, linestyles="dashed", lw=1, label=label
                )
            area = summary.loc[summary["measure"] == f"AUC of {error}", "mean"]
            one.set_title(
                f"AUC {area.iloc[0]:.2f} (MDMM), {area.iloc[1]:.2f} (default)", fontsize=10
            )
            one.set_ylabel(error, fontsize=9)
            one.legend(fontsize=7.5, frameon=False)
        return {self.name: figure}
