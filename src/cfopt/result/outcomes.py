"""The rows of an explanation while they are being settled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from cfopt.engine.latent import Codes
from cfopt.engine.progress import Points
from cfopt.engine.task import Task
from cfopt.exact.certificate import Clash
from cfopt.exact.verify import Proof, Verdict
from cfopt.pipeline.contexts import Contexts
from cfopt.problems.base import Problem
from cfopt.question import Question
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status


class RowOutcomes:
    """One line for each context: open until it is settled, then closed for good.

    A row that is rejected keeps its context, and NaN wherever nothing could be computed.
    """

    def __init__(self, contexts: Contexts, problem: Problem) -> None:
        count = len(contexts.x)
        self.contexts = contexts
        self.problem = problem
        self.costs = torch.full((count, problem.num_costs), torch.nan)  # before any change
        self.codes: Codes | None = None
        self._status: list[Status | None] = [None] * count
        self._message = [""] * count
        self._x = contexts.x.clone()
        nan = torch.full((count,), torch.nan, dtype=torch.float64)
        #: Fields of the explanation, on the CPU.
        self._found = {name: nan.clone() for name in ("loss", "violation", "bound")}
        for name in ("decision", "wanted"):
            self._found[name] = nan[:, None].repeat(1, problem.num_columns)
        self._found["costs"] = nan[:, None].repeat(1, problem.num_costs)
        self._found["tie"] = torch.zeros(count, dtype=torch.bool)
        for name in ("steps", "solves", "passes"):
            self._found[name] = torch.zeros(count, dtype=torch.long)
        self._methods = [""] * count
        self._clashes: dict[int, Clash] = {}
        self._traces: dict[int, Tensor] = {}

    def anew(self, rows: Tensor) -> RowOutcomes:
        """The same contexts with some rows open again; the others stay out."""
        other = RowOutcomes(self.contexts, self.problem)
        other.costs = self.costs
        if self.codes is not None:
            other.begin(replace(self.codes, z=self.codes.z0.clone()))
        closed = torch.ones(len(self._status), dtype=torch.bool)
        closed[rows] = False
        other.reject(closed, "not asked again")
        return other

    def open_rows(self) -> Tensor:
        """The rows that are not settled yet."""
        rows = [row for row, status in enumerate(self._status) if status is None]
        return torch.tensor(rows, dtype=torch.long, device=self._x.device)

    @property
    def decisions(self) -> Tensor:
        """The solver's decision in each row's context, `(B, m)` in float64; NaN where unknown."""
        return self._found["decision"]

    def settle(self, row: int, status: Status, message: str) -> None:
        """Close an open row."""
        if self._status[row] is None:
            self._status[row], self._message[row] = status, message

    def reject(self, rows: Tensor, reason: str) -> None:
        """Reject the rows of a mask."""
        self.reject_each(dict.fromkeys(rows.nonzero().flatten().tolist(), reason))

    def reject_each(self, reasons: dict[int, str], prefix: str = "") -> None:
        """Reject rows, each for its own reason."""
        for row, reason in reasons.items():
            self.settle(row, Status.REJECTED, prefix + reason)

    def begin(self, codes: Codes) -> None:
        """Write down the codes with which a latent search begins."""
        self.codes = codes

    def record(
        self,
        rows: Tensor,
        x: Tensor,
        loss: Tensor,
        verdict: Verdict,
        tie: Tensor,
        points: Points | None = None,
    ) -> None:
        """Write down where some rows are, what verification says of them, and which are ties."""
        self._x[rows] = x
        host = rows.cpu()
        found = {
            "loss": loss,
            "violation": verdict.violation,
            "tie": tie,
            "wanted": verdict.wanted,
            "decision": verdict.decision,
            "costs": verdict.costs,
        }
        if points is not None:
            found |= {name: getattr(points, name) for name in ("steps", "solves", "passes")}
            if self.codes is not None:
                self.codes.z[rows] = points.x
            for row, method in zip(host.tolist(), points.methods, strict=True):
                self._methods[row] = method
            self._traces |= dict(zip(host.tolist(), points.traces, strict=False))
        for name, values in found.items():
            self._found[name][host] = values.to(self._found[name])

    def prove(self, rows: Tensor, proof: Proof) -> None:
        """Write down what was proved about some rows."""
        self._found["bound"][rows.cpu()] = proof.bound
        self._clashes |= {int(rows[i]): clash for i, clash in proof.clashes.items()}

    def close(self, task: Task, question: Question) -> Explanation:
        """The finished explanation."""
        asked = question.kept(task.rules.criterion, self.contexts.features)
        x, like = self._x, self.contexts.x
        found = self._found
        dead = torch.tensor([status is Status.REJECTED for status in self._status])
        found["loss"] = found["loss"].masked_fill(dead, torch.nan)
        # Nothing is nearer than the context itself.
        settled = torch.tensor([status is Status.ALREADY_VALID for status in self._status])
        found["bound"] = found["bound"].masked_fill(settled, 0.0)
        numbers: dict[str, Any] = {
            name: values.to(x) if values.is_floating_point() else values.to(x.device)
            for name, values in found.items()
        }
        empty = torch.empty((0, 3), dtype=like.dtype)
        traces = tuple(self._traces.get(row, empty) for row in range(len(x)))
        return Explanation(
            x0=like,
            x=x,
            status=tuple(status for status in self._status if status is not None),
            message=tuple(self._message),
            **numbers,
            method=tuple(self._methods),
            clash=tuple(self._clashes.get(row) for row in range(len(x))),
            factual=task.rules.factual,
            costs_before=self.costs,
            asked=asked,
            sense=self.problem.sense,
            labels=self.contexts.labels,
            traces=traces if self._traces else (),
            problem=self.problem,
            latent=self.codes,
            columns=self.contexts.columns,
            options=None,
            remedy=(),
        )
