"""The Warcraft data set and its relatives are read as stored, and damage is named."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cfopt.datasets import warcraft
from cfopt.datasets.maps import Maps
from cfopt.errors import InputError
from cfopt.problems import TerrainShortestPath

Arrays = dict[str, np.ndarray]
PRICES = np.array([0.8, 1.2, 5.3, 7.7, 9.2], dtype=np.float16)


def _arrays(count: int = 4, rows: int = 12, cols: int = 12, seed: int = 0) -> Arrays:
    """A data set in the shapes and dtypes of the published one."""
    random = np.random.default_rng(seed)
    costs = PRICES[random.integers(0, len(PRICES), (count, rows, cols))]
    prices = torch.from_numpy(costs.astype(np.float64)).flatten(1)
    paths = TerrainShortestPath(rows, cols).solve(prices).reshape(count, rows, cols)
    return {
        "maps": random.integers(0, 256, (count, 8 * rows, 8 * cols, 3), dtype=np.uint8),
        "vertex_weights": costs,
        "shortest_paths": paths.numpy().astype(np.uint8),
    }


def _save(place: Path, arrays: Arrays, split: str = "train", suffix: str = "") -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(place / f"{split}_{name}{suffix}.npy", array)
    return place


def _tiles(count: int = 3) -> Arrays:
    """Maps with a source and a target each, not in the corners."""
    arrays = _arrays(count, 5, 6)
    costs = arrays["vertex_weights"]
    problem = TerrainShortestPath(5, 6, start=(3, 0), goal=(1, 5))
    paths = problem.solve(torch.from_numpy(costs.astype(np.float64)).flatten(1))
    return {
        "maps": arrays["maps"],
        "costs": costs,
        "sources": np.tile([3, 0], (count, 1)),
        "targets": np.tile([1, 5], (count, 1)),
        "paths": paths.reshape(count, 5, 6).numpy(),
    }


def _zip(path: Path, arrays: Arrays) -> Path:
    np.savez(path, **arrays)
    return path


def _agrees(maps: Maps, arrays: Arrays) -> None:
    count = len(arrays["maps"])
    assert len(maps) == count
    assert maps.images.dtype == torch.uint8
    assert maps.costs.dtype == maps.paths.dtype == torch.float32
    assert np.array_equal(maps.images.permute(0, 2, 3, 1), arrays["maps"])
    assert np.array_equal(maps.costs, arrays["vertex_weights"].reshape(count, -1))
    assert np.array_equal(maps.paths, arrays["shortest_paths"].reshape(count, -1))


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_the_published_layout_is_read_as_stored(split: str, tmp_path: Path) -> None:
    arrays = _arrays()
    _save(tmp_path / "12x12", arrays, split)
    maps = warcraft.load(tmp_path, split)
    _agrees(maps, arrays)
    assert (maps.rows, maps.cols, maps.sources, maps.targets) == (12, 12, None, None)
    assert maps.images.shape == (4, 3, 96, 96)
    maps.images[0] = 0  # the tensors are the caller's own: the file stays as it is
    _agrees(warcraft.load(tmp_path, split), arrays)


@pytest.mark.parametrize(("rows", "cols"), [(18, 18), (24, 24), (30, 30), (6, 9), (3, 3)])
def test_other_grids_are_read(rows: int, cols: int, tmp_path: Path) -> None:
    arrays = _arrays(3, rows, cols)
    _save(tmp_path / f"{rows}x{cols}", arrays)
    maps = warcraft.load(tmp_path, grid=(rows, cols))
    _agrees(maps, arrays)
    assert (maps.problem.rows, maps.problem.cols) == (rows, cols)


def test_images_of_three_rows_keep_their_channels(tmp_path: Path) -> None:
    arrays = _arrays(3, 3, 3)
    arrays["maps"] = arrays["maps"][:, :3, :3]
    _agrees(warcraft.load(_save(tmp_path, arrays), grid=(3, 3)), arrays)


def test_stored_paths_cost_what_the_best_path_costs(tmp_path: Path) -> None:
    maps = warcraft.load(_save(tmp_path / "12x12", _arrays(5)))
    best = maps.problem.solve(maps.costs.double())
    assert torch.equal((maps.costs * best).sum(1), (maps.costs * maps.paths).sum(1))
    assert maps.connected.all()


@pytest.mark.parametrize(
    "inside",
    ["", "12x12", "warcraft_maps/12x12", "warcraft_shortest_path_oneskin/12x12", "maps", "a/maps"],
)
def test_the_folder_is_found_up_to_two_levels_below(inside: str, tmp_path: Path) -> None:
    arrays = _arrays()
    _save(tmp_path / inside, arrays)
    _agrees(warcraft.load(tmp_path), arrays)
    _agrees(warcraft.load(str(tmp_path)), arrays)


def test_the_grid_asked_for_is_preferred_to_other_folders(tmp_path: Path) -> None:
    arrays = _arrays()
    _save(tmp_path / "warcraft_maps" / "12x12", arrays)
    _save(tmp_path / "warcraft_maps" / "18x18", _arrays(3, 18, 18))
    _save(tmp_path / "backup", _arrays(seed=1))
    _agrees(warcraft.load(tmp_path), arrays)


def test_several_folders_that_would_do_are_refused(tmp_path: Path) -> None:
    _save(tmp_path / "one" / "12x12", _arrays())
    _save(tmp_path / "two" / "12x12", _arrays())
    with pytest.raises(InputError, match=r"has 2: .*one.12x12, .*two.12x12. Pass the one"):
        warcraft.load(tmp_path)


def test_training_maps_in_parts_are_joined_in_order(tmp_path: Path) -> None:
    arrays = _arrays(12, 4, 4)
    for k in range(12):  # part10 comes after part9, not after part1
        part = {name: array[k : k + 1] for name, array in arrays.items()}
        _save(tmp_path / "4x4", part, suffix=f"_part{k}")
    _agrees(warcraft.load(tmp_path, grid=(4, 4)), arrays)
    (tmp_path / "4x4" / "train_maps_part3.npy").unlink()
    with pytest.raises(InputError, match=r"train_maps_part3.npy is missing.*doi.org"):
        warcraft.load(tmp_path, grid=(4, 4))
    np.save(tmp_path / "4x4" / "train_maps_part3.npy", arrays["maps"][:1, :8])
    with pytest.raises(InputError, match=r"train_maps_part0.npy to _part11.npy needs parts of one"):
        warcraft.load(tmp_path, grid=(4, 4))


def test_a_missing_folder_says_where_the_data_are_published(tmp_path: Path) -> None:
    doi = re.escape("https://doi.org/10.17617/3.YJCQ5S")
    with pytest.raises(InputError, match=f"need a folder, got .*nowhere.*{doi}.*12x12"):
        warcraft.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=f"no maps of 12x12 cells. .*{doi}.*vertex_weights"):
        warcraft.load(tmp_path)
    _save(tmp_path / "a" / "b" / "c" / "12x12", _arrays())
    with pytest.raises(InputError, match=r"no maps of 12x12 cells"):
        warcraft.load(tmp_path)


def test_a_missing_file_is_named_with_where_it_is_published(tmp_path: Path) -> None:
    place = _save(tmp_path / "12x12", _arrays())
    with pytest.raises(InputError, match=r"val_\w+.npy is missing.*doi.org/10.17617/3.YJCQ5S"):
        warcraft.load(tmp_path, "val")
    (place / "train_shortest_paths.npy").unlink()
    with pytest.raises(InputError, match=r"train_shortest_paths.npy is missing"):
        warcraft.load(tmp_path)


def test_another_grid_on_disk_is_pointed_out(tmp_path: Path) -> None:
    place = _save(tmp_path / "18x18", _arrays(3, 18, 18))
    with pytest.raises(InputError, match=r"no maps of 12x12 cells. It has maps of 18x18"):
        warcraft.load(tmp_path)
    with pytest.raises(InputError, match=r"vertex_weights.npy needs .*Pass grid=\(18, 18\)"):
        warcraft.load(place)
    with pytest.raises(InputError, match=r"grid needs to be \(rows, columns\), got 12"):
        warcraft.load(place, grid=12)


@pytest.mark.parametrize(
    ("split", "meant"), [("validation", "val"), ("training", "train"), ("tset", "test")]
)
def test_an_unknown_split_gets_a_suggestion(split: str, meant: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"got '{split}'. Did you mean '{meant}'"):
        warcraft.load(tmp_path, split)


def _at(index: Any, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[index] = value
        return array

    return change


def _broken(array: np.ndarray) -> np.ndarray:
    """The two ends of a path and nothing between."""
    array[1] = 0
    array[1, 0, 0] = array[1, -1, -1] = 1
    return array


def _strayed(array: np.ndarray) -> np.ndarray:
    """A whole path, and a cell that lies apart."""
    array[1] = np.eye(12)
    array[1, 0, 11] = 1
    return array


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("maps", lambda a: a[:3], r"train_maps.npy needs 4 maps as .*weights.npy, got 3"),
        ("shortest_paths", lambda a: a[:2], r"shortest_paths.npy needs 4 maps as .*, got 2"),
        ("maps", lambda a: a[:0], r"train_maps.npy needs the shape .*got \(0, 96, 96, 3\)"),
        ("maps", lambda a: a[..., 0], r"needs the shape \(any, any, any, 3\).*got \(4, 96, 96\)"),
        ("maps", lambda a: a / 255, "train_maps.npy needs uint8 images, got float64"),
        ("maps", lambda a: a.astype(np.uint16), "needs uint8 images, got uint16"),
        ("maps", lambda a: a[:, :90], "train_maps.npy needs images of 12 k x 12 k .*got 90 x 96"),
        ("maps", lambda a: a[:, :48], "needs images of 12 k x 12 k pixels .*got 48 x 96"),
        ("vertex_weights", lambda a: a.astype(str), "vertex_weights.npy needs numbers, got <U"),
        ("vertex_weights", lambda a: a[:, 0], r"needs the shape .*got \(4, 12\)"),
        ("vertex_weights", lambda a: a[0, 0, 0], r"needs the shape .*got \(\)"),
        ("vertex_weights", _at((2, 3, 4), np.nan), r"finite.*got nan in map 2, cell \(3, 4\)"),
        ("vertex_weights", _at((2, 3, 4), np.inf), r"finite and positive costs, got inf in map 2"),
        ("vertex_weights", _at((1, 0, 0), 0), r"positive costs, got 0.0 in map 1, cell \(0, 0\)"),
        ("vertex_weights", _at((1, 0, 0), -1), "positive costs, got -1.0"),
        ("shortest_paths", lambda a: a[:, :, :6], r"needs the shape \(any, 12, 12\)"),
        ("shortest_paths", lambda a: a[0, 0, 0], r"needs the shape \(any, 12, 12\).*got \(\)"),
        ("shortest_paths", lambda a: a * 1j, "needs numbers 0 and 1, got complex"),
        ("shortest_paths", _at((3, 5, 6), 2), r"0 or 1 .*got 2 in map 3, cell \(5, 6\)"),
        ("shortest_paths", _at((3, 0, 0), 0), r"paths, in map 3 from \(0, 0\) to \(11, 11\)"),
        ("shortest_paths", _at((2, 11, 11), 0), "connected paths, in map 2 from"),
        ("shortest_paths", _broken, "connected paths, in map 1 from"),
        ("shortest_paths", _strayed, "connected paths, in map 1 from"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(
    name: str, change: Callable[[np.ndarray], np.ndarray], message: str, tmp_path: Path
) -> None:
    arrays = _arrays()
    arrays[name] = change(arrays[name])
    _save(tmp_path, arrays)
    with pytest.raises(InputError, match=message) as caught:
        warcraft.load(tmp_path)
    assert f"train_{name}.npy" in str(caught.value)


@pytest.mark.parametrize("keep", [0, 4, 60, 128, 500])
def test_a_file_that_is_cut_short_is_named(keep: int, tmp_path: Path) -> None:
    file = _save(tmp_path, _arrays()) / "train_vertex_weights.npy"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"train_vertex_weights.npy (is cut short|needs plain)"):
        warcraft.load(tmp_path)


def test_any_damage_of_a_header_is_an_input_error(tmp_path: Path) -> None:
    """Whatever is overwritten: it loads as before, or it is refused."""
    random = np.random.default_rng(0)
    file = _save(tmp_path, _arrays(2, 3, 3)) / "train_shortest_paths.npy"
    archive = _zip(tmp_path / "tiles.npz", _tiles(1))
    whole, zipped = file.read_bytes(), archive.read_bytes()
    refused = 0
    for _ in range(150):
        header, ends = bytearray(whole), bytearray(zipped)
        header[random.integers(0, 100)] = random.integers(0, 256)
        ends[random.choice([random.integers(0, 300), -random.integers(1, 300)])] ^= 0xFF
        file.write_bytes(header)
        archive.write_bytes(ends)
        for read in (
            lambda: warcraft.load(tmp_path, grid=(3, 3)),
            lambda: warcraft.load_npz(archive),
        ):
            try:
                read()
            except InputError:
                refused += 1
    assert refused > 100


class _Trap:
    """A pickle that leaves a trace if anything loads it."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


def test_pickles_are_refused_and_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trap = np.array([_Trap(trace)], dtype=object)
    place = _save(tmp_path / "12x12", _arrays())
    np.save(place / "train_maps.npy", trap, allow_pickle=True)
    with pytest.raises(InputError, match=r"train_maps.npy needs plain numbers.*never loaded"):
        warcraft.load(tmp_path)
    (place / "train_maps.npy").write_bytes(pickle.dumps(trap))
    with pytest.raises(InputError, match=r"train_maps.npy needs plain numbers.*can run code"):
        warcraft.load(tmp_path)
    for name in ("maps", "sources", "paths"):
        file = _zip(tmp_path / "tiles.npz", {**_tiles(), name: trap})
        with pytest.raises(InputError, match=r"tiles.npz needs plain numbers.*never loaded"):
            warcraft.load_npz(file)
    assert not trace.exists()
    pickle.loads(pickle.dumps(trap))
    assert trace.exists()  # the trap does work


def test_one_kind_of_file_is_not_taken_for_the_other(tmp_path: Path) -> None:
    place = _save(tmp_path, _arrays())
    with pytest.raises(InputError, match=r"needs to be an .npz file, got a single array"):
        warcraft.load_npz(place / "train_maps.npy")
    _zip(tmp_path / "tiles.npz", _tiles()).replace(place / "train_maps.npy")
    with pytest.raises(InputError, match=r"train_maps.npy needs to be an .npy file"):
        warcraft.load(place)
    with pytest.raises(InputError, match=r"there is none at .*nowhere.npz"):
        warcraft.load_npz(tmp_path / "nowhere.npz")


def _as_masks(arrays: Arrays) -> Arrays:
    for name in ("sources", "targets"):
        mask = np.zeros(arrays["paths"].shape, dtype=np.float32)
        mask[np.arange(len(mask)), *arrays[name].T] = 1
        arrays[name] = mask
    return arrays


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a,
        _as_masks,
        lambda a: {**a, "maps": np.moveaxis(a["maps"], 3, 1)},
        lambda a: {**a, "maps": (a["maps"] / 255).astype(np.float32)},
        lambda a: {**a, "maps": a["maps"] / 255},
        lambda a: {**a, "sources": a["sources"].astype(np.float32)},
        lambda a: {**a, "exp_nodes": a["paths"], "paths": a["paths"].astype(bool)},
    ],
)
def test_tiles_are_read_as_stored_in_every_layout(
    change: Callable[[Arrays], Arrays], tmp_path: Path
) -> None:
    arrays = _tiles()
    maps = warcraft.load_npz(_zip(tmp_path / "tiles.npz", change(_tiles())))
    _agrees(
        maps,
        {
            "maps": arrays["maps"],
            "vertex_weights": arrays["costs"],
            "shortest_paths": arrays["paths"],
        },
    )
    assert maps.sources is not None
    assert maps.targets is not None
    assert maps.sources.dtype == maps.targets.dtype == torch.long
    assert maps.sources.tolist() == [[3, 0]] * 3
    assert maps.targets.tolist() == [[1, 5]] * 3
    assert (maps.problem.start, maps.problem.goal) == ((3, 0), (1, 5))
    assert torch.equal(maps.problem.solve(maps.costs.double()).float(), maps.paths)


def _several(count: int = 2) -> Arrays:
    """Two targets a map and three sources a target, as the navigation data sets store them."""
    arrays = _tiles(count)
    random = np.random.default_rng(1)
    targets, sources = np.zeros((count, 2, 2)), np.zeros((count, 2, 3, 2))
    paths = np.zeros((count, 2, 3, 5, 6))
    for k, t, s in np.ndindex(count, 2, 3):
        if s == 0:
            targets[k, t] = random.integers(0, 3, 2)
        sources[k, t, s] = random.integers(3, 5, 2)
        start, goal = (tuple(cell.astype(int)) for cell in (sources[k, t, s], targets[k, t]))
        costs = torch.from_numpy(arrays["costs"][k : k + 1].astype(np.float64)).flatten(1)
        problem = TerrainShortestPath(5, 6, start=start, goal=goal)
        paths[k, t, s] = problem.solve(costs).reshape(5, 6)
    return {**arrays, "targets": targets, "sources": sources, "paths": paths}


def test_several_pairs_a_map_give_a_row_each(tmp_path: Path) -> None:
    arrays = _several()
    file = _zip(tmp_path / "tiles.npz", arrays)
    maps = warcraft.load_npz(file)
    assert len(maps) == 12
    one = warcraft.load_npz(file, pair=(1, 2))
    assert len(one) == 2
    for k, t, s in np.ndindex(2, 2, 3):
        row = maps[6 * k + 3 * t + s]
        assert row.sources is not None
        assert row.targets is not None
        assert np.array_equal(row.images[0].permute(1, 2, 0), arrays["maps"][k])
        assert np.array_equal(row.costs[0], arrays["costs"][k].ravel())
        assert np.array_equal(row.paths[0], arrays["paths"][k, t, s].ravel())
        assert np.array_equal(row.sources[0], arrays["sources"][k, t, s])
        assert np.array_equal(row.targets[0], arrays["targets"][k, t])
        if (t, s) == (1, 2):
            for name in ("images", "costs", "paths", "sources", "targets"):
                assert torch.equal(getattr(one, name)[k : k + 1], getattr(row, name))
    with pytest.raises(InputError, match=r"pair needs to lie in \(2, 3\).*got \(2, 0\)"):
        warcraft.load_npz(file, pair=(2, 0))
    with pytest.raises(InputError, match=r"Leave out pair"):
        warcraft.load_npz(_zip(tmp_path / "flat.npz", _tiles()), pair=(0, 0))
    with pytest.raises(InputError, match=r"sources of .*needs the shape \(2, 2, 3, 2\)"):
        warcraft.load_npz(_zip(file, {**arrays, "sources": arrays["targets"]}))
    with pytest.raises(InputError, match=r"paths of .* needs 18 maps as costs of .*, got 12"):
        warcraft.load_npz(
            _zip(file, {**arrays, "costs": _tiles(3)["costs"], "maps": _tiles(3)["maps"]})
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"maps": np.zeros((3, 3, 40, 3), np.uint8)}, "maps of .*tiles.npz needs .*Exactly one"),
        ({"maps": np.zeros((3, 40, 48, 4), np.uint8)}, r"maps of .*got \(3, 40, 48, 4\)"),
        ({"maps": np.full((3, 40, 48, 3), 200.0)}, r"in \[0, 1\], got floats from 200 to 200"),
        ({"maps": np.full((3, 40, 48, 3), np.nan)}, r"in \[0, 1\], got floats from nan"),
        ({"maps": np.zeros((3, 40, 48, 3), np.int64)}, r"floats in \[0, 1\], got int64"),
        ({"maps": np.zeros((2, 40, 48, 3), np.uint8)}, "needs 3 maps as costs of .*, got 2"),
        ({"sources": np.zeros((3, 5, 6))}, "sources of .*needs one cell a map, got 0 cells in map"),
        ({"sources": np.full((3, 2), 5)}, r"cells \(row, column\) of 5 x 6, got \[5 5\] in map 0"),
        ({"targets": np.full((3, 2), 0.5)}, r"targets of .*got \[0.5 0.5\] in map 0"),
        ({"targets": np.zeros((3, 2), int)}, r"connected paths, in map 0 from \(3, 0\) to \(0, 0"),
        ({"targets": np.zeros((2, 2), int)}, r"targets of .*needs the shape \(3, 2\)"),
        ({"costs": np.zeros((3, 5, 6))}, "costs of .*finite and positive costs, got 0.0"),
        ({"costs": np.zeros((3, 0, 6))}, "costs of .*no side of length 0"),
        ({"paths": np.zeros((3, 2))}, r"paths of .*needs the shape \(any, 5, 6\)"),
    ],
)
def test_tiles_that_make_no_sense_are_refused(
    changes: Arrays, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        warcraft.load_npz(_zip(tmp_path / "tiles.npz", {**_tiles(), **changes}))


def test_other_names_are_listed_with_the_needed_ones(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", *_tiles().values())
    need = "other.npz needs the arrays maps, costs, sources, targets, paths, got arr_0, arr_1"
    with pytest.raises(InputError, match=need):
        warcraft.load_npz(tmp_path / "other.npz")


def _maps(**changes: Any) -> Maps:
    arrays = _arrays(4, 3, 4)
    given: dict[str, Any] = {
        "images": torch.from_numpy(arrays["maps"]).permute(0, 3, 1, 2),
        "costs": torch.from_numpy(arrays["vertex_weights"].astype(np.float32)).flatten(1),
        "paths": torch.from_numpy(arrays["shortest_paths"]).float().flatten(1),
        "rows": 3,
        "cols": 4,
    }
    return Maps(**{**given, **changes})


@pytest.mark.parametrize(
    "rows", [slice(1, 3), torch.tensor([2, 0, 2]), torch.tensor([True, False, True, True]), 1, -1]
)
def test_some_of_the_maps_keep_their_rows(rows: Any) -> None:
    ends = torch.arange(8).reshape(4, 2)
    for maps in (_maps(), _maps(sources=ends, targets=ends + 1)):
        some, kept = maps[rows], torch.arange(4)[rows].reshape(-1)
        assert len(some) == len(kept)
        for name in ("images", "costs", "paths", "sources", "targets"):
            whole = getattr(maps, name)
            assert getattr(some, name) is None if whole is None else True
            assert whole is None or torch.equal(getattr(some, name), whole[kept])
        contexts = maps.contexts(rows)
        assert contexts.dtype == torch.float32
        assert torch.equal((contexts * 255).round().to(torch.uint8), maps.images[kept])
        assert 0 <= contexts.min() <= contexts.max() <= 1


def test_a_loop_over_maps_ends() -> None:
    maps = _maps()
    assert [len(one) for one in maps] == [1, 1, 1, 1]
    with pytest.raises(IndexError, match="There are 4 maps, got the index 4"):
        maps[4]
    assert maps.contexts().shape == (4, 3, 24, 32)


def test_maps_of_different_pairs_pose_no_single_problem() -> None:
    sources = torch.tensor([[0, 0], [0, 1], [0, 0], [1, 0]])
    targets = torch.tensor([[2, 3]] * 4)
    maps = _maps(sources=sources, targets=targets)
    with pytest.raises(InputError, match=r"needs sources that all maps share, got 3 .*Select"):
        _ = maps.problem
    same = ((maps.sources == sources[0]) & (maps.targets == targets[0])).all(dim=1)
    assert maps[same].problem.goal == (2, 3)
    assert _maps().problem.start == (0, 0)


def test_maps_of_wrong_shapes_are_refused() -> None:
    with pytest.raises(InputError, match=r"images as uint8 of shape \(N, 3, H, W\), got torch.fl"):
        _maps(images=torch.zeros(4, 3, 24, 32))
    with pytest.raises(InputError, match=r"needs costs of shape \(4, 12\), got \(4, 3, 4\)"):
        _maps(costs=torch.ones(4, 3, 4))
    with pytest.raises(InputError, match=r"needs paths of shape \(4, 12\), got \(3, 12\)"):
        _maps(paths=torch.ones(3, 12))
    with pytest.raises(InputError, match=r"both sources and targets"):
        _maps(sources=torch.zeros(4, 2, dtype=torch.long))
