"""All measures of an explanation in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.exact.affine import is_affine
from cfopt.pipeline import Pipeline, relative_regret
from cfopt.result.explanation import Explanation
from cfopt.result.measures import closeness, plausible, robust
from cfopt.result.measures.closeness import Units
from cfopt.result.measures.diverse import diversity
from cfopt.result.measures.judge import Judge
from cfopt.result.measures.stopwatch import Stopwatch
from cfopt.result.radius import radii
from cfopt.result.status import Status

#: The kinds of a radius within which the criterion is proved to hold.
_CERTIFIED = ("exact", "at least")


def evaluate(explanation: Explanation, **given: Any) -> pd.DataFrame:
    """How good an explanation is, by the measures of the field: a line for each measure.

    The index is the group and the measure; `rows` says of how many rows it could be taken, `mean`,
    `median` and `95%` what it is over these. The mean of what holds or not is a share. Arguments
    are those of `evaluate_rows`, which has the same measures for each row.
    """
    numbers = evaluate_rows(explanation, **given)
    return pd.DataFrame(
        {
            "rows": numbers.notna().sum(),
            "mean": numbers.mean(),
            "median": numbers.median(),
            "95%": numbers.quantile(0.95),
        }
    ).rename_axis(["group", "measure"])


def evaluate_rows(
    explanation: Explanation,
    *,
    pipeline: Pipeline | None = None,
    reference: Any = None,
    refits: Sequence[Pipeline] = (),
    density: Callable[[Tensor], Tensor] | None = None,
    watch: Stopwatch | None = None,
    nearest: int = 5,
    noise: float = 0.05,
    draws: int = 20,
    seed: int = 0,
) -> pd.DataFrame:
    """The measures of each row: a line for each row, a column for each group and measure.

    What is measured depends on what is given. Distances, plausibility and robustness are those of
    answers that were found; they are NaN in other rows, also where the context itself explains.

    Arguments:
        explanation: the rows.
        pipeline: predictor and problem; needed for whatever is solved again (redundancy, noise,
            distance to known contexts that explain as well), and for the certified radius behind
            affine predictors; behind others nothing is certified.
        reference: known contexts, such as the training data; from them follow deviations, and how
            usual answers are (extra `sklearn`).
        refits: the same pipeline refitted several times.
        density: the logarithm of a density of contexts, `(B, ...) -> (B,)`.
        watch: a `Stopwatch` that was passed to `explain` as `on_progress`: it knows how long rows
            took.
        nearest: how many known contexts the distance to them is averaged over.
        noise, draws, seed: the size of the noise in deviations, how often it is drawn, and how.
    """
    e = explanation
    _check(nearest, noise, draws)
    rows = torch.tensor([k for k, one in enumerate(e.status) if one.is_found]).long()
    known = None if reference is None else _known(e, reference)
    units = None if known is None else Units.of(known.flatten(1).double().numpy())
    judge = None if pipeline is None else Judge(e, pipeline)
    columns: dict[tuple[str, str], Array] = {}

    def put(group: str, name: str, values: Any, of: Tensor = rows) -> None:
        filled = np.full(len(e), np.nan)
        filled[of.numpy()] = np.asarray(values, dtype=np.float64)
        columns[group, name] = filled

    everyone = torch.arange(len(e))
    put("outcome", "explained", e.valid.cpu().numpy(), everyone)
    for status in Status:
        put("outcome", str(status), [one is status for one in e.status], everyone)
    if len(rows):
        put("distance", "as asked", e.distance[rows].double().cpu().numpy())
        for name, values in closeness.distances(e, units).items():
            put("distance", name, values[rows.numpy()])
        put("sparsity", "changed features", closeness.changed(e)[rows.numpy()].sum(axis=1))
        if judge is not None:
            put("sparsity", "redundant features", robust.redundant(e, judge, rows))
        x = e.x[rows].cpu()
        if known is not None and units is not None:
            points, others = (part.flatten(1).double().numpy() for part in (x, known))
            factor = plausible.local_outlier_factor(points, others, units)
            put("plausibility", "local outlier factor", factor)
            put("plausibility", "isolation score", plausible.isolation(points, others))
            if judge is not None:
                away = plausible.distance_to_wanted(judge, rows, x, known, units, nearest)
                put("plausibility", f"distance to {nearest} known that explain", away)
        if density is not None:
            with torch.no_grad():
                put("plausibility", "log-density", density(e.x[rows]).double().cpu().numpy())
        if judge is not None and units is not None:
            held = robust.under_noise(e, judge, rows, units, noise, draws, seed)
            put("robustness", f"valid under noise of {noise:g}", held)
        if e.options is not None:
            for name, values in diversity(e, rows.numpy(), units).items():
                put("diversity", name, values)
        if refits:
            put("robustness", "valid under refits", robust.under_refits(e, rows, refits))
    if e.radii is None and pipeline is not None and is_affine(pipeline.predictor):
        e = replace(e, radii=radii(e, pipeline))
    _radii(e, put)
    _proofs(e, put)
    if watch is not None:
        _times(watch.seconds(len(e)), rows, put)
    _regrets(e, pipeline, put)
    labels = e.labels if e.labels is not None else range(len(e))
    names = pd.MultiIndex.from_tuples(list(columns), names=["group", "measure"])
    values = np.stack(list(columns.values()), axis=1)
    return pd.DataFrame(values, index=pd.Index(labels, name="row"), columns=names)


def _radii(e: Explanation, put: Callable[..., None]) -> None:
    """How far answers may be off, as far as that is known; "at most" certifies nothing."""
    if e.radii is None:
        return
    rows = [k for k, kind in enumerate(e.radius_kind) if kind in _CERTIFIED and e.answered[k]]
    radius = e.radius[rows].double().cpu().numpy()
    put("robustness", "certified radius", radius, torch.tensor(rows).long())


def _times(seconds: Array, rows: Tensor, put: Callable[..., None]) -> None:
    """After how many seconds answers were there, and when the first of them was."""
    put("effort", "seconds until the answer", seconds[rows.numpy()])
    if len(rows):
        first = rows[int(np.nanargmin(seconds[rows.numpy()]))]
        put("effort", "seconds until the first answer", [seconds[first]], first.reshape(1))


def _proofs(e: Explanation, put: Callable[..., None]) -> None:
    """What was minimised, what is proved about it, and what it took."""
    asked = torch.tensor([k for k, one in enumerate(e.status) if one is not Status.REJECTED]).long()
    found = torch.tensor([k for k, one in enumerate(e.status) if one.is_found]).long()
    loss, bound, gap = (part.double().cpu().numpy() for part in (e.loss, e.bound, e.gap))
    put("proof", "loss", loss[found.numpy()], found)
    put("proof", "bound", bound[found.numpy()], found)
    put("proof", "gap", gap[found.numpy()], found)
    settled = e.optimal.cpu().numpy() | np.array(
        [one is Status.PROVED_INFEASIBLE for one in e.status], dtype=bool
    )
    put("proof", "proved", settled[asked.numpy()], asked)
    for name in ("steps", "solves", "passes"):
        put("effort", name, getattr(e, name)[asked].cpu().numpy(), asked)


def _regrets(e: Explanation, pipeline: Pipeline | None, put: Callable[..., None]) -> None:
    """How far from the best decisions are, before and after, as a fraction of the best value."""
    problem = e.problem if pipeline is None else pipeline.problem
    found = torch.tensor([k for k, one in enumerate(e.status) if one.is_found]).long()
    if problem is None or not len(found):
        return
    for who, decisions in (("factual", e.factual), ("alternative", e.alternative)):
        for when, costs in (("before", e.costs_before), ("after", e.costs)):
            regret = relative_regret(problem, decisions[found], costs[found])
            put("regret", f"of the {who} {when}", regret.cpu().numpy(), found)


def _known(e: Explanation, reference: Any) -> Tensor:
    """Known contexts as those of the explanation are: `(N, ...)`."""
    if isinstance(reference, pd.DataFrame):
        reference = (
            reference.to_numpy(np.float64) if e.columns is None else e.columns.encode(reference)
        )
    known = torch.as_tensor(reference).to(e.x.dtype).cpu()
    if known.shape[1:] != e.x.shape[1:] or len(known) < 2:
        raise InputError(
            f"evaluate needs at least two known contexts of shape {tuple(e.x.shape[1:])}, as those "
            f"explained have; got reference of shape {tuple(known.shape)}."
        )
    return known


def _check(nearest: int, noise: float, draws: int) -> None:
    if nearest < 1 or draws < 1 or not noise >= 0:
        raise InputError(
            "evaluate needs nearest >= 1, draws >= 1 and noise >= 0, got "
            f"{nearest!r}, {draws!r} and {noise!r}."
        )
