"""The Warcraft maps of Vlastelica et al. (2020), and other maps made of tiles, from disk."""

from __future__ import annotations

import os
import re
import tokenize
import zipfile
import zlib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt.datasets.maps import Maps
from cfopt.errors import InputError
from cfopt.names import counted

_SPLITS = ("train", "val", "test")
_ARRAYS = ("maps", "costs", "sources", "targets", "paths")
_SOURCE = (
    "The data set is published at https://doi.org/10.17617/3.YJCQ5S: unpack warcraft_maps.tar.gz "
    "and pass the folder that holds 12x12, 18x18, ..., each with the files "
    "{train,val,test}_{maps,vertex_weights,shortest_paths}.npy."
)
#: What NumPy raises on files that are cut short or overwritten.
_DAMAGES = (
    *(ValueError, TypeError, EOFError, OSError, KeyError, OverflowError, SyntaxError),
    *(NotImplementedError, RuntimeError, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


class _Stored(NamedTuple):
    """An array, and where it comes from."""

    name: str
    array: NDArray[Any]

    def refuse(self, need: str, got: object, remedy: str = "") -> NoReturn:
        raise InputError(f"{self.name} needs {need}, got {got}. {remedy}".rstrip())

    def check(self, kinds: str, numbers: str, shape: tuple[int | None, ...]) -> None:
        """Refuse other kinds of numbers and other shapes; None stands for any length."""
        got = self.array.shape
        if self.array.dtype.kind not in kinds:
            self.refuse(numbers, self.array.dtype)
        same = len(got) == len(shape) and all(
            b in (None, a) for a, b in zip(got, shape, strict=True)
        )
        if not same or 0 in got:
            sides = ", ".join("any" if side is None else str(side) for side in shape)
            self.refuse(f"the shape ({sides}) with no side of length 0", got)


def load(
    folder: str | os.PathLike[str], split: str = "train", grid: tuple[int, int] = (12, 12)
) -> Maps:
    """The Warcraft shortest-path data set: paths lead from the top left to the bottom right.

    Arguments:
        folder: where the data set was unpacked; it, or a folder up to two levels below it, holds
            `train_maps.npy` and the others, whole or in parts (`train_maps_part0.npy`, ...).
        split: "train", "val" or "test".
        grid: rows and columns of cells, as published (12, 12), (18, 18), (24, 24) or (30, 30).
    """
    if split not in _SPLITS:
        near = get_close_matches(str(split), _SPLITS, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(f'split needs to be "train", "val" or "test", got {split!r}.{hint}')
    if np.shape(grid) != (2,):
        raise InputError(f"grid needs to be (rows, columns), got {grid!r}.")
    rows, cols = grid
    place = _find(Path(folder).expanduser(), f"{rows}x{cols}")
    costs = _read(place, f"{split}_vertex_weights")
    paths = _read(place, f"{split}_shortest_paths")
    images = _read(place, f"{split}_maps")
    if costs.array.ndim == 3 and costs.array.shape[1:] != (rows, cols):
        found = costs.array.shape[1:]
        costs.refuse(f"cells as in grid={(rows, cols)}", found, f"Pass grid={found}.")
    images.check("u", "uint8 images", (None, None, None, 3))
    if images.array.dtype != np.uint8:
        images.refuse("uint8 images", images.array.dtype)
    return _assemble(_channels_first(images), costs, paths)


def load_npz(path: str | os.PathLike[str], pair: tuple[int, int] | None = None) -> Maps:
    """Maps with a source and a target each, as the tile-based navigation data sets store them.

    The arrays are maps `(N, H, W, 3)` or `(N, 3, H, W)`, uint8 or floats in [0, 1], which are
    rounded to uint8; costs `(N, rows, cols)`; sources and targets `(N, 2)` as (row, column), or
    masks `(N, rows, cols)`; paths `(N, rows, cols)`. As published, each map has T targets with S
    sources each: targets `(N, T, 2)`, sources `(N, T, S, 2)`, paths `(N, T, S, rows, cols)`.

    Arguments:
        path: the `.npz` file.
        pair: the target, and the one of its sources, to take of each map where there are several;
            all by default, which repeats each map T S times.
    """
    stored = _unzip(Path(path).expanduser())
    maps, costs, sources, targets, paths = (stored[name] for name in _ARRAYS)
    if maps.array.ndim != 4 or (maps.array.shape[1] == 3) == (maps.array.shape[3] == 3):
        maps.refuse(
            "the shape (N, H, W, 3) or (N, 3, H, W)",
            maps.array.shape,
            "Exactly one of the axes 1 and 3 can hold the channels: transpose or crop the images.",
        )
    if maps.array.shape[3] == 3:
        maps = _channels_first(maps)
    costs.check("fiu", "numbers", (None, None, None))
    times = 1
    if paths.array.ndim == 5:
        count, t, s = paths.array.shape[:3]
        targets.check("fiu", "whole numbers", (count, t, 2))
        sources.check("fiu", "whole numbers", (count, t, s, 2))
        shared = np.broadcast_to(targets.array[:, :, None], sources.array.shape)
        if pair is not None and not (0 <= pair[0] < t and 0 <= pair[1] < s):
            raise InputError(f"pair needs to lie in ({t}, {s}) as in {paths.name}, got {pair}.")
        chosen = (slice(None), *pair) if pair is not None else slice(None)
        times = t * s if pair is None else 1
        sources = sources._replace(array=sources.array[chosen].reshape(-1, 2))
        targets = targets._replace(array=shared[chosen].reshape(-1, 2))
        paths = paths._replace(array=paths.array[chosen].reshape(-1, *paths.array.shape[3:]))
    elif pair is not None:
        paths.refuse("several pairs a map to choose one", paths.array.shape, "Leave out pair.")
    return _assemble(maps, costs, paths, (sources, targets), times)


def _find(folder: Path, grid: str) -> Path:
    """The folder with the maps of a grid: the one given, or the only one in two levels below."""
    if not folder.is_dir():
        raise InputError(f"The Warcraft data need a folder, got {folder}. {_SOURCE}")
    levels = [
        {p.parent for split in _SPLITS for p in folder.glob(f"{level}{split}_maps*.npy")}
        for level in ("", "*/", "*/*/")
    ]
    for near in (levels[0], levels[1] & {folder / grid}):
        if near:
            return near.pop()
    found = levels[1] | levels[2]
    unnamed = {p for p in found if not re.fullmatch(r"\d+x\d+", p.name)}
    places = sorted({p for p in found if p.name == grid} or unnamed)
    if len(places) == 1:
        return places[0]
    if places:
        names = ", ".join(str(p) for p in places)
        raise InputError(
            f"The Warcraft data need one folder with maps of {grid} cells, but {folder} has "
            f"{len(places)}: {names}. Pass the one you mean."
        )
    others = ", ".join(sorted({p.name for p in found}))
    hint = f" It has maps of {others}: pass such a grid." if others else ""
    raise InputError(f"{folder} has no maps of {grid} cells.{hint} {_SOURCE}")


def _read(place: Path, name: str) -> _Stored:
    """An array by its name without ".npy": one file, or numbered parts one after the other."""
    whole = place / f"{name}.npy"
    if whole.is_file():
        return _Stored(str(whole), _open(whole))
    count = len(list(place.glob(f"{name}_part*.npy")))
    files = [place / f"{name}_part{k}.npy" for k in range(count)] or [whole]
    for file in files:
        if not file.is_file():
            raise InputError(f"{file} is missing. {_SOURCE}")
    parts = [_open(file) for file in files]
    kinds = {(part.shape[1:], part.dtype) for part in parts}
    stored = _Stored(f"{place / name}_part0.npy to _part{count - 1}.npy", parts[0])
    if len(kinds) > 1 or parts[0].ndim == 0:
        stored.refuse("parts of one shape and dtype", [(p.shape, str(p.dtype)) for p in parts])
    return stored._replace(array=np.concatenate(parts))


def _open(file: Path) -> NDArray[Any]:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except _DAMAGES as error:
        _unreadable(file, error)
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError(f"{file} needs to be an .npy file, got an .npz archive. {_SOURCE}")
    return array


def _unzip(file: Path) -> dict[str, _Stored]:
    if not file.is_file():
        raise InputError(f"load_npz needs an .npz file, but there is none at {file}.")
    try:
        with file.open("rb") as opened:  # NumPy would leave a damaged archive open
            archive = np.load(opened, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InputError(f"{file} needs to be an .npz file, got a single array.")
            if set(_ARRAYS) - set(archive.files):
                raise InputError(
                    f"{file} needs the arrays {', '.join(_ARRAYS)}, got "
                    f"{', '.join(archive.files) or 'none'}. Save it again with these names."
                )
            # what is not an array comes as bytes, and is refused with the wrong kinds of numbers
            return {n: _Stored(f"{n} of {file}", np.asarray(archive[n])) for n in _ARRAYS}
    except InputError:
        raise
    except _DAMAGES as error:
        _unreadable(file, error)


def _unreadable(file: Path, error: BaseException) -> NoReturn:
    if "object" in str(error).lower():
        raise InputError(
            f"{file} needs plain numbers in NumPy's format, got something else or pickled objects, "
            "which are never loaded: they can run code. Save it again as an array of numbers."
        ) from error
    raise InputError(
        f"{file} is cut short or damaged ({type(error).__name__}: {error}). Download it again."
    ) from error


def _assemble(
    images: _Stored,
    costs: _Stored,
    paths: _Stored,
    ends: tuple[_Stored, _Stored] | None = None,
    times: int = 1,
) -> Maps:
    """Check shapes, then values; each map is repeated to match its paths."""
    costs.check("fiu", "numbers", (None, None, None))
    count, rows, cols = costs.array.shape
    paths.check("biuf", "numbers 0 and 1", (None, rows, cols))
    for stored, need in ((images, count), (paths, count * times)):
        if len(stored.array) != need:
            stored.refuse(f"{counted(need, 'map')} as {costs.name}", len(stored.array))
    pixels = _images(images, rows, cols)
    prices = costs.array.astype(np.float32)
    _only(costs, np.isfinite(prices) & (prices > 0), "finite and positive costs")
    masks, cells = _mask(paths), torch.from_numpy(prices).flatten(1)
    if times > 1:
        pixels, cells = (x.repeat_interleave(times, dim=0) for x in (pixels, cells))
    start, goal = (_cells(end, len(masks), rows, cols) for end in ends) if ends else (None, None)
    maps = Maps(pixels, cells, masks.flatten(1).float(), rows, cols, start, goal)
    if not maps.connected.all():
        k = int(maps.connected.int().argmin())
        a = (0, 0) if start is None else tuple(start[k].tolist())
        b = (rows - 1, cols - 1) if goal is None else tuple(goal[k].tolist())
        paths.refuse(f"connected paths, in map {k} from {a} to {b}", "one that is not")
    return maps


def _channels_first(stored: _Stored) -> _Stored:
    return stored._replace(array=np.moveaxis(stored.array, 3, 1))


def _images(stored: _Stored, rows: int, cols: int) -> Tensor:
    array = stored.array
    height, width = array.shape[2:]
    if height % rows or width % cols or height // rows != width // cols or not height:
        stored.refuse(
            f"images of {rows} k x {cols} k pixels for {rows} x {cols} cells",
            f"{height} x {width}",
        )
    if array.dtype.kind == "f":
        if not (array.min() >= 0 and array.max() <= 1):
            span = f"floats from {array.min():g} to {array.max():g}"
            stored.refuse("uint8 or floats in [0, 1]", span, "Scale the images.")
        array = np.rint(array * 255).astype(np.uint8)
    elif array.dtype != np.uint8:
        stored.refuse("uint8 or floats in [0, 1]", array.dtype)
    return torch.from_numpy(np.array(array, order="C"))  # a copy: the file is read-only


def _mask(stored: _Stored) -> Tensor:
    array = np.asarray(stored.array)
    _only(stored, (array == 0) | (array == 1), "0 or 1 in each cell")
    return torch.from_numpy(array == 1)


def _only(stored: _Stored, good: NDArray[np.bool_], need: str) -> None:
    if not good.all():
        k, *cell = (int(i) for i in np.argwhere(~good)[0])
        where = f"map {k}, cell {tuple(cell)}" if cell else f"map {k}"
        stored.refuse(need, f"{stored.array[(k, *cell)]} in {where}")


def _cells(stored: _Stored, count: int, rows: int, cols: int) -> Tensor:
    """Cells as (row, column), from such pairs or from masks, `(N, 2)`."""
    if stored.array.ndim == 3:
        stored.check("biuf", "masks of 0 and 1", (count, rows, cols))
        masks = _mask(stored)
        for k, number in enumerate(masks.sum(dim=(1, 2)).tolist()):
            if number != 1:
                stored.refuse("one cell a map", f"{counted(number, 'cell')} in map {k}")
        return masks.nonzero()[:, 1:]
    stored.check("iuf", "whole numbers", (count, 2))
    array = np.asarray(stored.array)
    inside = (array >= 0) & (array < [rows, cols]) & (array == np.floor(array))
    _only(stored, inside.all(axis=1), f"cells (row, column) of {rows} x {cols}")
    return torch.from_numpy(array.astype(np.int64))
