"""Files that are written or replaced while a fleet explains what is in them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from tests.commands import cf, change, refused
from tests.fleet.test_parts import bytes_of
from tests.pipelines import normal

import cfopt
from cfopt.errors import ChangedError
from cfopt.fleet import explain_dataset, finish
from cfopt.fleet import part as parts
from cfopt.fleet.dataset import _Carried
from cfopt.fleet.processes import Processes
from cfopt.fleet.worker import Patience
from cfopt.storage.watched import Watched


def replaced(path: Path) -> None:
    """Another file of the same size, as `mv` puts it there."""
    other = path.with_name(f"new {path.name}")
    other.write_bytes(path.read_bytes()[::-1])
    other.replace(path)


@pytest.mark.parametrize("name", ["contexts.csv", "known.csv", "weights.safetensors"])
def test_a_file_that_is_replaced_ends_the_run_before_its_part_is_kept(
    name: str, example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(example, "# [run]\n# batch = 64", "[run]\npart = 2")
    shutil.copy(example.parent / "contexts.csv", example.parent / "known.csv")
    with example.open("a") as file:
        file.write('\n[reference]\nfile = "known.csv"\n')
    explain, seen = parts.explain_part, []

    def explain_part(*given: Any) -> Any:
        seen.append(given[1])
        if len(seen) == 3:
            replaced(example.parent / name)
        return explain(*given)

    monkeypatch.setattr(parts, "explain_part", explain_part)
    before = (example.parent / name).read_bytes()
    done = cf("explain", example, "--workers", "1")
    refused(done, f"{name} has changed since this run began: it needs", "Put it back")
    out = example.parent / "results"
    assert len(bytes_of(out)) == 2
    assert not (out / "explanations" / "_SUCCESS").exists()
    assert cf("explain", example, "--workers", "1").exit_code != 0
    (example.parent / name).write_bytes(before)
    assert cf("explain", example, "--workers", "1").exit_code == 0
    assert (out / "explanations" / "_SUCCESS").exists()


def test_what_has_the_same_times_and_sizes_is_read_again_before_success(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = example.parent / "contexts.csv", finish._write

    def written(*given: Any) -> None:
        write(*given)
        times = path.stat()
        with path.open("r+b") as file:
            file.write(path.read_bytes()[::-1])
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    monkeypatch.setattr(finish, "_write", written)
    refused(cf("explain", example, "--workers", "1"), "needs the digest", "has changed")
    assert not (example.parent / "results" / "explanations" / "_SUCCESS").exists()


def test_files_are_recognised_by_what_they_hold_where_inodes_are_made_up(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for name in ("set/a.csv", "set/b.csv", "c.csv"):
        (tmp_path / name).write_text(name)
    memory = fsspec.filesystem("memory")
    memory.pipe("/watched/d.csv", b"d")
    files: dict[str, Path | str] = {"set": tmp_path / "set", "file": tmp_path / "c.csv"}
    watched = Watched(files | {"there": "memory://watched/d.csv"})
    assert len({*watched.digests.values()}) == 3
    for path in (tmp_path / "c.csv", tmp_path / "set" / "a.csv"):
        shutil.copy2(path, tmp_path / "copy")
        (tmp_path / "copy").replace(path)
    watched.check()
    watched.verify()
    changes: list[tuple[str, Callable[[], Any]]] = [
        ("c.csv", lambda: (tmp_path / "c.csv").unlink()),
        ("set", lambda: (tmp_path / "set" / "z.csv").write_text("")),
        ("memory://watched/d.csv", lambda: memory.pipe("/watched/d.csv", b"dd")),
    ]
    for name, changed in changes:
        now = Watched({name: tmp_path / name if "://" not in name else name})
        assert now.digests
        changed()
        with pytest.raises(ChangedError, match=rf"{name} has changed"):
            now.check()


class Replacing:
    """Replaces a file when the first rows are counted."""

    def __init__(self, path: Path) -> None:
        self.path, self.counts = path, 0

    def started(self, part: int) -> None:
        pass

    def moved(self, rows: float) -> None:
        pass

    def counted(self, part: int, rows: int) -> None:
        self.counts += 1
        if self.counts == 1:
            replaced(self.path)

    def failed(self, part: int, reason: str) -> None:
        raise AssertionError(reason)


@pytest.mark.long
def test_workers_do_not_keep_what_they_read_of_another_file(
    grid: cfopt.Pipeline, tmp_path: Path
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, normal(48, 4).numpy())
    wish = cfopt.Absolute(grid.decide(normal(1, 4, seed=5))[0])
    found = explain_dataset(path, grid, wish, tmp_path / "out", batch=4, part=8)
    found._kept.make()
    engine = Processes(_Carried(found.work), 2, Patience(None))
    with pytest.raises(ChangedError, match=r"x.npy has changed since this run began"):
        engine.explain(found._kept, {part: {} for part in range(6)}, Replacing(path))
    assert len(bytes_of(tmp_path / "out")) <= 2
