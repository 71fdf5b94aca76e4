"""The result: one row for each context, frozen, and ways to read it."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
import torch
from torch import Tensor

from cfopt._batch import ROWS, Batch
from cfopt.engine.latent import Codes
from cfopt.errors import InputError
from cfopt.exact.certificate import Clash
from cfopt.pipeline import Columns, Pipeline
from cfopt.problems.base import Problem
from cfopt.problems.sense import Sense
from cfopt.question import Criterion, Question
from cfopt.question.features import Features
from cfopt.question.plausibility import KAPPA, in_thick_sphere
from cfopt.question.proximity import Latent
from cfopt.result.radii import Radii
from cfopt.result.remedy import Remedy
from cfopt.result.status import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cfopt.result.typical import Typical


def is_optimal(loss: Tensor, bound: Tensor) -> Tensor:
    """Whether a loss meets its bound, up to rounding: `(B,), (B,) -> (B,)`."""
    fraction = 1e-6 if loss.dtype == torch.float64 else 1e-4
    return loss - bound <= fraction * loss


@dataclass(frozen=True, eq=False)
class Explanation(Batch):
    """What would have to be different: one row for each context that was asked about.

    Arguments:
        x0: the factual contexts, `(B, ...)`.
        x: the contexts that explain, or that come nearest to it, `(B, ...)`.
        status: how each row ended.
        message: the same in words.
        loss: what was minimised, the proximity and, of codes, the plausibility, `(B,)`; 0 where
            the context itself explains, NaN for rejected rows.
        bound: the proved least loss of every valid and allowed context of the row, in the
            units of the loss, `(B,)`; inf if there is none, NaN where nothing was proved.
        violation: h at x in minimisation form, `(B,)`: > 0 is what a best effort lacks.
        tie: valid by equality, `(B,)`: for `Absolute`, another decision has the same value (for a
            wish: one that does not grant it); for the others, both sides of the criterion are
            level. Where a problem does not rank its decisions, only what the solver returned is
            compared.
        steps, solves: steps or rounds of the search, and solver calls, `(B,)`.
        passes: forward passes and Jacobian rows of the predictor in the search, `(B,)`; an affine
            predictor is read off once, which is not counted.
        method: what found x, or was tried in vain.
        clash: why no explanation exists, for the rows where that was proved.
        factual: the decision at x0, `(B, m)`.
        wanted: the plan that is argued for: the alternative, or the best plan at x that grants the
            wish, `(B, m)`; NaN without either.
        decision: the pipeline's decision at x, from a fresh solve, `(B, m)`.
        costs_before, costs: predicted costs at x0 and at x, `(B, n)`.
        asked: the question, its criterion bound to the rows.
        sense: "min" or "max".
        labels: the rows' labels, from a DataFrame's index.
        traces: loss, h and lambda of each step, `(steps, 3)` a row, if asked for.
        problem: the problem, for pictures; not kept in JSON.
        latent: codes and reconstructions, where a generative model was used.
        columns: the columns of a DataFrame that contexts stand for, if they do.
        options: for each row its options, the best first, as an explanation with a row for each;
            the first is the row itself. None if only one was asked for.
        radii: how far x may be off, as far as that has been measured; read it as `radius`.
        pipeline: the pipeline that was explained, of which `radius` asks what it does not know yet;
            not kept in JSON.
        prices: the same question about the costs instead of the contexts, if it was asked: its
            features are the entries of the costs.
        typical: how usual the contexts are, as percentiles: to the generative model, beside
            held-out ones, or with `LocalOutlier` among the reference; None without either, or where
            nothing is known to compare with.
        remedy: what would help rows that limits make impossible; empty unless `cfopt.remedies` was
            asked.
    """

    x0: Tensor = field(metadata=ROWS)
    x: Tensor = field(metadata=ROWS)
    status: tuple[Status, ...] = field(metadata=ROWS)
    message: tuple[str, ...] = field(metadata=ROWS)
    loss: Tensor = field(metadata=ROWS)
    bound: Tensor = field(metadata=ROWS)
    violation: Tensor = field(metadata=ROWS)
    tie: Tensor = field(metadata=ROWS)
    steps: Tensor = field(metadata=ROWS)
    solves: Tensor = field(metadata=ROWS)
    passes: Tensor = field(metadata=ROWS)
    method: tuple[str, ...] = field(metadata=ROWS)
    clash: tuple[Clash | None, ...] = field(metadata=ROWS)
    factual: Tensor = field(metadata=ROWS)
    wanted: Tensor = field(metadata=ROWS)
    decision: Tensor = field(metadata=ROWS)
    costs_before: Tensor = field(metadata=ROWS)
    costs: Tensor = field(metadata=ROWS)
    asked: Question = field(metadata=ROWS)
    sense: Sense
    labels: tuple[Hashable, ...] | None = field(default=None, metadata=ROWS)
    traces: tuple[Tensor, ...] = field(default=(), metadata=ROWS)
    problem: Problem | None = None
    latent: Codes | None = field(default=None, metadata=ROWS)
    columns: Columns | None = None
    options: tuple[Explanation, ...] | None = field(default=None, metadata=ROWS)
    radii: Radii | None = field(default=None, metadata=ROWS)
    prices: Explanation | None = field(default=None, metadata=ROWS)
    remedy: tuple[Remedy | None, ...] = field(default=(), metadata=ROWS)
    pipeline: Pipeline | None = None
    typical: Typical | None = field(default=None, metadata=ROWS)

    def __len__(self) -> int:
        return len(self.x0)

    def __getitem__(self, rows: int | slice | list[int] | Tensor) -> Self:
        """Some of the rows, by number, slice, list or mask; a single one is a batch of one."""
        try:
            picked = torch.arange(len(self), device=self.x.device)[rows].reshape(-1)
        except IndexError as error:
            raise IndexError(f"the explanation has {len(self)} rows, not row {rows}") from error
        return super().__getitem__(picked)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The rows of several answers to one question.

        Traces, radii and how typical contexts are, only if all of them have some.
        """
        lacking: dict[str, Any] = {}
        if not all(part.traces or not len(part) for part in parts):
            lacking["traces"] = ()
        for name in ("radii", "typical"):
            if any(getattr(part, name) is None for part in parts):
                lacking[name] = None
        return super().concat([replace(part, **lacking) for part in parts] if lacking else parts)

    @property
    def criterion(self) -> Criterion:
        """What had to hold, bound to the rows."""
        return self.asked.criterion

    @property
    def margin(self) -> float:
        """The fraction by which it had to hold."""
        return self.asked.margin

    @property
    def features(self) -> Features:
        """Names and scales of the features, and what was allowed."""
        return self.asked.features

    @cached_property
    def valid(self) -> Tensor:
        """Which rows were verified to explain, `(B,)`."""
        valid = [status.is_valid for status in self.status]
        return torch.tensor(valid, dtype=torch.bool, device=self.x.device)

    @cached_property
    def answered(self) -> Tensor:
        """Which rows have an answer: those that are valid, and those only sampled, `(B,)`."""
        answered = [status.is_answer for status in self.status]
        return torch.tensor(answered, dtype=torch.bool, device=self.x.device)

    @property
    def gap(self) -> Tensor:
        """By how much a nearer explanation could undercut the loss, `(B,)`; NaN if unknown."""
        gap = (self.loss - self.bound).clamp(min=0)
        return torch.where(self.answered, gap, torch.nan)

    @property
    def optimal(self) -> Tensor:
        """Which rows were proved to be the closest possible explanation, `(B,)`.

        Up to a fraction of 1e-6; in float32, to whose digits x is rounded, of 1e-4.
        """
        return is_optimal(self.loss, self.bound) & self.valid

    @property
    def distance(self) -> Tensor:
        """How far each x is from x0, `(B,)`: the change's norm, in units; NaN for rejected rows.

        The norm is the proximity's: `L2` the Euclidean one, `L1` the sum, `LInf` the largest
        change; with `Latent`, that of the codes' change. The units are the proximity's own scales,
        else those of the features: given, or learned from `reference`; else the features' own.
        """
        near, (before, after) = self.asked.near(self.x), self.ends
        return torch.where(self.loss.isnan(), torch.nan, near.length(near(after, before)))

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """What distances are between: x0 and x, or with `Latent` their codes, `(B, ...)` each."""
        if isinstance(self.asked.proximity, Latent):
            return self._codes().z0, self._codes().z
        return self.x0, self.x

    @property
    def radius(self) -> Tensor:
        """How far x may be off before the criterion stops holding, any margin apart, `(B,)`.

        The Euclidean distance, in units of the features' scales; `radius_kind` says how it is
        known. The nearest answers lie on a boundary, so that theirs is 0; ask for a margin or for a
        ball to get others. NaN for rows without an answer, or where nothing is known.

        Behind affine predictors whose decisions can be listed it comes with the explanation.
        Elsewhere it is measured when it is first asked for, which takes solves and, behind other
        predictors, many predictions.
        """
        return self._measured().length

    @property
    def radius_kind(self) -> tuple[str, ...]:
        """How each radius is known: "exact", "at least", "at most", or "" where it is not."""
        return self._measured().kind

    def _measured(self) -> Radii:
        if self.radii is None:
            unknown = Radii(torch.full_like(self.loss, torch.nan), ("",) * len(self))
            if self.pipeline is not None:
                from cfopt.result.radius import radii

                unknown = radii(self, self.pipeline)
            object.__setattr__(self, "radii", unknown)
        assert self.radii is not None
        return self.radii

    @property
    def z(self) -> Tensor | None:
        """The codes of the contexts that explain, `(B, n)`; None without a generative model."""
        return None if self.latent is None else self.latent.z

    def in_sphere(self, kappa: float = KAPPA) -> Tensor:
        """Which codes lie in the thickened sphere, `| |z| - C_n | <= kappa`: `(B,)`.

        The usual kappa holds 99.5% of the prior for 64 latents.
        """
        return in_thick_sphere(self._codes().z, kappa)

    @property
    def reconstruction_moved(self) -> Tensor:
        """Where the generative model alone, not the search, changes the decision, `(B,)`."""
        return self._codes().moved(self.factual)

    def _codes(self) -> Codes:
        if self.latent is None:
            raise InputError(
                "This explanation has no codes: it was searched for among contexts. Pass "
                "generative=... to explain."
            )
        return self.latent

    @property
    def alternative(self) -> Tensor:
        """The decision argued for; without one, what the pipeline decides at x, `(B, m)`."""
        return self.wanted if self.criterion.contrasts else self.decision

    def label(self, row: int) -> str:
        """What to call a row."""
        return str(self.labels[row] if self.labels is not None else row)

    def every_option(self) -> Explanation:
        """The options of all rows, one after the other, as rows of their own."""
        return self if self.options is None else Explanation.concat(list(self.options))

    @property
    def frame(self) -> pd.DataFrame:
        """The contexts that explain, with the columns and types of the caller's DataFrame."""
        return self._frame(self.x)

    @property
    def frame_before(self) -> pd.DataFrame:
        """The factual contexts, in the same form."""
        return self._frame(self.x0)

    def _frame(self, x: Tensor) -> pd.DataFrame:
        values = x.flatten(1).double().cpu().numpy()
        names = self.features.labels(math.prod(self.x.shape[1:]))
        columns = Columns(names) if self.columns is None else self.columns
        frame = columns.decode(values)
        labels = self.labels if self.labels is not None else range(len(self))
        return frame.set_axis(pd.Index(labels), axis=0)

    def table(self) -> pd.DataFrame:
        """What changed: feature, before, after, change; the largest first, in units of its scale.

        With more than one row, a first column says which. What is not a number changes by NaN.
        """
        from cfopt.result.tables import changes

        return changes(self)

    def to_dataframe(self) -> pd.DataFrame:
        """One line for each row: status, numbers, and every feature before and after.

        With several options, one line for each of them, numbered from 1.
        """
        from cfopt.result.tables import outcomes

        return outcomes(self)

    def summary(self) -> str:
        """A few lines for the terminal: what was asked, how it ended, what changed."""
        from cfopt.result.summary import summary

        return summary(self)

    def plot(self, path: str | Path | None = None) -> Figure:
        """One row as a picture: decision and costs before and after, and what changed."""
        if len(self) != 1:
            raise InputError(
                f"plot needs a single row, this explanation has {len(self)}. Pick one: e[3].plot()."
            )
        from cfopt.plots import plot_explanation

        return plot_explanation(self, path)

    def to_json(self, path: str | Path | None = None) -> str:
        """Everything but traces, problem and pipeline as JSON; written to `path` if given."""
        from cfopt.result.json import to_dict

        text = json.dumps(to_dict(self), allow_nan=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, source: str | Path, problem: Problem | None = None) -> Explanation:
        """Read what `to_json` wrote: a path, or the text itself; also a file of JSON lines."""
        from cfopt.result.json_lines import read_explanation

        return read_explanation(source, problem)
