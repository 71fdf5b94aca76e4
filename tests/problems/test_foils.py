"""Wishes against brute force over all decisions, on every kind of problem."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import cfopt
from cfopt import AtLeast, AtMost, Avoids, Condition, Uses
from cfopt.errors import InputError
from cfopt.problems import (
    MILP,
    Finite,
    GridShortestPath,
    Knapsack,
    Oracle,
    Problem,
    ShortestPath,
    TerrainShortestPath,
    network,
)
from cfopt.problems.foil import Foil
from cfopt.problems.foil_text import foil_of

WEIGHTS, CAPACITIES = np.array([[3, 5, 4, 7, 2, 6], [4, 1, 6, 3, 5, 2.0]]), np.array([11, 9.0])
RING = [(a, b) for a, b in itertools.permutations("abcdef", 2) if abs(ord(a) - ord(b)) != 3]
SQUARE = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a", "c"), ("d", "e"), ("b", "e")]


def walks(terrain: TerrainShortestPath) -> np.ndarray:
    """The visits of every route that visits no cell twice, by walking."""
    tails, heads = terrain.moves()
    start, goal = terrain.number(terrain.start), terrain.number(terrain.goal)
    found, ends = set(), [[start]]
    while ends:
        route = ends.pop()
        if route[-1] == goal:
            found.add(tuple(sorted(route)))
            continue
        onward = heads[tails == route[-1]].tolist()
        ends += [[*route, cell] for cell in onward if cell not in route]
    visits = np.zeros((len(found), terrain.num_costs))
    for row, cells in enumerate(sorted(found)):
        visits[row, list(cells)] = 1.0
    return visits


def wishes(problem: Problem, count: int, seed: int = 0) -> list[Foil]:
    """Random wishes of all kinds, some of two parts."""
    rng = np.random.default_rng(seed)
    names = problem.cached_scene.names

    def some(k: int) -> list[str]:
        return [names[j] for j in rng.choice(len(names), k, replace=False)]

    def one() -> Foil:
        kinds = [
            lambda: Uses(*some(1)),
            lambda: Avoids(*some(2)),
            lambda: AtLeast(2, some(4)),
            lambda: AtMost(1, some(3)),
            lambda: Condition(dict(zip(some(3), [1.0, 2.0, -1.0], strict=True)), lower=1),
        ]
        return kinds[rng.integers(len(kinds))]()

    return [one() & one() if k % 2 else one() for k in range(count)]


def check(problem: Problem, listed: np.ndarray, foil: Foil, low: float) -> bool:
    """Compare with the list; whether the foil has decisions at all."""
    wanted = listed[foil.conditions(problem).met(listed)]
    if not len(wanted):
        with pytest.raises(InputError, match=r"there is no .*Ask for less"):
            problem.restricted(foil)
        return False
    restricted = problem.restricted(foil)
    prices = np.random.default_rng(3).uniform(low, 1.0, (3, listed.shape[1]))
    decisions = restricted.optimise(prices)
    sign = problem.sense.sign
    best = (sign * prices @ wanted.T).min(axis=1)
    assert np.allclose((sign * prices * decisions).sum(axis=1), best)
    assert not any(restricted.faults(decisions))
    known = restricted.decisions()
    if known is not None:
        assert set(map(tuple, known.tolist())) == set(map(tuple, wanted.tolist()))
    return True


def problems() -> dict[str, tuple[Problem, np.ndarray, float]]:
    grid, packing = GridShortestPath(4, 5), Knapsack(WEIGHTS, CAPACITIES)
    model = MILP(WEIGHTS, -np.inf, CAPACITIES, upper=1, integer=True, sense="max")
    ring = ShortestPath(RING, "a", "f")
    square = ShortestPath(SQUARE, "a", "e", directed=False)
    asked = Oracle(packing.optimise, 6, "max", batched=True, binary=True)
    listed = packing.decisions().numpy()
    maps = [TerrainShortestPath(3, 4, neighbours) for neighbours in (4, 8)]
    return {
        "grid": (grid, grid.decisions().numpy(), -1.0),
        "knapsack": (packing, listed, -1.0),
        "model": (model, listed, -1.0),
        "finite": (Finite(listed, "max"), listed, -1.0),
        "ring": (ring, ring.decisions().numpy(), 0.0),
        "square": (square, square.decisions().numpy(), 0.0),
        "oracle": (asked, listed, -1.0),
        "map of 4": (maps[0], walks(maps[0]), 0.0),
        "map of 8": (maps[1], walks(maps[1]), -0.1),
    }


@pytest.mark.parametrize("name", problems())
def test_a_restricted_problem_decides_the_best_of_what_a_wish_admits(name: str) -> None:
    problem, listed, low = problems()[name]
    given = wishes(problem, 12)
    if name == "oracle":  # which knows single entries only
        given = [Uses(0), Avoids(1, 2), Uses(3) & Avoids(0), Uses(0, 1, 2, 3, 4, 5)]
    granted = [check(problem, listed, foil, low) for foil in given]
    assert sum(granted) >= 3


@pytest.mark.parametrize("name", ["grid", "ring", "square"])
def test_a_program_of_flows_agrees_with_the_list(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, listed, low = problems()[name]
    monkeypatch.setattr(network, "_LISTED_PATHS", 0)
    problem._finite = None
    for foil in wishes(problem, 8, seed=1):
        check(problem, listed, foil, low)


def test_places_of_a_network_count_as_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = GridShortestPath(4, 5)
    listed = grid.decisions().numpy()
    through = np.array(["H" in grid.nodes_of(path) for path in listed])
    for large in (False, True):
        if large:
            grid._finite = None
        for foil, kept in ((Uses("H"), through), (Avoids("H"), ~through)):
            known = grid.restricted(foil).decisions()
            assert set(map(tuple, known.tolist())) == set(map(tuple, listed[kept].tolist()))
    assert check(grid, listed, Uses("H", "N") & Avoids("H-I"), -1.0)


def test_a_walk_that_crosses_itself_is_not_a_plan() -> None:
    # A corridor to a dead end: whoever goes in must come back the same way.
    terrain = TerrainShortestPath(1, 3, neighbours=4, start=(0, 1), goal=(0, 2))
    assert terrain.is_feasible(torch.tensor([[1.0, 2.0, 1.0]]))
    with pytest.raises(InputError, match="there is no route through A1"):
        terrain.restricted(Uses("A1"))


def test_an_empty_wish_names_what_is_to_blame() -> None:
    grid = GridShortestPath(3, 3)
    with pytest.raises(InputError, match=r"there is no route through C and G\. Ask"):
        grid.restricted(Uses("C") & Avoids("E") & Uses("G"))


def test_a_problem_that_cannot_be_restricted_says_so() -> None:
    asked = Oracle(Knapsack(WEIGHTS, CAPACITIES).optimise, 6, "max", batched=True)
    with pytest.raises(InputError, match="State the problem as a MILP"):
        asked.restricted(Condition({0: 1.0, 1: 1.0}, upper=1))
    with pytest.raises(InputError, match="Use Condition"):
        asked.restricted(Uses(0))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Uses(), "needs entries"),
        (lambda: Uses(1.5), "by its name or number"),
        (lambda: AtLeast(-1, ["a"]), "whole number >= 0"),
        (lambda: Condition({"a": 1.0}), "and a limit"),
        (lambda: Condition({"a": np.inf}, lower=1), "finite coefficients"),
        (lambda: foil_of({}), "uses, avoids, at_least"),
        (lambda: foil_of({"uses": "a"}), "list of names"),
        (lambda: foil_of({"at_least": {"count": 1}}), "needs count and of"),
        (lambda: GridShortestPath(3, 3).restricted(Uses("A-Bx")), "Did you mean 'A-B'"),
        (lambda: GridShortestPath(3, 3).restricted(Uses(99)), "0 to 11"),
    ],
)
def test_mistakes_are_explained(make: object, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make()


def test_a_wish_survives_its_plain_values() -> None:
    problem = Knapsack(WEIGHTS, CAPACITIES)
    for foil in wishes(problem, 12):
        named = foil.on(problem)
        again = foil_of(named.to_dict())
        assert again.to_dict() == named.to_dict()
        listed = problem.decisions().numpy()
        met = [wish.conditions(problem).met(listed).tolist() for wish in (foil, again)]
        assert met[0] == met[1]
        assert again.phrase == named.phrase


def test_wishes_are_said_in_the_words_of_the_problem() -> None:
    both = Uses(0) & Avoids("item 3")
    assert both.on(Knapsack(WEIGHTS, CAPACITIES)).phrase == "with item 0 and without item 3"
    assert cfopt.Uses("C3").on(TerrainShortestPath(4, 4)).phrase == "through C3"


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [
        (3, 5, "with A + 2 B - 1 C from 3 to 5"),
        (-math.inf, 5, "with A + 2 B - 1 C at most 5"),
        (3, math.inf, "with A + 2 B - 1 C at least 3"),
        (4, 4, "with A + 2 B - 1 C = 4"),
    ],
)
def test_a_condition_is_said_with_both_of_its_ends(lower: float, upper: float, said: str) -> None:
    condition = Condition({"A": 1.0, "B": 2.0, "C": -1.0}, lower=lower, upper=upper)
    assert condition.said(routes=False) == said
