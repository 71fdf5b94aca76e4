"""Following the arcs that a decision takes, from a start to a goal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple


class End(StrEnum):
    """How a walk ends, to follow "it"."""

    ARRIVED = "arrives"
    BROKEN = "breaks off there"
    FORKED = "leaves it more than once"
    CIRCULAR = "returns to it"


class Walk(NamedTuple):
    """The nodes that are visited in order, the arcs between them, those not used, and the end.

    Where it does not arrive, the last node is where it ends.
    """

    nodes: list[int]
    taken: list[int]
    left: set[int]
    end: End

    @property
    def is_path(self) -> bool:
        """Whether it leads to the goal, and no arc is left over."""
        return self.end is End.ARRIVED and not self.left


def walk(
    arcs: Sequence[Sequence[int]], chosen: Iterable[int], start: int, goal: int, directed: bool
) -> Walk:
    """Follow the chosen arcs for as long as there is one way on and no node comes twice.

    Arguments:
        arcs: the two nodes of each arc.
        chosen: the numbers of the arcs that may be taken, each once.
        start, goal: nodes.
        directed: whether arcs lead from the first to the second node only.
    """
    left, onward = set(chosen), defaultdict(set)
    for arc in left:
        for node in arcs[arc][:1] if directed else arcs[arc]:
            onward[node].add(arc)
    nodes, taken = [start], list[int]()
    while nodes[-1] != goal:
        ways = onward[nodes[-1]] & left
        if len(ways) != 1:
            return Walk(nodes, taken, left, End.FORKED if ways else End.BROKEN)
        (arc,) = ways
        left.remove(arc)
        taken.append(arc)
        first, second = arcs[arc]
        nodes.append(int(second if nodes[-1] == first else first))
        if nodes[-1] in nodes[:-1]:
            return Walk(nodes, taken, left, End.CIRCULAR)
    return Walk(nodes, taken, left, End.ARRIVED)
