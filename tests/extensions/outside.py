"""Problems from outside the package: solved, checked and drawn from this file alone."""

from __future__ import annotations

import itertools
import math

import numpy as np

from cfopt.problems import Finite, Problem
from cfopt.problems.network_scene import Network

#: Towns and where they lie, far apart and not on a lattice.
TOWNS = {"Aix": (0, 0), "Bern": (120, -40), "Chur": (150, 70), "Dijon": (60, 90), "Eze": (260, 10)}
#: Roads: two from Aix to Bern beside each other, and one each way between Bern and Chur.
ROADS = {
    "pass": ("Aix", "Bern"),
    "tunnel": ("Aix", "Bern"),
    "down": ("Bern", "Chur"),
    "up": ("Chur", "Bern"),
    "plain": ("Aix", "Dijon"),
    "river": ("Dijon", "Chur"),
    "ridge": ("Bern", "Eze"),
    "coast": ("Chur", "Eze"),
}


class Towns(Finite):
    """The cheapest way from Aix to Eze, among all that visit no town twice."""

    def __init__(self) -> None:
        super().__init__(_simple_paths())

    def scene(self) -> Network:
        """Towns where they are, with the names of their roads."""
        number = {town: k for k, town in enumerate(TOWNS)}
        return Network(
            entries=self.entries(list(ROADS)),
            places=tuple(TOWNS),
            positions=tuple(TOWNS.values()),
            arcs=tuple((number[a], number[b]) for a, b in ROADS.values()),
            start=number["Aix"],
            goal=number["Eze"],
        )


def _simple_paths() -> list[list[float]]:
    """By trying all sets of roads that could be one, in all orders of towns."""
    found = []
    between = list(TOWNS)[1:-1]
    for count in range(len(between) + 1):
        for stops in itertools.permutations(between, count):
            walk = ["Aix", *stops, "Eze"]
            choices = [
                [k for k, ends in enumerate(ROADS.values()) if ends == move]
                for move in itertools.pairwise(walk)
            ]
            found += [
                [float(k in roads) for k in range(len(ROADS))]
                for roads in itertools.product(*choices)
            ]
    return found


class Assignment(Problem):
    """Who does what: each person one job, at least cost."""

    def __init__(self, people: int) -> None:
        self.people = people
        self.num_costs = people**2

    @property
    def binary(self) -> bool:
        """A job is given to someone or not."""
        return True

    def list_decisions(self, limit: int) -> np.ndarray | None:
        """All permutations."""
        if math.factorial(self.people) > limit:
            return None
        orders = itertools.permutations(range(self.people))
        return np.array([np.eye(self.people)[list(order)].reshape(-1) for order in orders])

    def optimise(self, prices: np.ndarray) -> np.ndarray:
        """The best permutation, the first of those that are equal."""
        listed = self.list_decisions(10_000)
        assert listed is not None
        return listed[(prices @ listed.T).round(9).argmin(axis=1)]

    def faults(self, decisions: np.ndarray) -> list[str]:
        """Each person has one job, and each job one person."""
        tables = decisions.reshape(-1, self.people, self.people)
        whole = (np.abs(tables * (1 - tables)) < 1e-6).all(axis=(1, 2))
        once = (np.abs(tables.sum(axis=1) - 1) < 1e-6).all(axis=1)
        each = (np.abs(tables.sum(axis=2) - 1) < 1e-6).all(axis=1)
        return ["" if ok else "is not an assignment" for ok in whole & once & each]

    def scene(self) -> Network:
        """People on the left, jobs on the right; no route, but a plan."""
        pairs = list(itertools.product(range(self.people), repeat=2))
        return Network(
            entries=self.entries([f"P{i + 1} does J{j + 1}" for i, j in pairs]),
            noun="plan",
            nouns="plans",
            places=tuple(f"{side}{k + 1}" for side in "PJ" for k in range(self.people)),
            positions=tuple((x, k) for x in (0, 2 * self.people / 3) for k in range(self.people)),
            directed=False,
            arcs=tuple((i, self.people + j) for i, j in pairs),
        )
