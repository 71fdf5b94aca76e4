"""The paper's claims about maps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from cfopt_paper.claims import Check, Claim, below, decided, deciding, listed
from cfopt_paper.findings import Findings
from cfopt_paper.map_alpha import AlphaLoss, AlphaRegret
from cfopt_paper.map_architecture import EXCESS, Architecture
from cfopt_paper.map_beta import BetaDecision, BetaLoss, BetaReconstruction
from cfopt_paper.map_boxes import ADVANTAGE, Boxes
from cfopt_paper.map_generators import Generators
from cfopt_paper.map_latents import Latents
from cfopt_paper.map_sphere import PAPER_ETA, Mass, Region

_PREDICTED, _TRUE = "regret, predicted costs, %", "regret, true costs, %"
_ERROR, _DECISION = "squared reconstruction error", "decision-focused error, %"
#: How far, in points, masses may be apart that count as alike.
_ALIKE = 5.0
#: Above this ratio a quantity is said to depend on a setting.
_MUCH = 1.5


def _alpha_regret(found: Findings) -> Iterator[Claim]:
    regret = found.curve(_PREDICTED, "alpha")["mean"]
    change = found.difference(_PREDICTED, "alpha", 0.0, 2.0)
    yield Claim(
        found.name,
        "Cost-aware training lowers the regret after reconstruction",
        "predicted costs: 6.5% at alpha = 0, 2.9% at 2, 2.6% at 10",
        f"{listed(regret, '%')}; from 0 to 2 it changes by {change} points{deciding(change)}",
        below(change),
    )
    gap = {
        alpha: found.estimate(_TRUE, alpha=alpha).mean - value for alpha, value in regret.items()
    }
    yield Claim(
        found.name,
        "The regret is lower with predicted than with true costs",
        "lower by 0.5 to 0.8 points at every alpha",
        "lower by " + ", ".join(f"{value:.2f} ({alpha:g})" for alpha, value in gap.items()),
        decided(min(gap.values()) > 0, *gap.values()),
    )
    error = found.curve(_ERROR, "alpha")["mean"]
    between = error.iloc[1:-1].min()  # NaN if there is nothing between
    dips, rises = between < error.iloc[0], error.iloc[-1] > error.min()
    yield Claim(
        found.name,
        "The reconstruction error dips with alpha and then rises",
        "106 at 0, 96 at 2, 153 at 10",
        listed(error),
        decided(bool(dips and rises), *error, between),
    )


def _alpha_loss(found: Findings) -> Iterator[Claim]:
    loss = found.curve("loss", "alpha", search="default")["mean"]
    change = found.difference("loss", "alpha", 0.0, 2.0, search="default")
    paper = found.curve("loss", "alpha", search="MDMM")
    yield Claim(
        found.name,
        "Explanations are nearer with cost-aware VAEs",
        "loss 306 at alpha = 0, 195 at 0.5, 188 at 2, 182 at 10",
        f"default search: {listed(loss)}; from 0 to 2 the loss of a task changes by {change}"
        f"{deciding(change)}. MDMM: {listed(paper['mean'])}, over the {_counts(paper['count'])} "
        "tasks that it solves",
        below(change),
    )


def _beta_reconstruction(found: Findings) -> Iterator[Claim]:
    yield from _beta(found, "reconstruction error", "48 at beta = 0, 40 at 10, 43 at 100", "")


def _beta_decision(found: Findings) -> Iterator[Claim]:
    yield from _beta(found, _DECISION, "7.6% at beta = 0, 5.3% at 10, 5.9% at 100", "%")


def _beta(found: Findings, measure: str, paper: str, unit: str) -> Iterator[Claim]:
    curve = found.curve(measure, "beta", search="default")["mean"]
    change = found.difference(measure, "beta", 0.0, 10.0, search="default")
    theirs = found.difference(measure, "beta", 0.0, 10.0, search="MDMM")
    name = measure.removesuffix(", %")
    yield Claim(
        found.name,
        f"The {name} of explanations falls with the weight of the sphere",
        paper,
        f"default search: {listed(curve, unit)}; from 0 to 10 it changes by {change}"
        f"{deciding(change)}. MDMM: by {theirs}, over {theirs.count} tasks",
        below(change),
    )


def _boxes(found: Findings) -> Iterator[Claim]:
    for search in ("MDMM", "default"):
        pair = f"naive against {search}"
        decision, pixels = (
            found.estimate(f"AUC of {error}", search=pair).mean
            for error in (_DECISION, "reconstruction error")
        )
        gain = found.estimate(ADVANTAGE, search=pair)
        medians = [
            found.estimate(f"median {_DECISION}", search=kind).mean for kind in ("naive", search)
        ]
        yield Claim(
            found.name,
            "The decision-focused error tells naive from plausible explanations better than the "
            f"reconstruction error ({search} search)",
            "medians 62% and 5%, against 0.003 and 0.0015 a pixel",
            f"AUC {decision:.3f} against {pixels:.3f}, a difference of {gain}"
            f"{deciding(gain)}; medians {medians[0]:.3g}% and {medians[1]:.3g}%",
            below(gain.negative),
        )


def _beta_loss(found: Findings) -> Iterator[Claim]:
    curves = {
        penalty: found.curve("loss", "beta", search="default", plausibility=penalty)["mean"]
        for penalty in ("sphere", "log-likelihood")
    }
    none = curves["sphere"].iloc[0]
    growth = {penalty: curve.iloc[-1] / none for penalty, curve in curves.items()}
    yield Claim(
        found.name,
        "The log-likelihood makes the loss explode with beta, the sphere does not",
        "156 without; at beta = 100 187 with the sphere and 4,906 with the log-likelihood",
        f"default search, without {none:.3g}; sphere {listed(curves['sphere'].iloc[1:])}; "
        f"log-likelihood {listed(curves['log-likelihood'])}",
        decided(growth["log-likelihood"] > 5 and growth["sphere"] < _MUCH, *growth.values()),
    )


def _mass(found: Findings) -> Iterator[Claim]:
    table = found.rows
    sampled = (table["sampled codes"] - table["prior"]).abs().max()
    means = (table["mean codes"] - table["prior"]).abs().max()
    norm, active = table["norm of mean codes"].iloc[0], int(table["active"].iloc[0])
    yield Claim(
        found.name,
        "Encoded data lie about the sphere as the prior does",
        "within 0.6 points of the prior for every kappa",
        f"sampled codes within {100 * sampled:.1f} points, mean codes within {100 * means:.1f}; "
        f"{active} of 64 latents are active, the mean norm of mean codes is {norm:.2f}",
        decided(100 * sampled < _ALIKE),
    )


def _region(found: Findings) -> Iterator[Claim]:
    radius = found.rows["radius"].iloc[0]
    threshold = found.rows["log10 threshold"].iloc[0]
    yield Claim(
        found.name,
        "The sphere of radius C_64 is the best region for eta >= 1e-16",
        "C_64 = 7.97, by a grid search over (a, b)",
        f"C_64 = {radius:.4f}; it is optimal from eta = {10**threshold:.2g} on",
        decided(abs(radius - 7.97) < 0.005 and threshold <= np.log10(PAPER_ETA)),
    )


def _latents(found: Findings) -> Iterator[Claim]:
    loss = found.curve("loss", "latents", search="default")
    regret = found.curve(_PREDICTED, "latents", search="reconstruction")["mean"]
    spread = loss["mean"].max() / loss["mean"].min()
    yield Claim(
        found.name,
        "The size of codes, from 16 to 256, matters little",
        "said in the text, without figures",
        f"loss, default search: {listed(loss['mean'])}, a ratio of {spread:.2f} (valid: "
        f"{_counts(loss['count'])}); regret after reconstruction: {listed(regret, '%')}",
        decided(bool(spread < _MUCH), *loss["mean"]),
    )


def _generators(found: Findings) -> Iterator[Claim]:
    for measure, paper in (
        ("reconstruction error", "48 at beta = 0, 40 at 10"),
        (_DECISION, "7.6% at beta = 0, 5.3% at 10"),
    ):
        change = found.difference(measure, "beta", 0.0, 10.0, generator="shipped")
        curve = found.curve(measure, "beta", generator="shipped")["mean"]
        yield Claim(
            found.name,
            f"With the shipped model, too, the {measure.removesuffix(', %')} falls with the weight "
            "of the sphere",
            paper,
            f"{listed(curve)}; from 0 to 10 it changes by {change}{deciding(change)}",
            below(change),
        )
    gain = found.estimate(ADVANTAGE, generator="shipped", beta=10.0)
    yield Claim(
        found.name,
        "With the shipped model, too, the decision-focused error tells naive from plausible "
        "explanations better than the reconstruction error",
        "medians 62% and 5%, against 0.003 and 0.0015 a pixel",
        f"the areas under the curve differ by {gain}{deciding(gain)}",
        below(gain.negative),
    )


def _architecture(found: Findings) -> Iterator[Claim]:
    paper = {"architecture": "convolutional"}
    error = found.curve(_ERROR, "alpha", **paper)["mean"]
    change = found.difference(_ERROR, "alpha", 0.0, 2.0, **paper)
    yield Claim(
        found.name,
        "With the paper's architecture, the reconstruction error is lower at alpha = 2 than at 0",
        "106 at 0, 96 at 2",
        f"{listed(error)}; from 0 to 2 it changes by {change}{deciding(change)}",
        below(change),
    )
    excess = found.estimate(EXCESS, alpha=2.0, **paper).mean
    yield Claim(
        found.name,
        "With the paper's architecture, encoded data lie about the sphere as the prior does",
        "within 0.6 points of the prior for every kappa",
        f"sampled codes within {excess:.1f} points",
        decided(excess < _ALIKE, excess),
    )


def _counts(values: pd.Series[float]) -> str:
    return ", ".join(f"{int(value)}" for value in values)


CHECKS: dict[str, Check] = {
    AlphaRegret.name: _alpha_regret,
    AlphaLoss.name: _alpha_loss,
    BetaReconstruction.name: _beta_reconstruction,
    BetaDecision.name: _beta_decision,
    Boxes.name: _boxes,
    BetaLoss.name: _beta_loss,
    Mass.name: _mass,
    Region.name: _region,
    Latents.name: _latents,
    Generators.name: _generators,
    Architecture.name: _architecture,
}
