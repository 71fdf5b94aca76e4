"""Shortest paths on any network, against brute force, networkx and HiGHS."""

from __future__ import annotations

import itertools
import pickle

import networkx as nx
import numpy as np
import pytest
import torch

import cfopt
from cfopt.errors import InputError
from cfopt.problems import MILP, GridShortestPath, ShortestPath
from cfopt.testing import ProblemContract

TOWN = [
    ("home", "bridge"),
    ("home", "park"),
    ("park", "bridge"),
    ("bridge", "mill"),
    ("park", "mill"),
    ("mill", "work"),
    ("bridge", "work"),
]


def simple_paths(problem: ShortestPath) -> torch.Tensor:
    """Every simple path by networkx: `(D, m)`."""
    graph = nx.MultiDiGraph() if problem.directed else nx.MultiGraph()
    for column, (u, v) in enumerate(problem.edges):
        graph.add_edge(u, v, key=column)
    found = list(nx.all_simple_edge_paths(graph, problem.source, problem.target))
    decisions = torch.zeros(len(found), problem.num_costs, dtype=torch.float64)
    for row, path in enumerate(found):
        decisions[row, [column for _, _, column in path]] = 1.0
    return decisions


def random_edges(nodes: int, count: int, seed: int) -> list[tuple[int, int]]:
    """A way through all nodes, so that there is a path, and random pairs; some parallel."""
    rng = np.random.default_rng(seed)
    order = [0, *(1 + rng.permutation(nodes - 2)), nodes - 1]
    pairs = rng.integers(nodes, size=(count, 2)).tolist()
    return [*((int(u), int(v)) for u, v in itertools.pairwise(order)), *map(tuple, pairs)]


def acyclic(nodes: int, count: int, seed: int) -> list[tuple[int, int]]:
    """The same, with every arc from the smaller to the larger number."""
    pairs = ((min(edge), max(edge)) for edge in random_edges(nodes, count, seed))
    return [
        *((k, k + 1) for k in range(nodes - 1)),
        *(edge for edge in pairs if len(set(edge)) == 2),
    ]


def searched(problem: ShortestPath) -> ShortestPath:
    """The same network, solved as if it had too many paths to score them all."""
    problem._finite = None
    return problem


class _NetworkContract(ProblemContract):
    def feasible_set(self, problem: cfopt.problems.Problem) -> torch.Tensor:
        assert isinstance(problem, ShortestPath)
        return simple_paths(problem)


class TestAcyclicNetwork(_NetworkContract):
    def problem(self) -> ShortestPath:
        return searched(ShortestPath(acyclic(7, 12, seed=0), 0, 6))


class TestNetworkWithCycles(_NetworkContract):
    def problem(self) -> ShortestPath:
        return searched(ShortestPath(random_edges(7, 16, seed=1), 0, 6))

    def costs(self, problem: cfopt.problems.Problem) -> torch.Tensor:
        return super().costs(problem).abs()  # with zeros, and so with cycles that cost nothing


class TestUndirectedNetwork(_NetworkContract):
    def problem(self) -> ShortestPath:
        return searched(ShortestPath(random_edges(6, 9, seed=2), 0, 5, directed=False))

    def costs(self, problem: cfopt.problems.Problem) -> torch.Tensor:
        return super().costs(problem).abs()


class TestNetworkWithFewPaths(_NetworkContract):
    """With cycles and costs of both signs."""

    def problem(self) -> ShortestPath:
        return ShortestPath(random_edges(6, 9, seed=2), 0, 5, directed=False)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["acyclic", "cycles", "undirected"])
def test_small_networks_agree_with_every_simple_path_of_networkx(kind: str, seed: int) -> None:
    edges = acyclic(6, 8, seed) if kind == "acyclic" else random_edges(6, 9, seed)
    problem = ShortestPath(edges, 0, 5, directed=kind != "undirected")
    known = simple_paths(problem)
    listed = problem.decisions()
    assert listed is not None
    assert sorted(listed.tolist()) == sorted(known.tolist())
    costs = torch.randn(
        30, problem.num_costs, generator=torch.Generator().manual_seed(seed)
    ).double()
    scored = problem.solve(costs)
    assert torch.allclose((costs * scored).sum(1), (costs @ known.T).min(1).values)
    costs = costs if kind == "acyclic" else costs.abs()
    found = searched(problem).solve(costs)
    assert torch.allclose((costs * found).sum(1), (costs @ known.T).min(1).values)


@pytest.mark.parametrize("directed", [True, False])
def test_large_networks_agree_with_networkx_and_with_the_flow_program(directed: bool) -> None:
    edges = random_edges(150, 450, seed=3)
    problem = ShortestPath(edges, 0, 149, directed=directed)
    costs = np.random.default_rng(0).uniform(0.1, 2.0, (8, problem.num_costs))
    decisions = problem.solve(costs).numpy()
    arcs = [(u, v, k) for k, (u, v) in enumerate(edges)]
    if not directed:
        arcs += [(v, u, k) for u, v, k in arcs]
    matrix = np.zeros((150, len(arcs)))
    for j, (u, v, _) in enumerate(arcs):
        matrix[u, j] += 1
        matrix[v, j] -= 1
    balance = np.eye(150)[0] - np.eye(150)[149]
    flow = MILP(matrix, balance, balance, upper=1)
    columns = [k for _, _, k in arcs]
    for row, decision in zip(costs, decisions, strict=True):
        graph = nx.DiGraph()
        for u, v, k in arcs:
            known = graph.get_edge_data(u, v, {"weight": np.inf})["weight"]
            graph.add_edge(u, v, weight=min(known, row[k]))
        assert row @ decision == pytest.approx(nx.dijkstra_path_length(graph, 0, 149))
        program = flow.solve(row[columns][None]).numpy()[0]
        assert row @ decision == pytest.approx(row[columns] @ program)


@pytest.mark.parametrize("seed", range(20))
def test_negative_costs_are_right_where_no_cycle_is_negative(seed: int) -> None:
    """Costs are made of non-negative ones and of a height at each node, so that cycles are >= 0."""
    edges = random_edges(7, 14, seed)
    problem = searched(ShortestPath(edges, 0, 6))
    rng = np.random.default_rng(seed)
    tails, heads = np.array(edges).T
    # Whole numbers tie, and cycles of tenths cost nothing but for rounding.
    plain = np.concatenate(
        [rng.uniform(0, 1, (5, len(edges))), 0.1 * rng.integers(0, 2, (5, len(edges)))]
    )
    heights = np.concatenate([rng.normal(size=(5, 7)), 0.1 * rng.integers(-9, 9, (5, 7))])
    costs = plain + heights[:, tails] - heights[:, heads]
    assert (costs < 0).any(axis=1).all()
    best = (costs @ simple_paths(problem).numpy().T).min(axis=1)
    decisions = problem.solve(costs).numpy()
    assert np.allclose((costs * decisions).sum(axis=1), best, atol=1e-12)


def test_a_row_with_a_negative_cycle_fails_alone_and_says_why() -> None:
    problem = searched(ShortestPath([*TOWN, ("mill", "park")], "home", "work"))
    costs = torch.ones(3, 8, dtype=torch.float64)
    costs[1, 4] = -2.0  # park to mill, from where a way leads back
    solved = problem.attempt(costs)
    assert list(solved.failures) == [1]
    assert "negative cycle" in solved.failures[1]
    assert "Softplus" in solved.failures[1]
    assert problem.is_feasible(solved.decisions[[0, 2]]).all()


def test_the_only_path_is_taken_whatever_a_cycle_beside_it_costs() -> None:
    """Few paths are scored: there is no negative cycle to be afraid of."""
    problem = ShortestPath([("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")], "a", "d")
    assert problem.solve([[1.0, -9.0, -9.0, 1.0]]).tolist() == [[1.0, 1.0, 0.0, 1.0]]


def test_a_negative_cycle_off_every_path_does_no_harm() -> None:
    problem = ShortestPath(
        [*TOWN, ("work", "inn"), ("inn", "work"), ("inn", "inn")], "home", "work"
    )
    costs = torch.ones(1, 10, dtype=torch.float64)
    costs[:, 7:] = -5.0
    assert problem.nodes_of(problem.solve(costs)[0].numpy()) == ["home", "bridge", "work"]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_node_arc_matrix_gives_the_same_paths_whatever_its_sign(sign: int) -> None:
    problem = ShortestPath(TOWN, "home", "work")
    matrix = np.zeros((len(problem.nodes), len(TOWN)))
    for column, (u, v) in enumerate(TOWN):
        matrix[problem.nodes.index(u), column] = sign
        matrix[problem.nodes.index(v), column] = -sign
    balance = sign * np.array([node == "home" for node in problem.nodes], dtype=float)
    balance -= sign * np.array([node == "work" for node in problem.nodes], dtype=float)
    other = ShortestPath.from_matrix(matrix, balance, nodes=problem.nodes)
    costs = np.random.default_rng(0).normal(size=(40, len(TOWN)))
    assert torch.equal(problem.solve(costs), other.solve(costs))
    if sign == 1:
        assert (other.edges, other.source, other.target) == (problem.edges, "home", "work")
    plain = ShortestPath.from_matrix(matrix, balance)
    assert set(plain.nodes) == set(range(5))


def test_a_matrix_that_is_not_of_a_path_problem_is_refused() -> None:
    good = np.array([[1.0, 0], [-1, 1], [0, -1]])
    ShortestPath.from_matrix(good, [1, 0, -1])
    with pytest.raises(InputError, match=r"one \+1 and one -1 in each column"):
        ShortestPath.from_matrix(2 * good, [1, 0, -1])
    with pytest.raises(InputError, match=r"one \+1 and one -1 in each column"):
        ShortestPath.from_matrix(np.abs(good), [1, 0, -1])
    with pytest.raises(InputError, match="balance needs 3 numbers"):
        ShortestPath.from_matrix(good, [2, 0, -2])
    with pytest.raises(InputError, match="3 different names"):
        ShortestPath.from_matrix(good, [1, 0, -1], nodes=["a", "b", "a"])


def test_graphs_of_networkx_keep_direction_parallel_edges_and_places() -> None:
    graph = nx.MultiGraph()
    for k, name in enumerate("abc"):
        graph.add_node(name, x=float(k), y=2.0 * k)
    graph.add_edges_from([("b", "a"), ("b", "c"), ("b", "c")])
    problem = ShortestPath.from_networkx(graph, "a", "c")
    assert not problem.directed
    assert problem.num_costs == graph.number_of_edges() == 3
    assert problem.coordinates[problem.nodes.index("c")].tolist() == [2.0, 4.0]
    assert problem.solve([[1.0, 3.0, 2.0]]).tolist() == [[1.0, 0.0, 1.0]]
    one_way = nx.DiGraph([("a", "b"), ("b", "c")])
    assert ShortestPath.from_networkx(one_way, "a", "c").directed
    with pytest.raises(InputError, match="no path leads from 'c' to 'a'"):
        ShortestPath.from_networkx(one_way, "c", "a")


def test_edges_have_the_names_of_their_nodes() -> None:
    problem = ShortestPath([("a", "b"), ("b", "c"), ("b", "c")], "a", "c")
    assert problem.decision_names == ("a → b", "b → c (1)", "b → c (2)")
    assert problem.named(["x", "y", "z"]).decision_names == ("x", "y", "z")
    assert ShortestPath([(1, 2)], 1, 2, directed=False).decision_names == ("1 ↔ 2",)
    assert problem.describe(np.array([1.0, 0, 1])) == "a-b-b → c (2)-c"
    long = ShortestPath([(k, k + 1) for k in range(40)], 0, 40)
    assert long.describe(np.ones(40)) == "the route by 0, 1, 2, 3 and 37 more"


@pytest.mark.parametrize(
    ("taken", "fault"),
    [
        ([0, 6], ""),
        ([1, 4, 5], ""),
        ([], "it reaches 'home' and breaks off there"),
        ([0, 3], "it reaches 'mill' and breaks off there"),
        ([0, 1, 6], "it reaches 'home' and leaves it more than once"),
        ([0, 6, 4], "it also takes 'park → mill', which is not on the way"),
        ([1, 4, 7], "it returns to 'park'"),
    ],
)
def test_what_is_not_a_path_is_explained_by_the_names_of_nodes(
    taken: list[int], fault: str
) -> None:
    problem = ShortestPath([*TOWN, ("mill", "park")], "home", "work")
    decision = torch.zeros(1, 8)
    decision[:, taken] = 1.0
    expected = f"is not a path: {fault}" if fault else ""
    assert problem.explain_faults(decision) == [expected]


def test_a_fraction_of_an_edge_is_not_a_path() -> None:
    problem = ShortestPath(TOWN, "home", "work")
    (fault,) = problem.explain_faults(torch.full((1, 7), 0.5))
    assert fault == "is not a path: 'home → bridge' is 0.5, but an edge is taken (1) or not (0)"


def test_nodes_and_decisions_are_translated_both_ways() -> None:
    for directed in (True, False):
        problem = ShortestPath(TOWN, "home", "work", directed=directed)
        for decision in simple_paths(problem).numpy():
            nodes = problem.nodes_of(decision)
            assert (nodes[0], nodes[-1]) == ("home", "work")
            assert (problem.scene().decision_of(nodes) == decision).all()
    with pytest.raises(InputError, match="no arc from home to work"):
        problem.scene().decision_of(["home", "work"])
    with pytest.raises(InputError, match="needs to end at work, got bridge"):
        problem.scene().decision_of(["home", "bridge"])


def test_networks_with_very_many_paths_are_not_listed() -> None:
    grid = nx.grid_2d_graph(12, 12)
    problem = ShortestPath.from_networkx(grid, (0, 0), (11, 11))
    assert problem.decisions() is None
    towards = GridShortestPath(12, 12)
    assert ShortestPath(towards.arcs, 0, 143).decisions() is None


def test_nodes_without_coordinates_are_drawn_from_the_source_on_the_left() -> None:
    edges = random_edges(30, 40, seed=5)
    problem = ShortestPath(edges, 0, 29)
    assert problem.coordinates is None
    places = np.array(problem.scene().positions)
    assert places.shape == (len(problem.nodes), 2)
    assert places[problem.nodes.index(0), 0] == places[:, 0].min()
    assert len(np.unique(places, axis=0)) == len(places)
    assert problem.scene() == ShortestPath(edges, 0, 29).scene()
    given = {node: (float(node), 1.0) for node in problem.nodes}
    kept = ShortestPath(edges, 0, 29, coordinates=given).coordinates
    assert [tuple(place) for place in kept] == [given[node] for node in problem.nodes]


def test_unusable_networks_are_refused_with_a_reason() -> None:
    with pytest.raises(InputError, match="source 'nowhere' is not a node"):
        ShortestPath(TOWN, "nowhere", "work")
    with pytest.raises(InputError, match="source and target need to differ"):
        ShortestPath(TOWN, "work", "work")
    with pytest.raises(InputError, match="no path leads from 'work' to 'home'"):
        ShortestPath(TOWN, "work", "home")
    with pytest.raises(InputError, match="pair of hashable nodes, got"):
        ShortestPath([("a", "b", "c")], "a", "b")  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"none for 'bridge' \(4 of 5 are missing\)"):
        ShortestPath(TOWN, "home", "work", coordinates={"home": (0, 0)})
    nowhere = dict.fromkeys(("home", "bridge", "park", "mill", "work"), (np.nan, 0))
    with pytest.raises(InputError, match="two finite numbers"):
        ShortestPath(TOWN, "home", "work", coordinates=nowhere)


@pytest.mark.parametrize("directed", [True, False])
def test_a_route_is_explained_exactly_as_with_the_list_of_all_paths(directed: bool) -> None:
    problem = ShortestPath(TOWN, "home", "work", directed=directed)
    generator = torch.Generator().manual_seed(0)
    predictor = torch.nn.Linear(4, 7).double()
    with torch.no_grad():
        predictor.weight.copy_(0.3 * torch.randn(7, 4, generator=generator))
        predictor.bias.fill_(4.0)
    x0 = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    wanted = torch.from_numpy(problem.scene().decision_of(["home", "park", "mill", "work"]))
    wanted = wanted.expand(6, -1)
    listed = cfopt.problems.Finite(simple_paths(problem))
    limits = cfopt.Features(lower=-5.0, upper=5.0)
    answers = [
        cfopt.explain(x0, cfopt.Pipeline(predictor, one), cfopt.Absolute(wanted), features=limits)
        for one in (problem, listed)
    ]
    assert answers[0].status == answers[1].status
    assert answers[0].optimal.any()
    assert torch.allclose(answers[0].distance, answers[1].distance, atol=1e-7, equal_nan=True)


def test_a_network_survives_pickling_with_its_names_and_places() -> None:
    problem = ShortestPath(TOWN, "home", "work")
    copy = pickle.loads(pickle.dumps(problem))
    assert copy.decision_names == problem.decision_names
    assert copy.scene() == problem.scene()
