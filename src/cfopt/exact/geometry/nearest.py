"""The cheapest change of a system whatever is whole or counted, with its bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry.clash import find_clash
from cfopt.exact.geometry.norm import Norm
from cfopt.exact.geometry.system import System
from cfopt.exact.geometry.tree import Leaf, Tree


@dataclass(frozen=True)
class Nearest:
    """The answer of a master problem.

    Arguments:
        u: the cheapest change, `(p,)`; None if there is none, or it was not found.
        bound: what every allowed change costs at least; inf if there is none.
        tree: multipliers that prove it.
    """

    u: Array | None
    bound: float
    tree: Tree


def relax(system: System, norm: Norm, why: bool = True) -> Nearest:
    """The cheapest change, whole and counted or not, with the bound that its multipliers prove.

    Arguments:
        why: whether someone asks why there is none, so that few rows should clash.
    """
    nothing = Leaf(np.zeros(len(system.matrix)))
    if (system.lower > system.upper).any():
        return Nearest(None, np.inf, nothing)
    found = norm.nearest(system)
    if isinstance(found, tuple):
        solution, bound = found
        return Nearest(solution.values, max(0.0, bound), Leaf(solution.multipliers))
    refuted = None if found is None else found.multipliers
    # Of one case of many, nobody asks why there is no answer; of a whole system they do.
    decided = system.support is not None and not system.support.open.all()
    brief = (decided or not why) and refuted is not None
    clash = refuted if brief else find_clash(system)
    clash = refuted if clash is None else clash
    if clash is None:
        return Nearest(None, 0.0, nothing)  # neither a solution nor a proof: nothing is claimed
    return Nearest(None, np.inf, Leaf(clash))
