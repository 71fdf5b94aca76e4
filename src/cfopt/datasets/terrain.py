"""Generated maps in the style of the Warcraft data set: terrain, its costs, the best route."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from cfopt.datasets.maps import Maps
from cfopt.errors import InputError
from cfopt.problems import TerrainShortestPath

Image = NDArray[np.float32]

#: What a cell of each terrain costs to cross, from its easiest to its hardest: in the range of the
#: real data set. Land and rock are harder the higher they are, water the deeper, forest the denser.
COSTS = {
    "water": (5.5, 7.7),
    "earth": (1.2, 2.8),
    "grass": (0.8, 2.0),
    "forest": (4.0, 6.5),
    "rock": (7.0, 9.2),
}
#: The colours of each terrain, of its shadow and of its light.
_COLOURS = {
    "water": ((38, 92, 140), (70, 140, 184)),
    "earth": ((168, 126, 82), (204, 164, 116)),
    "grass": ((92, 140, 60), (128, 176, 84)),
    "forest": ((22, 58, 36), (72, 128, 62)),
    "rock": ((84, 82, 86), (172, 168, 164)),
}
#: The kinds of land, each with the colour between its shadow and its light.
LAND = {
    name: "#{:02x}{:02x}{:02x}".format(*((a + b) // 2 for a, b in zip(*colours, strict=True)))
    for name, colours in _COLOURS.items()
}
#: Where the height is cut into water, land and rock, and the moisture into earth, grass, forest.
_SHORE, _CLIFF = -0.72, 0.82
_DRY, _WET = -0.45, 0.45
#: From which height on land gets harder.
_FOOT = -0.45
#: Over how much height or moisture beyond these water, rock and forest get harder.
_RANGE = 1.4
#: How bright the easiest and the hardest of a terrain are.
_LIGHT, _DARK = 1.12, 0.72
#: Over how much height or moisture one terrain turns into the next.
_SOFT = 0.045
#: The distance over which terrain changes, in cells, and how far apart its random values lie.
_SMOOTH, _SPACING = 2.0, 1.65
#: Rows that are rendered at once: what fits a processor's cache.
_AT_ONCE = 64


@dataclass(frozen=True)
class Terrain:
    """A generator of maps with large, coherent regions.

    Two smooth random fields, height and moisture, are cut into terrains: water where it is low,
    rock where it is high, and earth, grass or forest between, by moisture. The texture of a terrain
    depends on the position in the map alone, so that a map is described by its regions. Within a
    terrain it gets darker and costs more the harder it is to cross; a cell costs the mean of its
    pixels.

    Arguments:
        rows, cols: cells of a map.
        cell: pixels along the side of a cell.
    """

    rows: int = 12
    cols: int = 12
    cell: int = 8

    def __post_init__(self) -> None:
        if min(self.rows, self.cols, self.cell) < 1 or self.rows * self.cols < 2:
            raise InputError(
                f"Terrain needs at least two cells of at least one pixel, got {self.rows} x "
                f"{self.cols} cells of {self.cell}."
            )

    def generate(self, count: int, seed: int = 0) -> Maps:
        """Generate maps; the first ones of a seed are always the same."""
        if count < 1 or seed < 0:
            raise InputError(f"generate needs count >= 1 and seed >= 0, got {count} and {seed}.")
        height, width = self.rows * self.cell, self.cols * self.cell
        random = np.random.default_rng(seed)
        images = np.empty((count, 3, height, width), dtype=np.uint8)
        costs = np.empty((count, self.rows * self.cols), dtype=np.float32)
        for first in range(0, count, _AT_ONCE):
            part = slice(first, min(first + _AT_ONCE, count))
            fields = self._fields(random, part.stop - part.start)
            images[part], costs[part] = self._render(*fields)
        problem = TerrainShortestPath(self.rows, self.cols)
        paths = problem.solve(torch.from_numpy(costs).double()).float()
        return Maps(torch.from_numpy(images), torch.from_numpy(costs), paths, self.rows, self.cols)

    def tiles(self) -> dict[str, NDArray[np.uint8]]:
        """The first cell of a map if it were all one terrain, halfway hard: `(cell, cell, 3)`."""
        bright = (_LIGHT + _DARK) / 2
        cells = self._textures[:, :, : self.cell, : self.cell].transpose(0, 2, 3, 1)
        pixels = np.clip(bright * cells + 0.5, 0, 255).astype(np.uint8)
        return dict(zip(COSTS, pixels, strict=True))

    def _fields(self, random: np.random.Generator, count: int) -> tuple[Image, Image]:
        """Height and moisture of each pixel, of mean 0 and variance 1: `(N, H, W)` each."""
        down, across = self._smoothing
        noise = random.standard_normal((count, 2, down.shape[1], across.shape[1]), dtype=np.float32)
        fields: Image = np.matmul(np.matmul(down, noise), across.T)
        return fields[:, 0], fields[:, 1]

    def _render(self, height: Image, moisture: Image) -> tuple[NDArray[np.uint8], Image]:
        """Pixels `(N, 3, H, W)` and the costs of cells `(N, rows * cols)`."""
        water, rock = _above(-_SHORE, -height), _above(_CLIFF, height)
        land = 1 - water - rock
        earth, forest = land * _above(-_DRY, -moisture), land * _above(_WET, moisture)
        shares = np.stack([water, earth, land - earth - forest, forest, rock], axis=1)
        slope = np.clip((height - _FOOT) / (_CLIFF - _FOOT), 0, 1)
        depth, density, steepness = (
            np.clip(excess / _RANGE, 0, 1)
            for excess in (_SHORE - height, moisture - _WET, height - _CLIFF)
        )
        hardness = np.stack([depth, slope, slope, density, steepness], axis=1)
        easiest, hardest = np.array(list(COSTS.values()), dtype=np.float32).T[:, :, None, None]
        prices = (shares * (easiest + (hardest - easiest) * hardness)).sum(axis=1)
        blocks = (len(height), self.rows, self.cell, self.cols, self.cell)
        costs = prices.reshape(blocks).mean(axis=(2, 4)).reshape(len(height), -1)
        # What is harder to cross is darker.
        weights = shares * (_LIGHT - (_LIGHT - _DARK) * hardness)
        pixels = np.einsum("nkhw,kchw->nchw", weights, self._textures, optimize=False)
        return np.clip(pixels + 0.5, 0, 255).astype(np.uint8), costs

    @cached_property
    def _smoothing(self) -> tuple[Image, Image]:
        """What turns random values on a coarse grid into a smooth field of variance 1."""
        return _kernel(self.rows, self.cell), _kernel(self.cols, self.cell)

    @cached_property
    def _textures(self) -> Image:
        """How each terrain would look all over the map: `(K, 3, H, W)`, from 0 to 255."""
        y, x = np.meshgrid(
            np.arange(self.rows * self.cell) / self.cell,
            np.arange(self.cols * self.cell) / self.cell,
            indexing="ij",
        )
        lights = _lights(y, x)
        textures = []
        for name in COSTS:
            dark, bright = (np.array(c, dtype=np.float32)[:, None, None] for c in _COLOURS[name])
            textures.append(dark + (bright - dark) * lights[name].astype(np.float32))
        return np.stack(textures)


def _above(limit: float, field: Image) -> Image:
    """How clearly a field lies above a limit: 0 to 1, soft."""
    clear: Image = 0.5 * (1 + np.tanh((field - limit) / (2 * _SOFT)))
    return clear


def _kernel(cells: int, cell: int) -> Image:
    """Gaussian weights of coarse random values at each pixel along one axis, `(P, k)`."""
    at = (np.arange(cells * cell) + 0.5) / cell
    reach = 3 * _SMOOTH
    steps = int(np.ceil((cells + 2 * reach) / _SPACING)) + 1
    centres = np.linspace(-reach, cells + reach, steps)
    weights = np.exp(-0.5 * ((at[:, None] - centres) / _SMOOTH) ** 2)
    weights /= np.sqrt(np.square(weights).sum(axis=1, keepdims=True))
    return weights.astype(np.float32)


def _lights(y: NDArray[np.float64], x: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The pattern of each terrain, 0 for its shadow and 1 for its light; y and x in cells."""
    turn = 2 * np.pi
    wave = 0.5 + 0.5 * np.sin(turn * (2 * y + 0.18 * np.sin(turn * x)))
    furrow = 0.5 + 0.25 * np.sin(turn * (x + y)) + 0.25 * np.sin(turn * (x - 2 * y))
    blade = 0.5 + 0.25 * np.sin(turn * (2 * x + y)) + 0.25 * np.sin(turn * (x - 2 * y) + 1)
    # Round tops in rows that are shifted against each other, lit from above.
    tree = _bumps(2 * x, 2 * y)
    boulder = 0.65 * _bumps(x, y + 0.25) + 0.35 * _bumps(2 * x + 0.5, 2 * y)
    return {
        "water": 0.2 + 0.6 * wave,
        "earth": furrow,
        "grass": blade,
        "forest": tree,
        "rock": boulder,
    }


def _bumps(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round tops, one in each unit square, every other row shifted by half; lit from above."""
    right, down = (x + 0.5 * (np.floor(y) % 2)) % 1 - 0.5, y % 1 - 0.5
    return np.clip(1.15 - 1.9 * np.hypot(right, down) - 0.6 * down, 0, 1)
