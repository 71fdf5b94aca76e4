"""Generated terrain: the same each time, coherent, and priced as its pixels look."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cfopt.datasets import Maps, Terrain
from cfopt.datasets.terrain import COSTS
from cfopt.errors import InputError
from cfopt.problems import TerrainShortestPath


@pytest.fixture(scope="module")
def maps() -> Maps:
    return Terrain().generate(70, seed=7)


def _same(left: Maps, right: Maps) -> bool:
    return all(
        torch.equal(getattr(left, name), getattr(right, name))
        for name in ("images", "costs", "paths")
    )


def test_a_seed_gives_the_same_maps_each_time_and_another_seed_others(maps: Maps) -> None:
    assert _same(Terrain().generate(70, seed=7), maps)
    other = Terrain().generate(70, seed=8)
    assert (other.images != maps.images).flatten(1).any(1).all()


@pytest.mark.parametrize("count", [1, 10, 63, 64, 65])
def test_the_first_maps_of_a_seed_do_not_depend_on_how_many_are_made(
    count: int, maps: Maps
) -> None:
    assert _same(Terrain().generate(count, seed=7), maps[:count])


def test_a_generator_gives_the_same_maps_after_it_has_made_others(maps: Maps) -> None:
    terrain = Terrain()
    terrain.generate(3, seed=1)
    assert _same(terrain.generate(5, seed=7), maps[:5])


@pytest.mark.parametrize(
    ("rows", "cols", "cell"), [(12, 12, 8), (5, 9, 8), (9, 4, 3), (1, 6, 4), (2, 2, 1)]
)
def test_maps_have_the_shapes_that_were_asked_for(rows: int, cols: int, cell: int) -> None:
    made = Terrain(rows, cols, cell).generate(3, seed=2)
    assert made.images.shape == (3, 3, rows * cell, cols * cell)
    assert made.images.dtype == torch.uint8
    assert made.costs.shape == made.paths.shape == (3, rows * cols)
    assert made.costs.dtype == made.paths.dtype == torch.float32
    assert (made.rows, made.cols) == (rows, cols)
    assert made.connected.all()
    assert ((made.costs >= 0.8 - 1e-6) & (made.costs <= 9.2 + 1e-6)).all()


@pytest.mark.parametrize(
    ("name", "easy", "hard"),
    [
        ("water", (-1.2, 0.0), (-3.0, 0.0)),
        ("rock", (1.3, 0.0), (3.0, 0.0)),
        ("earth", (-0.4, -2.0), (0.5, -2.0)),
        ("grass", (-0.4, 0.0), (0.5, 0.0)),
        ("forest", (0.0, 0.9), (0.0, 3.0)),
    ],
)
def test_a_map_of_one_terrain_costs_what_that_terrain_costs(
    name: str, easy: tuple[float, float], hard: tuple[float, float]
) -> None:
    """Under one height and moisture all over the map; what is harder costs more, and is darker."""
    terrain, flat = Terrain(3, 4, 8), np.ones((1, 24, 32), dtype=np.float32)
    (light, low), (dark, high) = (terrain._render(h * flat, m * flat) for h, m in (easy, hard))
    assert np.ptp(low) < 1e-5
    assert np.ptp(high) < 1e-5
    assert COSTS[name][0] - 0.01 < low.min() < high.min() < COSTS[name][1] + 0.01
    assert dark.mean() < light.mean()
    for image in (light, dark):
        red, green, blue = image[0].reshape(3, -1).mean(axis=1)
        looks = {
            "water": blue > green > red,
            "rock": max(red, green, blue) < 1.05 * min(red, green, blue),
            "earth": red > green > blue,
            "grass": green > red > blue,
            "forest": green > 1.5 * max(red, blue),
        }
        assert looks[name]


def _by_eye(images: Tensor) -> Tensor:
    """The terrain of each pixel by its hue alone, numbered as in COSTS: `(N, H, W)`."""
    red, green, blue = images.double().unbind(1)
    colours = torch.stack([red, green, blue])
    grey = colours.amax(0) - colours.amin(0) < 0.04 * colours.sum(0)
    land = torch.where(red > green, 1, torch.where(red < 0.6 * green, 3, 2))
    return torch.where(blue > green, 0, torch.where(grey, 4, land))


def test_cells_cost_what_their_pixels_look_like(maps: Maps) -> None:
    middle = torch.tensor([sum(COSTS[name]) / 2 for name in COSTS], dtype=torch.float64)
    seen = middle[_by_eye(maps.images)]
    by_cell = seen.reshape(-1, 12, 8, 12, 8).mean(dim=(2, 4)).flatten(1)
    assert (by_cell - maps.costs).abs().mean() < 0.8
    pair = torch.stack([by_cell.flatten(), maps.costs.double().flatten()])
    assert torch.corrcoef(pair)[0, 1] > 0.93


def test_costs_lie_between_those_of_the_easiest_and_the_hardest_terrain(maps: Maps) -> None:
    assert min(low for low, _ in COSTS.values()) == 0.8
    assert max(high for _, high in COSTS.values()) == 9.2
    assert maps.costs.min() >= 0.8 - 1e-6
    assert maps.costs.max() <= 9.2 + 1e-6
    assert maps.costs.max() - maps.costs.min() > 7


def test_all_five_terrains_occur_and_most_maps_have_several(maps: Maps) -> None:
    shares = functional.one_hot(_by_eye(maps.images), 5).double().mean(dim=(1, 2))
    assert (shares.mean(0) > 0.05).all()
    assert ((shares > 0.03).sum(1) >= 3).double().mean() > 0.9


def test_regions_are_coherent(maps: Maps) -> None:
    def alike(costs: Tensor) -> float:
        cells = costs.reshape(-1, 12, 12)
        across = torch.stack([cells[:, :, 1:].flatten(), cells[:, :, :-1].flatten()])
        down = torch.stack([cells[:, 1:].flatten(), cells[:, :-1].flatten()])
        return min(float(torch.corrcoef(pair)[0, 1]) for pair in (across, down))

    order = torch.randperm(144, generator=torch.Generator().manual_seed(0))
    assert alike(maps.costs) > 0.6
    assert abs(alike(maps.costs[:, order])) < 0.2


def test_paths_are_connected_and_as_cheap_as_networkx_says(maps: Maps) -> None:
    assert maps.connected.all()
    for some in (maps[:3], Terrain(5, 9, 4).generate(3)):
        costs = some.costs.double()
        cheapest = _by_dijkstra(some.problem, costs)[:, 0]
        assert torch.allclose((costs * some.paths).sum(1), cheapest, atol=1e-5)


@pytest.mark.parametrize("neighbours", [4, 8])
def test_maps_with_ties_are_solved_in_any_batch_as_alone(neighbours: int) -> None:
    """Whole numbers tie often; zeros would let a careless way back go in circles."""
    problem = TerrainShortestPath(6, 5, neighbours, start=(2, 3), goal=(5, 0))
    random = np.random.default_rng(0)
    whole = torch.from_numpy(random.integers(0, 3, (1500, 30)).astype(np.float64))
    mixed = whole.clone()
    mixed[1::2] += torch.from_numpy(random.random(30))
    decisions = problem.solve(mixed)
    assert ((decisions == 0) | (decisions == 1)).all()
    rows = range(0, 1500, 51)
    assert torch.equal(decisions[rows], torch.cat([problem.solve(mixed[[k]]) for k in rows]))
    cheapest = _by_dijkstra(problem, mixed[::100])
    found = decisions[::100]
    assert torch.allclose((mixed[::100] * found).sum(1), cheapest[:, 0])
    assert torch.equal(found.sum(1) - 1, cheapest[:, 1])


def _by_dijkstra(problem: TerrainShortestPath, costs: Tensor) -> Tensor:
    """The lowest cost of each map and the fewest moves it takes, by Dijkstra on both: `(B, 2)`."""
    found = []
    for row in costs.reshape(-1, problem.rows, problem.cols).numpy():
        graph = networkx.DiGraph()
        for a in np.ndindex(row.shape):
            for b in np.ndindex(row.shape):
                step = np.abs(np.subtract(a, b))
                if step.max() == 1 and (problem.neighbours == 8 or step.sum() == 1):
                    graph.add_edge(a, b, weight=row[b] + 1e-7)
        length = networkx.dijkstra_path_length(graph, problem.start, problem.goal)
        path = networkx.dijkstra_path(graph, problem.start, problem.goal)
        moves = len(path) - 1
        found.append([length - 1e-7 * moves + row[problem.start], moves])
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("size", [(0, 5, 8), (5, 0, 8), (1, 1, 8), (5, 5, 0), (-3, -3, 8)])
def test_maps_without_cells_or_pixels_are_refused(size: tuple[int, int, int]) -> None:
    with pytest.raises(InputError, match="at least two cells"):
        Terrain(*size)


@pytest.mark.parametrize(("count", "seed"), [(0, 0), (-1, 0), (5, -1)])
def test_impossible_counts_and_seeds_are_refused(count: int, seed: int) -> None:
    with pytest.raises(InputError, match="count >= 1 and seed >= 0"):
        Terrain().generate(count, seed)
