"""The rows of an explanation while they are being settled."""

from __future__ import annotations

from dataclasses import replace

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
        nan = torch.full((count,), torch.nan, dtype=torch.float64)
        self.contexts = contexts
        self.problem = problem
        self.costs = torch.full((count, problem.num_costs), torch.nan)  # before any change
        self._status: list[Status | None] = [None] * count
        self._message = [""] * count
        self._x = contexts.x.clone()
        self._loss = nan.clone()
        self.codes: Codes | None = None
        self._violation = nan
        self._tie = torch.zeros(count, dtype=torch.bool)
        self._decision = torch.full((count, problem.num_columns), torch.nan, dtype=torch.float64)
        self._costs = torch.full((count, problem.num_costs), torch.nan, dtype=torch.float64)
        self._steps = torch.zeros(count, dtype=torch.long)
        self._solves = torch.zeros(count, dtype=torch.long)
        self._passes = torch.zeros(count, dtype=torch.long)
        self._bound = nan.clone()
        self._methods = [""] * count
        self._clashes: dict[int, Clash] = {}
        self._traces: dict[int, Tensor] = {}

    def open_rows(self) -> Tensor:
        """The rows that are not settled yet."""
        rows = [row for row, status in enumerate(self._status) if status is None]
        return torch.tensor(rows, dtype=torch.long, device=self._x.device)

    @property
    def decisions(self) -> Tensor:
        """The solver's decision in each row's context, `(B, m)` in float64; NaN where unknown."""
        return self._decision

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
        points: Points | None = None,
    ) -> None:
        """Write down where some rows are, and what verification says of them."""
        self._x[rows] = x
        host = rows.cpu()
        self._loss[host] = loss.to(self._loss)
        self._violation[host] = verdict.violation
        self._tie[host] = verdict.tie
        self._decision[host] = verdict.decision
        self._costs[host] = verdict.costs
        if points is not None:
            if self.codes is not None:
                self.codes.z[rows] = points.x
            self._steps[host] = points.steps.cpu()
            self._solves[host] = points.solves.cpu()
            self._passes[host] = points.passes.cpu()
            for row, method in zip(host.tolist(), points.methods, strict=True):
                self._methods[row] = method
            self._traces |= dict(zip(host.tolist(), points.traces, strict=False))

    def prove(self, rows: Tensor, proof: Proof) -> None:
        """Write down what was proved about some rows."""
        self._bound[rows.cpu()] = proof.bound
        self._clashes |= {int(rows[i]): clash for i, clash in proof.clashes.items()}

    def close(self, task: Task, question: Question) -> Explanation:
        """The finished explanation."""
        asked = replace(
            question,
            criterion=task.criterion,
            features=self.contexts.features,
            generative=None,
            reference=None,
        )
        x, like = self._x, self.contexts.x
        dead = torch.tensor([status is Status.REJECTED for status in self._status])
        loss = self._loss.masked_fill(dead, torch.nan).to(x)
        # Nothing is nearer than the context itself.
        settled = torch.tensor([status is Status.ALREADY_VALID for status in self._status])
        bound = self._bound.masked_fill(settled, 0.0)
        empty = torch.empty((0, 3), dtype=like.dtype)
        traces = tuple(self._traces.get(row, empty) for row in range(len(x)))
        return Explanation(
            x0=like,
            x=x,
            status=tuple(status for status in self._status if status is not None),
            message=tuple(self._message),
            loss=loss,
            violation=self._violation.to(x),
            tie=self._tie.to(x.device),
            steps=self._steps.to(x.device),
            solves=self._solves.to(x.device),
            passes=self._passes.to(x.device),
            bound=bound.to(x),
            method=tuple(self._methods),
            clash=tuple(self._clashes.get(row) for row in range(len(x))),
            factual=task.factual,
            decision=self._decision.to(x),
            costs_before=self.costs,
            costs=self._costs.to(x),
            asked=asked,
            sense=self.problem.sense,
            labels=self.contexts.labels,
            traces=traces if self._traces else (),
            problem=self.problem,
            latent=self.codes,
        )
