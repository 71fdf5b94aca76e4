"""Proofs about ReLU networks for criteria that some decision meets: one for each decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.exact.certificate import Certificate, Clash
from cfopt.exact.relu.proof import ReluProof
from cfopt.exact.relu.task import ReluTask


@dataclass(frozen=True)
class ReluListProof(Certificate[ReluTask]):
    """A tree of cases for each decision of the list, which must be refuted or bounded one by one.

    Arguments:
        branches: the proof of each decision that may be enough, in the order of the problem's list.
        infeasible: whether they are said to prove that there is no explanation.
    """

    branches: tuple[ReluProof, ...]
    infeasible: bool = False

    @classmethod
    def model(cls, task: Task) -> ReluTask | None:
        """The task as a network of changes."""
        return ReluProof.model(task)

    def bound(self, model: ReluTask, row: int) -> float:
        """The least bound of any decision; 0 unless all of them are there."""
        listed = model.candidates(row)
        if listed is None or len(listed) != len(self.branches):
            return 0.0
        pairs = zip(self.branches, listed, strict=True)
        return min((proof.bound(model, row, some=one) for proof, one in pairs), default=np.inf)

    def decisions(self) -> list[Array]:
        """Those of all its cuts."""
        return [decision for proof in self.branches for decision in proof.decisions()]

    def clash(self, model: ReluTask, row: int) -> Clash:
        """The limits that are involved for any decision."""
        clashes = [proof.clash(model, row) for proof in self.branches]
        limits = dict.fromkeys(limit for clash in clashes for limit in clash.limits)
        locked = dict.fromkeys(name for clash in clashes for name in clash.locked)
        return Clash(np.empty((0, 1)), tuple(limits), tuple(locked), np.inf)
