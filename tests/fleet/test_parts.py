"""Parts: what they are made of, how they are kept and read, and what all of them say."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from rich.console import Console
from tests.commands import cf, change, refused
from tests.pipelines import another, normal, random_linear
from tests.result.test_round_trip import differences

import cfopt
from cfopt.drawing.elements import signed
from cfopt.errors import InputError
from cfopt.fleet import Answers, explain_dataset, finish, run
from cfopt.fleet import part as parts
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.work import Work
from cfopt.problems import MILP, GridShortestPath
from cfopt.report.tally import Tally
from cfopt.report.whole import whole
from cfopt.result.json_lines import from_lines, to_lines
from cfopt.running.lock import locked
from cfopt.storage import rows as reading
from cfopt.storage.rows import open_rows

ROWS = 40


def bytes_of(folder: Path) -> dict[str, str]:
    found = sorted((folder / "explanations").glob("part-*.parquet"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def assert_same(left: cfopt.Explanation, right: cfopt.Explanation) -> None:
    """To the last bit, in everything that is kept."""
    assert left.status == right.status
    assert left.message == right.message
    assert left.method == right.method
    for name in ("x0", "x", "loss", "bound", "violation", "tie", "steps", "solves", "passes"):
        assert torch.equal(getattr(left, name).nan_to_num(), getattr(right, name).nan_to_num())
        assert getattr(left, name).dtype == getattr(right, name).dtype
    for name in ("factual", "wanted", "decision", "costs_before", "costs"):
        assert torch.equal(getattr(left, name).nan_to_num(), getattr(right, name).nan_to_num())
    for own, other in zip(left.clash, right.clash, strict=True):
        assert (own is None) is (other is None)
        assert own is None or own.limits == other.limits  # type: ignore[union-attr]


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(normal(ROWS, 4).numpy(), columns=["a", "b", "c", "d"])


@pytest.fixture
def wish(grid: cfopt.Pipeline) -> cfopt.Absolute:
    return cfopt.Absolute(grid.decide(normal(1, 4, seed=5))[0])


def answers(frame: Any, grid: cfopt.Pipeline, wish: Any, folder: Path, **more: Any) -> Answers:
    return explain_dataset(frame, grid, wish, folder, **({"batch": 4, "part": 8} | more))


def test_only_a_reference_gives_units_and_the_run_writes_them_down(
    frame: pd.DataFrame, grid: cfopt.Pipeline, wish: cfopt.Absolute, tmp_path: Path
) -> None:
    known = 5 * frame + 1
    found = answers(frame, grid, wish, tmp_path / "known", reference=known).run(2)
    together = cfopt.explain(frame, grid, wish, reference=known)
    usual = list(together.features.usual or ())
    assert usual
    for k, part in enumerate(found):
        assert list(part.features.usual or ()) == usual
        assert torch.allclose(part.distance, together.distance[8 * k : 8 * k + 8], rtol=1e-6)
    settings = json.loads((tmp_path / "known" / "settings.json").read_text())
    assert settings["features"]["usual"] == usual
    alone = answers(frame, grid, wish, tmp_path / "alone").run(1)
    assert all(part.features.scales is None for part in alone)


class _Counted(Work):
    def __init__(self, rows: int, **sizes: int) -> None:
        problem = GridShortestPath(2, 2)
        super().__init__(cfopt.Pipeline(random_linear(1, 4), problem), {}, **sizes)
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    @property
    def batch(self) -> int:
        return self._batch or 128

    def read(self, rows: range) -> Any:
        raise AssertionError("nothing is read to count")


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 5000, 123_457, 10_000_000])
def test_parts_have_every_row_once_and_do_not_grow_in_number_without_end(rows: int) -> None:
    found = _Counted(rows).parts
    assert found[0].start == 0
    assert found[-1].stop == rows
    assert all(a.stop == b.start for a, b in pairwise(found))
    assert len(found) <= 20_020
    assert {len(part) for part in _Counted(rows, part=50).parts} <= {16, 32, 50, *range(51)}


def test_the_last_parts_are_small_so_that_no_worker_waits_long_for_another() -> None:
    sizes = [len(part) for part in _Counted(123_457).parts]
    assert sizes[:6] == [16, 32, 64, 128, 256, 512]
    assert sizes.count(512) > 235
    # No part is more than half of what is left, down to 256 rows.
    left = [sum(sizes[k:]) for k in range(len(sizes))]
    assert all(size <= max(rest // 2, 256) for size, rest in zip(sizes, left, strict=True))


def test_fewer_rows_share_a_time_limit(
    frame: pd.DataFrame, grid: cfopt.Pipeline, wish: cfopt.Absolute, tmp_path: Path
) -> None:
    usual: dict[str, Any] = {"batch": None, "part": None}
    nobody: Any = None
    plain = answers(frame, grid, wish, tmp_path / "a", **usual).work
    limited = answers(frame, grid, wish, tmp_path / "b", **usual, time_limit=60.0).work
    assert (plain.batch, limited.batch) == (2048, 256)
    for work, workers, supervised in (
        (plain, None, False),
        (limited, None, True),
        (limited, 1, False),
    ):
        orders = run.Orders(workers=workers)
        one: Any = run._Run(
            RunFolder(tmp_path / "one", work), nobody, Console(quiet=True), orders, {}
        )
        assert isinstance(one._engine(), run.Processes) is supervised
    assert (plain.usual_part, limited.usual_part) == (2048, 1024)
    assert answers(frame, grid, wish, tmp_path / "c", batch=5, part=None).work.usual_part == 20


def test_a_data_set_is_explained_lazily_and_as_explain_does(
    frame: pd.DataFrame, grid: cfopt.Pipeline, wish: cfopt.Absolute, tmp_path: Path
) -> None:
    found = answers(frame, grid, wish, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    first = next(iter(found))
    assert found.done == 8
    batches = [cfopt.explain(frame[k : k + 4], grid, wish) for k in (0, 4)]
    assert_same(first, cfopt.Explanation.concat(batches))
    whole = list(found)
    assert found.done == ROWS
    one = cfopt.Explanation.concat(whole)
    assert one.status == cfopt.explain(frame, grid, wish).status
    assert torch.allclose(one.x, cfopt.explain(frame, grid, wish).x, atol=1e-9)
    table = found.dataset().to_table().to_pandas()
    assert table["row"].tolist() == list(range(ROWS))
    assert table["a before"].tolist() == frame["a"].tolist()
    assert "40 contexts" in found.summary()
    assert_same(cfopt.Explanation.concat(list(answers(frame, grid, wish, tmp_path / "out"))), one)
    with pytest.raises(InputError, match="another configuration: criterion"):
        next(iter(answers(frame, grid, cfopt.Epsilon(0.2), tmp_path / "out")))
    with pytest.raises(InputError, match="another configuration: table"):
        next(iter(answers(frame + 1, grid, wish, tmp_path / "out")))
    other = cfopt.Pipeline(random_linear(4, 12, seed=4, bias=5.0), grid.problem)
    with pytest.raises(InputError, match="predictor was"):
        next(iter(answers(frame, other, wish, tmp_path / "out")))


def test_tables_of_every_kind_give_the_same_bytes(
    frame: pd.DataFrame,
    grid: cfopt.Pipeline,
    wish: cfopt.Absolute,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=7)
    np.save(tmp_path / "t.npy", frame.to_numpy())
    split = frame.assign(year=np.repeat([2019, 2020, 2021, 2022], 10))
    split.to_parquet(tmp_path / "set", partition_cols=["year"])
    memory = fsspec.filesystem("memory")
    with memory.open("/fleet/t.parquet", "wb") as file:
        frame.to_parquet(file)
    names = cfopt.Features(list("abcd"))
    sources = [frame, tmp_path / "t.csv", tmp_path / "t.parquet", str(tmp_path / "t.npy")]
    sources += [tmp_path / "set", "memory://fleet/t.parquet", f"file://{tmp_path}/set"]
    found = []
    for k, source in enumerate(sources):
        folder = tmp_path / f"out{k}"
        list(answers(source, grid, wish, folder, features=names))
        found.append(bytes_of(folder))
    assert len(found[0]) == 5
    assert all(one == found[0] for one in found)
    rows = open_rows(tmp_path / "set")
    read = rows.read([39, 3, 12, 4])
    assert isinstance(read, pd.DataFrame)
    assert read["year"].astype(int).tolist() == [2022, 2019, 2020, 2019]
    assert read["a"].tolist() == frame["a"][[39, 3, 12, 4]].tolist()
    monkeypatch.setattr(reading, "_WHOLE", 3)  # as if row groups were large
    monkeypatch.setattr(reading, "_PIECE", 4)
    large = open_rows(tmp_path / "set")
    for numbers in (range(2, 25), range(1, 9), range(30, 40), [39, 3, 12, 4]):
        pd.testing.assert_frame_equal(large.read(numbers), rows.read(numbers))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot be read"):
        explain_dataset("memory://nothing/there", grid, wish, tmp_path / "none")


def test_everything_that_can_be_asked_is_kept_to_the_last_bit(
    grid: cfopt.Pipeline, tmp_path: Path
) -> None:
    x = normal(3, 4)
    plans = another(grid, x)
    limits = cfopt.Features(list("abcd"), lower=-1.0, upper=1.0, immutable=["a", "b"])
    asked: list[tuple[Any, dict[str, Any]]] = [
        (cfopt.Absolute(plans), {"options": 3}),
        (cfopt.Absolute(plans), {"prices": cfopt.Prices(), "proximity": cfopt.L1()}),
        (cfopt.Relative(plans), {"robust": cfopt.Ball(0.05)}),
        (cfopt.Absolute(plans), {"features": limits}),
        (cfopt.Epsilon(0.1), {}),
        (cfopt.Absolute(cfopt.Uses(0)), {}),
    ]
    inside = x.clamp(-0.9, 0.9)
    for k, (criterion, more) in enumerate(asked):
        given = explain_dataset(inside.numpy(), grid, criterion, tmp_path / str(k), **more)
        (read,) = list(given)
        fresh = cfopt.remedies(cfopt.explain(inside, grid, criterion, **more), grid)
        assert_same(read, fresh)
        assert differences(given.work.explain(range(3)), read) == []
        assert differences(read, from_lines(to_lines(read), grid.problem)) == []
        alone = [one.to_json() for one in fresh.split([1] * len(fresh))]
        assert alone == [fresh[row].to_json() for row in range(len(fresh))]


def test_a_part_is_the_same_whatever_was_explained_before(tmp_path: Path) -> None:
    """Also where a solver begins from its last basis."""
    generator = np.random.default_rng(0)
    rows = generator.uniform(0.1, 1, (6, 8))
    problem = MILP(rows, rows.sum(1) / 3, np.full(6, np.inf), upper=np.ones(8))
    pipeline = cfopt.Pipeline(random_linear(3, 8, bias=4.0), problem)
    x = normal(12, 3).numpy()
    wish = cfopt.Absolute(pipeline.decide(normal(1, 3, seed=8)))  # one row, for all
    together = explain_dataset(x, pipeline, wish, tmp_path / "a", batch=4, part=4)
    list(together)
    alone = explain_dataset(x, pipeline, wish, tmp_path / "b", batch=4, part=4)
    kept = alone._kept
    kept.make()
    for k in (2, 0, 1):
        parts.keep_part(kept, k)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


def test_shards_together_are_the_whole_run(
    frame: pd.DataFrame, grid: cfopt.Pipeline, wish: cfopt.Absolute, tmp_path: Path
) -> None:
    whole = answers(frame, grid, wish, tmp_path / "whole").run(workers=1)
    assert (tmp_path / "whole" / "explanations" / "_SUCCESS").exists()
    assert (tmp_path / "whole" / "report.html").stat().st_size > 1000
    sharded = answers(frame, grid, wish, tmp_path / "sharded")
    for first in (2, 3, 1):
        assert not (tmp_path / "sharded" / "explanations" / "_SUCCESS").exists()
        sharded.run(workers=1, shard=(first, 3))
    assert (tmp_path / "sharded" / "explanations" / "_SUCCESS").exists()
    assert bytes_of(tmp_path / "whole") == bytes_of(tmp_path / "sharded")
    lines = [
        (folder / "explanations.jsonl").read_bytes() for folder in (whole.folder, sharded.folder)
    ]
    assert lines[0] == lines[1]
    with pytest.raises(InputError, match="i from 1 to n, got 4/3"):
        sharded.run(shard=(4, 3))


def test_two_runs_on_one_folder_are_refused_and_a_killed_one_leaves_no_lock(
    frame: pd.DataFrame, grid: cfopt.Pipeline, wish: cfopt.Absolute, tmp_path: Path
) -> None:
    found = answers(frame, grid, wish, tmp_path / "out")
    next(iter(found))
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom cfopt.running.lock import locked\n"
        "shard = (1, 2) if sys.argv[2] == 'shard' else None\n"
        "with locked(Path(sys.argv[1]), shard):\n"
        "    print('held', flush=True)\n    time.sleep(600)\n"
    )

    def hold(kind: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "out"), kind],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        return child

    def kill(child: subprocess.Popen[str]) -> None:
        child.send_signal(signal.SIGKILL)
        child.communicate()

    child = hold("whole")
    with pytest.raises(InputError, match=f"another run .process {child.pid} on "):
        found.run(workers=1)
    with pytest.raises(InputError, match="another run"):
        found.run(workers=1, shard=(1, 2))
    kill(child)
    child = hold("shard")
    with pytest.raises(InputError, match="another run"):
        found.run(workers=1)
    with pytest.raises(InputError, match="another run"):
        found.run(workers=1, shard=(1, 2))
    found.run(workers=1, shard=(2, 2))
    kill(child)
    with locked(tmp_path / "out"):
        pass
    found.run(workers=1)
    assert found.done == ROWS


def test_a_damaged_part_is_told_and_made_again(
    frame: pd.DataFrame, grid: cfopt.Pipeline, wish: cfopt.Absolute, tmp_path: Path
) -> None:
    found = answers(frame, grid, wish, tmp_path / "out").run(workers=1)
    before = bytes_of(tmp_path / "out")
    path = tmp_path / "out" / "explanations" / "part-000002.parquet"
    data = path.read_bytes()
    for damaged in (data[:100], data[:-1], data[:200] + bytes([data[200] ^ 1]) + data[201:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"part-000002.parquet cannot be read.*Delete it"):
            found.run(workers=1)
    path.unlink()
    found.run(workers=1)
    assert bytes_of(tmp_path / "out") == before


def test_a_part_that_always_fails_is_told_and_the_others_are_kept(
    frame: pd.DataFrame,
    grid: cfopt.Pipeline,
    wish: cfopt.Absolute,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = parts.write_part

    def broken(path: Path, *rest: Any) -> Any:
        if path.name == "part-000001.parquet":
            raise ArithmeticError("this one never")
        return write(path, *rest)

    monkeypatch.setattr(parts, "write_part", broken)
    found = answers(frame, grid, wish, tmp_path / "out")
    with pytest.raises(cfopt.CfoptError, match=r"1 part could not .* rows 8 to 15: .*this one nev"):
        found.run(workers=1)
    assert found.done == ROWS - 8
    assert not (tmp_path / "out" / "explanations" / "_SUCCESS").exists()
    monkeypatch.undo()
    assert found.run(workers=1).done == ROWS


def test_a_part_that_never_ended_is_tried_row_by_row_once(
    frame: pd.DataFrame,
    grid: cfopt.Pipeline,
    wish: cfopt.Absolute,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a process leaves it that ended while it explained."""
    found = answers(frame, grid, wish, tmp_path / "out")
    next(iter(found))
    kept = found._kept
    asked = []

    def tried(recipe: Any, path: Path, rows: range, patience: Any) -> dict[int, str]:
        asked.append(rows)
        return {rows.start + 1: "it ends processes"}

    monkeypatch.setattr(run, "find_lethal", tried)
    for k, times in ((1, 3), (2, 2)):
        for _ in range(times):
            kept.note(k, "begun")
    found.run(workers=1)
    assert asked == [range(8, 16)]
    e = cfopt.Explanation.concat(list(found))
    assert [row for row, s in enumerate(e.status) if s is cfopt.Status.REJECTED] == [9]
    before = bytes_of(tmp_path / "out")
    kept.file(1).unlink()
    found.run(workers=1)
    assert asked == [range(8, 16)]
    assert bytes_of(tmp_path / "out") == before


def test_a_row_that_cannot_be_read_concerns_itself_alone(
    grid: cfopt.Pipeline, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"a": normal(40, 1)[:, 0].numpy(), "kind": ["x", "y"] * 20})
    frame.loc[29, "kind"] = "z"
    frame.to_parquet(tmp_path / "t.parquet")
    features = cfopt.Features(["a", "kind"], categories={"kind": ["x", "y"]})
    pipeline = cfopt.Pipeline(random_linear(3, 12, bias=5.0), grid.problem)
    found = explain_dataset(
        tmp_path / "t.parquet", pipeline, cfopt.Epsilon(0.1), tmp_path / "out", features=features
    )
    e = cfopt.Explanation.concat(list(found))
    assert [i for i, one in enumerate(e.status) if one is cfopt.Status.REJECTED] == [29]
    assert "Column 'kind' needs one of x or y" in e.message[29]
    table = found.dataset().to_table().to_pandas()
    assert table["kind before"].tolist()[:3] == ["x", "y", "x"]
    assert pq.read_schema(found._kept.file(0)).equals(pq.read_schema(found._kept.file(1)))


def test_a_tally_counts_what_answers_change_in_any_order(
    frame: pd.DataFrame, grid: cfopt.Pipeline, wish: cfopt.Absolute
) -> None:
    features = cfopt.Features(list("abcd"), scale=[1.0, 2.0, 1.0, 0.5])
    e = cfopt.explain(frame, grid, wish, features=features)
    numbers = np.arange(ROWS)
    one, two = Tally(), Tally()
    one.add(e, numbers)
    for rows in (slice(20, 40), slice(0, 7), slice(7, 20)):
        two.add(e[rows], numbers[rows])
    found = (e.valid & (e.steps > 0)).numpy()
    change = (e.x - e.x0).numpy()[found] / np.array(features.scale)
    counts = np.abs(change) >= 0.05 * np.abs(change).max(axis=1, keepdims=True)
    for tally in (one, two):
        assert tally.status == Counter(e.status)
        assert (tally.rows, tally.answered) == (ROWS, int(e.valid.sum()))
        assert tally.found == found.sum()
        assert tally.closest == int(e.optimal.numpy()[found].sum())
        assert tally.ties == int(e.tie.numpy()[found].sum()) > 0
        assert tally.nearest == float(e.distance.numpy()[found].min())
        assert tally.farthest == float(e.distance.numpy()[found].max())
        assert tally.rises.tolist() == (counts & (change > 0)).sum(0).tolist()
        assert tally.falls.tolist() == (counts & (change < 0)).sum(0).tolist()
        assert np.median(tally.distances.values) == np.median(e.distance.numpy()[found])
        assert sum(kind.count for kind in tally.kinds.values()) == found.sum()
    assert {k: (v.count, v.typical) for k, v in one.kinds.items()} == {
        k: (v.count, v.typical) for k, v in two.kinds.items()
    }
    for line in whole(one).features:
        j = "abcd".index(line.name)
        moves = ((e.x - e.x0).numpy()[found])[:, j][counts[:, j]]
        low, median, high = (signed(f"{np.percentile(moves, q):+.3g}") for q in (25, 50, 75))
        assert line.by == f"{median} ({low} to {high})"
        assert line.share == pytest.approx(counts[:, j].mean())
    kind, members = max(one.kinds.items(), key=lambda item: item[1].count)
    row = e[members.typical]
    moved = (row.x - row.x0)[0] / torch.tensor(features.scale)
    assert all((moved[j] > 0) == up for j, up in kind)


def test_a_large_run_reports_all_rows_and_shows_a_sample(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finish, "_ALL", 100)
    monkeypatch.setattr(finish, "_SAMPLE", 20)
    table = pd.read_csv(example.parent / "contexts.csv")
    many = pd.concat([table] * 21, ignore_index=True)
    noise = np.random.default_rng(0).uniform(0, 1, len(many))
    many.assign(rain=many["rain"] + noise).to_parquet(example.parent / "contexts.parquet")
    change(example, "contexts.csv", "contexts.parquet")
    change(example, 'kind = "Absolute"', 'kind = "Relative"')
    done = cf("explain", example, "--workers", "1")
    assert done.exit_code == 0, done.output
    assert "210 contexts: " in done.output
    out = example.parent / "results"
    page = (out / "report.html").read_text()
    assert "What would have to change, over all rows" in page
    assert "A sample of the tasks" in page
    shown = page.count('<details class="task')
    assert 20 <= shown <= 70
    data = pd.read_parquet(out / "explanations")
    assert len(data) == 210
    changed = data[data["status"] == "valid"]
    rises = ((changed["rain after"] - changed["rain before"]) > 1e-6).mean()
    assert f"{100 * rises:.3g}%" in page or rises in (0, 1)
    again = cf("summarise", out)
    assert again.exit_code == 0, again.output
    assert "210 contexts: " in again.output
    (out / "explanations" / "part-000003.parquet").unlink()
    partly = cf("summarise", out)
    assert partly.exit_code == 0, partly.output
    assert "112 of 210 rows are done; 1 part missing." in partly.output
    refused(cf("summarise", example.parent), "is not the folder of")
    change(example, "decision_of_row = 0", "decision_of_row = 1")
    refused(cf("summarise", out), "another configuration")


def test_orders_that_make_no_sense_are_refused(example: Path) -> None:
    refused(cf("explain", example, "--shard", "half"), "--shard needs i/n")
    refused(cf("explain", example, "--shard", "3/2"), "--shard needs i/n", "3/2")
    refused(cf("explain", example, "--engine", "ray"), "needs processes or dask")
    refused(cf("explain", example, "--scheduler", "tcp://x:1"), "needs --engine dask")
    assert not (example.parent / "results").exists()
