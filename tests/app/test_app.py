"""A user's own pipeline: configurations, trust, runs that are killed, and what they write."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.commands import cf, change, refused, results, work_of
from tests.many_parts import Held
from tests.patient import PATIENCE
from tests.pipelines import normal

import cfopt
from cfopt.app.job import Job
from cfopt.errors import StorageError
from cfopt.fleet import part as parts
from cfopt.fleet import run as running
from cfopt.models.terrain import FOLDER, PREDICTOR
from cfopt.result.status import Status
from cfopt.storage.weights import read as read_weights


def assert_equal(left: cfopt.Explanation, right: cfopt.Explanation) -> None:
    """To the last digit."""
    assert left.status == right.status
    assert left.message == right.message
    for name in ("x0", "x", "loss", "bound", "decision", "factual", "costs", "steps", "solves"):
        assert torch.equal(getattr(left, name).nan_to_num(), getattr(right, name).nan_to_num())


def test_the_example_works_from_end_to_end(tmp_path: Path) -> None:
    assert cf("init", tmp_path / "town").exit_code == 0
    config, out = tmp_path / "town" / "CONFIG.toml", tmp_path / "town" / "results"
    change(config, "pictures = 12", "pictures = 2\nmeasures = 2")
    told = cf("explain", config, "--dry-run")
    assert told.exit_code == 0
    assert "Would explain 10 rows" in told.output
    assert not out.exists()
    done = cf("explain", config)
    assert done.exit_code == 0, done.output
    assert "rows/s" in done.output
    # Files are counted apart: two pictures, JSON lines and the report.
    counted = [line for line in done.output.splitlines() if "100% done" in line]
    assert ["10 of 10 rows" in counted[0], "4 of 4 files" in counted[-1]] == [True, True]
    assert len(list((out / "pictures").glob("*.png"))) == 2
    e = results(out)
    assert len(e) == 10
    assert e.status.count(Status.VALID) > 2
    report = (out / "report.html").read_text()
    assert '<th scope="row">redundant features</th><td>2</td>' in report
    assert e.labels is not None
    assert e.labels[0] == "Mon"
    # What the report is made of is what `explain` itself says of the same question.
    work = work_of(config)
    bare = cfopt.explain(
        work.contexts.x,
        work.pipeline,
        work.question.criterion,
        features=work.contexts.features,
        search=work.question.search,
    )
    assert bare.status == e.status
    assert torch.allclose(bare.x, e.x, atol=1e-9)
    table = pd.read_parquet(out / "explanations")
    assert table["label"].tolist() == list(e.labels)
    assert table["row"].tolist() == list(range(10))
    assert table["rain after"].tolist() == e.x[:, 0].tolist()
    assert np.array_equal(np.stack(table["decision"]), e.decision.numpy())
    again = cf("init", tmp_path / "town")
    refused(again, "CONFIG.toml already exists")


def test_a_finished_run_is_not_done_again(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cf("explain", example).exit_code == 0
    monkeypatch.setattr(Job, "explain", None)
    change(example, "title =", 'title = "Another title" #')
    again = cf("explain", example)
    assert again.exit_code == 0, again.output
    assert "10 of 10 rows are already done" in again.output
    assert "Another title" in (example.parent / "results" / "report.html").read_text()
    assert "(10 are already done)" in cf("explain", example, "--dry-run").output


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("[predictor]", "[predicter]", ["no key 'predicter'", "mean 'predictor'?"]),
        ("weights =", "wieghts =", ["[predictor]", "no key 'wieghts'", "mean 'weights'?"]),
        ("immutable =", "imutable =", ["[features]", "mean 'immutable'?"]),
        ('kind = "Auto"', 'kind = "MDMM"\nsteps = 1', ["[search]", "no key 'steps'", "'step'?"]),
        ('kind = "Auto"', "mdmm = { stepp = 1 }", ["[search.mdmm]", "mean 'step'?"]),
        ('kind = "Auto"', 'kind = "MDMN"', ["[search]", "no search 'MDMN'", "mean 'MDMM'?"]),
        ('kind = "Auto"', 'kind = "MDMM"\nstep = -1', ["[search]", "step"]),
        ('kind = "GridShortestPath"', 'kind = "GridPath"', ["[problem]", "'GridShortestPath'?"]),
        ("rows = 3, cols", "rows = 3, colls", ["[problem]", "colls"]),
        ('kind = "Absolute"', 'kind = "Absolut"', ["[criterion]", "mean 'Absolute'?"]),
        ("decision_of_row = 0", "decision_of_row = 10", ["[criterion]", "from 0 to 9"]),
        ("decision_of_row = 0", "", ["[criterion]", "exactly one of alternatives, decision_of"]),
        ("decision_of_row = 0", 'alternatives = "p.csv"', ["no file", "p.csv"]),
        ("contexts.csv", "context.csv", ["There is no file", "context.csv"]),
        ("weights.safetensors", "w.safetensors", ["[predictor]", "There is no file"]),
        ('label = "day"', 'label = "days"', ["no column 'days'", "mean 'day'?"]),
        ('label = "day"', 'rows = "all"', ["[contexts]", "rows needs"]),
        ('names = ["rain"', 'names = ["rian"', ["[features]", "rain"]),
        ("out_features = 12", "out_features = 13", ["do not fit torch.nn.Linear", "weight"]),
        ("torch.nn.Linear", "torch.nn.Linaer", ["cannot be imported", "mean 'Linear'?"]),
        ("torch.nn.Linear", "Linear", ["[predictor]", "import path"]),
        ("title =", "title = = ", ["not a TOML file", "line 4"]),
        ("pictures = 0", 'pictures = "few"', ["[output]", "pictures needs a whole number"]),
        ("# [run]\n# batch = 64", "[run]\nbatch = 0", ["[run]", "at least 1"]),
        ("# [run]\n# batch = 64", "[run]\nbatsch = 9", ["[run]", "mean 'batch'?"]),
        ("[training]", "[training]\nepoch = 9", ["[training]", "mean 'epochs'?"]),
        ("[training]", '[training]\nloss = "SPO"', ["[training]", "no loss 'SPO'", "mean 'SPO+'?"]),
        ('kind = "Auto"', "kynd = 1", ["[search]", "mean 'kind'?", "There are: kind, class,"]),
        ('kind = "L2"', 'kind = "L2"\nskale = [1]', ["[proximity]", "mean 'scale'?"]),
        ('kind = "L2"', 'kind = "L2"\nclass = "a.B"', ["[proximity]", "exclude each other"]),
        ('kind = "Auto"', 'class = "own.Search"', ["[search]", "'own.Search'", "pass --trust"]),
    ],
)
def test_a_bad_configuration_is_told_in_a_line(
    example: Path, old: str, new: str, parts: list[str]
) -> None:
    change(example, old, new)
    refused(cf("explain", example), *parts)
    assert not (example.parent / "results").exists()


def test_bad_data_are_told_in_a_line(example: Path) -> None:
    refused(cf("explain", example.parent / "nothing.toml"), "no configuration", "cfopt init")
    table = pd.read_csv(example.parent / "contexts.csv")
    table.rename(columns={"rain": "rainfall"}).to_csv(example.parent / "contexts.csv", index=False)
    refused(cf("explain", example), "contexts.csv", "no column 'rain'", "mean 'rainfall'?")
    words = table.astype({"rain": object})
    words.loc[3, "rain"] = "much"
    words.to_csv(example.parent / "contexts.csv", index=False)
    refused(cf("explain", example), "column 'rain' needs numbers; row 3 has 'much'")
    (example.parent / "contexts.csv").write_bytes(b"")
    refused(cf("explain", example), "contexts.csv cannot be read")
    change(example, "contexts.csv", "contexts.xlsx")
    (example.parent / "contexts.xlsx").write_bytes(b"?")
    refused(cf("explain", example), "needs to be one of .csv, .parquet, .npy")
    change(example, "contexts.xlsx", "contexts.csv")
    table.to_csv(example.parent / "contexts.csv", index=False)
    (example.parent / "weights.safetensors").write_bytes(b"broken")
    refused(cf("explain", example), "[predictor]", "weights.safetensors")


def test_a_folder_of_another_run_is_refused_and_left_alone(example: Path) -> None:
    out = example.parent / "results"
    assert cf("explain", example).exit_code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    change(example, "decision_of_row = 0", "decision_of_row = 1")
    refused(cf("explain", example), "another configuration", "decision_of_row was 0, is 1")
    refused(cf("explain", example, "--dry-run"), "another configuration")
    change(example, "decision_of_row = 1", "decision_of_row = 0")
    data = example.parent / "contexts.csv"
    data.write_text(data.read_text().replace("Mon", "Monday", 1))
    refused(cf("explain", example), "files.contexts.csv was")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    refused(cf("explain", example, "--out", example.parent), "holds the configuration")
    (example.parent / "mine").mkdir()
    (example.parent / "mine" / "thesis.txt").write_text("years")
    refused(cf("explain", example, "--out", example.parent / "mine"), "holds files")


def test_no_room_on_disk_is_told_and_what_is_done_is_kept(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(example, "# [run]\n# batch = 64", "[run]\npart = 4")
    write, count = parts.write_part, []

    def full(path: Path, *rest: Any) -> Any:
        count.append(path)
        if len(count) == 2:
            raise StorageError(f"{path} could not be written: {os.strerror(errno.ENOSPC)}.")
        return write(path, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(parts, "write_part", full)
        refused(cf("explain", example), "No space left", "4 of 10 rows are done and kept")
    assert not (example.parent / "results" / "report.html").exists()
    done = cf("explain", example)
    assert done.exit_code == 0
    assert "4 of 10 rows are already done" in done.output


def test_code_runs_only_if_it_is_trusted(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = example.parent
    monkeypatch.setattr(sys, "path", list(sys.path))
    (folder / "own_town_model.py").write_text(
        "import pathlib, torch\n"
        "(pathlib.Path(__file__).parent / 'ran').touch()\n"
        "class Net(torch.nn.Linear): pass\n"
        "def number(): return 3\n"
    )
    change(example, "torch.nn.Linear", "own_town_model.Net")
    refused(cf("explain", example), "own_town_model.Net", "pass --trust")
    assert not (folder / "ran").exists()
    assert cf("explain", example, "--trust", "--dry-run").exit_code == 0
    assert (folder / "ran").exists()
    change(example, "own_town_model.Net", "own_town_model.Nett")
    refused(cf("explain", example, "--trust"), "cannot be imported", "mean 'Net'?")
    change(example, "own_town_model.Nett", "own_town_modell.Net")
    refused(cf("explain", example, "--trust"), "cannot be imported", "ModuleNotFoundError")
    change(example, "own_town_modell.Net", "own_town_model.number")
    refused(cf("explain", example, "--trust"), "cannot be built with")
    # Not by way of a known package either.
    for sly in (
        "cfopt.app.demo.time.sleep",
        "torch.nn.modules.module.torch.load",
        "cfopt.storage.files.os",
    ):
        text = example.read_text().replace("own_town_model.number", sly)
        (folder / "sly.toml").write_text(text)
        refused(cf("explain", folder / "sly.toml"), "[predictor]")


def test_pickles_and_archives_need_trust(example: Path) -> None:
    folder = example.parent
    tensors = load_file(folder / "weights.safetensors")
    torch.save(tensors, folder / "weights.pt")
    want = work_of(example).pipeline.costs(work_of(example).contexts.x)
    change(example, "weights.safetensors", "weights.pt")
    refused(cf("explain", example), "weights.pt is a pickle", "pass --trust")
    trusted = work_of(example, trusted=True)
    assert torch.equal(trusted.pipeline.costs(trusted.contexts.x), want)
    layer = torch.nn.Linear(4, 12).double()
    layer.load_state_dict(tensors)
    sizes = ({0: torch.export.Dim("rows")},)
    program = torch.export.export(layer, (trusted.contexts.x,), dynamic_shapes=sizes)
    torch.export.save(program, folder / "model.pt2")
    text = example.read_text()
    start, end = text.index('class = "torch'), text.index("# The problem")
    example.write_text(f'{text[:start]}archive = "model.pt2"\naffine = true\n\n{text[end:]}')
    refused(cf("explain", example), "model.pt2 is a torch.export archive", "pass --trust")
    done = cf("explain", example, "--trust")
    assert done.exit_code == 0, done.output
    assert results(folder / "results").optimal.any()
    np.save(folder / "contexts.npy", np.array([{}], dtype=object), allow_pickle=True)
    change(example, 'file = "contexts.csv"\nlabel = "day"', 'file = "contexts.npy"')
    refused(cf("explain", example, "--trust"), "contexts.npy cannot be read")


def test_contexts_come_in_every_format(example: Path) -> None:
    folder, want = example.parent, work_of(example)
    table = pd.read_csv(folder / "contexts.csv")
    table["comment"] = "fine"
    table[["weekend", "comment", "day", "rain", "traffic", "roadworks"]].to_parquet(
        folder / "contexts.parquet"
    )
    change(example, "contexts.csv", "contexts.parquet")
    found = work_of(example)
    assert torch.equal(found.contexts.x, want.contexts.x)
    assert found.contexts.labels == want.contexts.labels
    assert "left out, not a feature: comment" in cf("explain", example, "--dry-run").output
    np.save(folder / "contexts.npy", want.contexts.x.numpy())
    change(example, 'contexts.parquet"\nlabel = "day"', 'contexts.npy"\nrows = [1, 7]')
    found = work_of(example)
    assert torch.equal(found.contexts.x, want.contexts.x[[1, 7]])
    assert found.contexts.labels == ("1", "7")
    change(example, "rows = [1, 7]", "rows = [1, 10]")
    refused(cf("explain", example), "rows names row 10", "rows 0 to 9")
    np.save(folder / "contexts.npy", want.contexts.x[:, :3].numpy())
    change(example, "rows = [1, 10]", "rows = 2")
    refused(cf("explain", example), "contexts.npy", "3 features")


def test_alternatives_come_from_files_decisions_and_true_optima(example: Path) -> None:
    folder, first = example.parent, work_of(example)
    problem, x = first.pipeline.problem, first.contexts.x
    decisions = first.pipeline.decide(x)

    def alternative(line: str) -> torch.Tensor:
        text = example.read_text().replace("decision_of_row = 0", line)
        (folder / "other.toml").write_text(text)
        asked = work_of(folder / "other.toml").question.criterion
        assert isinstance(asked, cfopt.Absolute)
        return torch.as_tensor(asked.alternative)

    assert torch.equal(alternative("decision_of_row = 3"), decisions[[3] * 10])
    each = list(range(9, -1, -1))
    assert torch.equal(alternative(f"decision_of_row = {each}"), decisions[each])
    costs = torch.tensor(pd.read_csv(folder / "costs.csv").to_numpy())
    best = problem.solve(costs)
    assert torch.equal(alternative('optimum_of_row = 2\ncosts = "costs.csv"'), best[[2] * 10])
    assert torch.equal(alternative('optimum_of_row = "own"\ncosts = "costs.csv"'), best)
    pd.DataFrame(decisions.flip(0).numpy()).to_csv(folder / "plans.csv", index=False)
    assert torch.equal(alternative('alternatives = "plans.csv"'), decisions.flip(0))
    np.save(folder / "plan.npy", decisions[4].numpy())
    assert torch.equal(alternative('alternatives = "plan.npy"'), decisions[[4] * 10])
    refused_plan = decisions.flip(0).numpy()
    refused_plan[1] = 1
    pd.DataFrame(refused_plan).to_csv(folder / "plans.csv", index=False)
    alternative('alternatives = "plans.csv"')
    told = cf("explain", folder / "other.toml", "--dry-run").output
    assert "Of 10 rows, at least 1 would be rejected. Row Tue: Absolute needs a feasible" in told
    assert "in order" not in told
    pd.DataFrame(decisions[:3].numpy()).to_csv(folder / "three.csv", index=False)
    with pytest.raises(cfopt.InputError, match="one for each of the 10; got 3"):
        alternative('alternatives = "three.csv"')
    pd.DataFrame(decisions[:, :5].numpy()).to_csv(folder / "narrow.csv", index=False)
    with pytest.raises(cfopt.InputError, match="needs 12 columns"):
        alternative('alternatives = "narrow.csv"')


def test_problems_come_from_files_and_arguments_too(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = example.parent
    monkeypatch.setattr(sys, "path", list(sys.path))
    (folder / "model.lp").write_text(
        "Minimize\n obj: a + b + 2 c\nSubject To\n one: a + b + c >= 1\n"
        "Bounds\n a <= 1\n b <= 1\n c <= 1\nBinary\n a b c\nEnd\n"
    )
    save_file({"weight": torch.rand(3, 4), "bias": torch.ones(3)}, folder / "weights.safetensors")
    change(example, "out_features = 12", "out_features = 3")
    grid = 'kind = "GridShortestPath"\narguments = { rows = 3, cols = 3 }'
    change(example, grid, 'file = "model.lp"')
    problem = work_of(example).pipeline.problem
    assert isinstance(problem, cfopt.problems.MILP)
    assert problem.decision_names == ("a", "b", "c")
    pd.DataFrame(np.eye(3)).to_csv(folder / "plans.csv", index=False)
    listed = 'kind = "finite"\narguments = { decisions = { file = "plans.csv" } }'
    change(example, 'file = "model.lp"', listed)
    assert isinstance(work_of(example).pipeline.problem, cfopt.problems.Finite)
    change(example, "decisions = {", "decision = {")
    refused(cf("explain", example), "no argument 'decision'. Did you mean 'decisions'?")
    (folder / "own_town_solver.py").write_text(
        "from cfopt.problems import Oracle\n"
        "def problem(): return Oracle(lambda costs: costs == costs.min(), 3)\n"
    )
    own = 'class = "own_town_solver.problem"'
    change(example, listed.replace("decisions = {", "decision = {"), own)
    assert isinstance(work_of(example, trusted=True).pipeline.problem, cfopt.problems.Oracle)
    change(example, own, listed)
    (folder / "plans.csv").write_text("nonsense\n")
    refused(cf("explain", example), "plans.csv")


def test_decisions_are_told_by_the_names_of_their_entries(example: Path) -> None:
    folder, orders = example.parent, ["north", "south", "harbour"]
    save_file({"weight": torch.rand(3, 4), "bias": torch.ones(3)}, folder / "weights.safetensors")
    change(example, "out_features = 12", "out_features = 3")
    knapsack = """kind = "Knapsack"
arguments = { weights = [[1, 1, 1]], capacities = [1] }
names = ["north", "south", "harbour"]"""
    grid = 'kind = "GridShortestPath"\narguments = { rows = 3, cols = 3 }'
    change(example, grid, knapsack)
    problem = work_of(example).pipeline.problem
    assert problem.decision_names == tuple(orders)
    assert problem.describe(np.array([0.0, 1, 1])) == "{south, harbour}"
    change(example, "pictures = 0", "pictures = 1")
    done = cf("explain", example)
    assert done.exit_code == 0, done.output
    report = (folder / "results" / "report.html").read_text()
    chosen = {orders[int(j)] for j in results(folder / "results").factual.argmax(dim=1)}
    assert all(name in report for name in chosen)
    assert "item 0" not in report
    (folder / "mix.lp").write_text("Max\n a + b\nSt\n a + b <= 3\nEnd\n")
    change(example, knapsack, 'file = "mix.lp"\nnames = ["oak", "elm"]')
    change(example, "out_features = 3", "out_features = 2")
    save_file({"weight": torch.rand(2, 4), "bias": torch.ones(2)}, folder / "weights.safetensors")
    assert work_of(example).pipeline.problem.describe(np.array([1.0, 2])) == "{oak, elm = 2}"
    change(example, '"oak", "elm"', '"oak", "oak"')
    refused(cf("explain", example), "[problem]", "2 different names")
    change(example, 'file = "mix.lp"\nnames = ["oak", "oak"]', f"{grid}\nnames = []")
    refused(cf("explain", example), "[problem]", "names cannot be given")


def test_columns_of_plans_and_costs_go_by_their_names_where_the_problem_has_some(
    example: Path,
) -> None:
    folder = example.parent
    model = highspy.Highs()
    model.silent()
    (folder / "mix.lp").write_text("Max\n a + 2 b - 9 c\nSt\n a + b - c <= 3\n b <= 2\nEnd\n")
    assert model.readModel(str(folder / "mix.lp")) == highspy.HighsStatus.kOk
    assert model.writeModel(str(folder / "mix.mps")) == highspy.HighsStatus.kOk
    save_file({"weight": torch.rand(2, 4), "bias": torch.ones(2)}, folder / "weights.safetensors")
    change(example, "out_features = 12", "out_features = 2")
    change(example, 'kind = "GridShortestPath"', 'file = "mix.mps"')
    change(example, "rows = 3, cols = 3", 'cost_columns = ["a", "b"]')

    def alternative(line: str) -> list[float]:
        text = example.read_text().replace("decision_of_row = 0", line)
        (folder / "other.toml").write_text(text)
        asked = work_of(folder / "other.toml").question.criterion
        assert isinstance(asked, cfopt.Absolute)
        return list(torch.as_tensor(asked.alternative)[0].tolist())

    (folder / "plan.csv").write_text("planner,c,a,b\nEve,0,3,0\n")
    assert alternative('alternatives = "plan.csv"') == [3, 0, 0]
    (folder / "plan.csv").write_text("first,second,third\n0,3,0\n")
    assert alternative('alternatives = "plan.csv"') == [0, 3, 0]
    (folder / "plan.csv").write_text("a,b,d\n0,3,0\n")
    with pytest.raises(cfopt.InputError, match="no column 'c'"):
        alternative('alternatives = "plan.csv"')
    (folder / "costs.csv").write_text("b,a\n1,5\n")
    assert alternative('optimum_of_row = "own"\ncosts = "costs.csv"') == [3, 0, 0]
    assert alternative('optimum_of_row = 0\ncosts = "costs.csv"') == [3, 0, 0]


def test_a_row_that_fails_does_not_stop_the_others(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Job.explain

    def breaks(self: Job, rows: range, on_progress: Any = None) -> cfopt.Explanation:
        if 4 in rows:
            raise ZeroDivisionError("the fourth\nis cursed")
        return work(self, rows, on_progress)

    table = pd.read_csv(example.parent / "contexts.csv")
    table.loc[6, "rain"] = np.nan
    table.to_csv(example.parent / "contexts.csv", index=False)
    monkeypatch.setattr(Job, "explain", breaks)
    done = cf("explain", example)
    assert done.exit_code == 0, done.output
    e = results(example.parent / "results")
    assert [row for row, s in enumerate(e.status) if s is Status.REJECTED] == [4, 6]
    assert e.message[4] == "the explanation failed: ZeroDivisionError: the fourth is cursed"
    assert e.message[6] == "the context has values that are not finite: rain"
    assert e.valid.sum() == 8


def test_a_search_that_cannot_serve_is_told_before_anything_is_written(example: Path) -> None:
    change(example, 'kind = "Auto"', 'kind = "ClosedForm"')
    refused(cf("explain", example), "ClosedForm cannot serve this task")
    assert not (example.parent / "results").exists()


def test_ctrl_c_keeps_what_is_done(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(example, "# [run]\n# batch = 64", "[run]\npart = 4")
    undisturbed = example.parent / "undisturbed"
    assert cf("explain", example, "--out", undisturbed).exit_code == 0
    work = Job.explain

    def stops(self: Job, rows: range, on_progress: Any = None) -> cfopt.Explanation:
        if rows.start == 8:
            raise KeyboardInterrupt
        return work(self, rows, on_progress)

    with monkeypatch.context() as patch:
        patch.setattr(Job, "explain", stops)
        done = cf("explain", example)
    assert done.exit_code == 130
    assert "Stopped. 8 of 10 rows are done and kept" in done.output
    assert done.stderr == ""
    assert cf("explain", example).exit_code == 0
    assert_equal(results(example.parent / "results"), results(undisturbed))
    part = example.parent / "results" / "explanations" / "part-000001.parquet"
    part.write_bytes(part.read_bytes()[:50])
    refused(cf("explain", example), part.name, "Delete it to compute them again")


@pytest.mark.long
def test_a_killed_run_goes_on_and_ends_as_an_undisturbed_one(example: Path) -> None:
    held = Held(example, 3)
    out = example.parent / "results"
    code = f"from cfopt.cli import app\napp(['explain', {str(example)!r}, '--trust'])"
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, env=environment
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while len(list(out.glob("explanations/part-*.parquet"))) < 3 and child.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    parts = len(list(out.glob("explanations/part-*.parquet")))
    assert 3 <= parts < 15
    held.release()
    assert not (out / "report.html").exists()
    resumed = cf("explain", example, "--trust")
    assert resumed.exit_code == 0, resumed.output
    assert f"{2 * parts} of 30 rows are already done" in resumed.output
    undisturbed = example.parent / "undisturbed"
    assert cf("explain", example, "--trust", "--out", undisturbed).exit_code == 0
    assert_equal(results(out), results(undisturbed))


def test_codes_of_a_generative_model_are_searched(example: Path) -> None:
    folder = example.parent
    text = example.read_text()
    start, end = text.index("# [generative]"), text.index("# [reference]")
    section = "\n".join(line.removeprefix("# ") for line in text[start:end].splitlines())
    section = section.replace("num_features = 4", "num_features = 4, latent_dim = 2, hidden = 8")
    text = (text[:start] + section + "\n\n" + text[end:]).replace('\nimmutable = ["weekend"]', "")
    example.write_text(text.replace("epochs = 200", "epochs = 3"))
    change(
        example, "lower = { rain = 0, traffic = 0, roadworks = 0 }\nupper = { traffic = 10 }", ""
    )
    change(example, 'label = "day"', 'label = "day"\nrows = 3')
    trained = cf("train", example, "--generative", "--to", folder / "vae.safetensors")
    assert trained.exit_code == 0, trained.output
    weights = load_file(folder / "weights.safetensors")
    save_file({name: value.float() for name, value in weights.items()}, folder / "w.safetensors")
    change(example, '"weights.safetensors"', '"w.safetensors"')
    done = cf("explain", example)
    assert done.exit_code == 0, done.output
    e = results(folder / "results")
    assert e.latent is not None
    assert e.latent.z.shape == (3, 2)


def test_a_predictor_that_does_not_fit_is_told_before_anything_is_written(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    change(example, "rows = 3, cols = 3", "rows = 4, cols = 4")
    refused(cf("explain", example), "[predictor]", "must return costs of shape (1, 24)")
    (example.parent / "odd_town_model.py").write_text(
        "import torch\nclass Net(torch.nn.Linear):\n    def forward(self, x): return x.rain\n"
    )
    change(example, "torch.nn.Linear", "odd_town_model.Net")
    refused(cf("explain", example, "--trust"), "the pipeline fails on its contexts")
    (example.parent / "bent_town_model.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Linear):\n"
        "    def forward(self, x): return super().forward(x) ** 2\n"
    )
    change(example, "odd_town_model.Net", "bent_town_model.Net")
    change(example, "rows = 4, cols = 4", "rows = 3, cols = 3")
    change(example, "decision_of_row = 0", "decision_of_row = 9")
    assert cf("explain", example, "--trust", "--dry-run").exit_code == 0
    change(example, "weights =", "affine = true\nweights =")
    refused(cf("explain", example, "--trust", "--dry-run"), "declared to be affine, but its costs")
    assert not (example.parent / "results").exists()


def test_known_contexts_are_starts(example: Path) -> None:
    change(example, "# [reference]", "[reference]")
    change(example, '# file = "history.csv"', 'file = "contexts.csv"')
    change(example, 'kind = "Auto"', 'kind = "MDMM"\nmax_steps = 1')
    change(example, "scale = [4.0, 2.0, 1.0, 1.0]", "")
    done = cf("explain", example)
    assert done.exit_code == 0, done.output
    e = results(example.parent / "results")
    settings = json.loads((example.parent / "results" / "settings.json").read_text())
    assert settings["usual changes"] == list(e.features.usual or ()) != []
    weekend = e.x0[:, 3] == 1  # which cannot change, and no other day on which it is the same helps
    assert torch.equal(e.valid, ~weekend)
    assert any("reference" in method.lower() for method in e.method)


def test_images_and_the_shipped_network_can_be_explained(tmp_path: Path) -> None:
    models = cfopt.load_terrain(3)
    np.save(tmp_path / "maps.npy", models.maps.numpy())
    about = read_weights(FOLDER / PREDICTOR)[1]
    arguments = ", ".join(f"{key} = {json.dumps(v)}" for key, v in about["settings"].items())
    (tmp_path / "CONFIG.toml").write_text(
        f"""
        [predictor]
        class = "cfopt.predictors.CompactCNN"
        arguments = {{ {arguments} }}
        weights = "{FOLDER / PREDICTOR}"
        [problem]
        kind = "TerrainShortestPath"
        arguments = {{ rows = 12, cols = 12 }}
        [contexts]
        file = "maps.npy"
        rows = 2
        [criterion]
        kind = "Relative"
        decision_of_row = 2
        [search]
        kind = "MDMM"
        max_steps = 3
        [output]
        pictures = 1
        """
    )
    done = cf("explain", tmp_path / "CONFIG.toml")
    assert done.exit_code == 0, done.output
    table = pd.read_parquet(tmp_path / "results" / "explanations")
    assert len(table["after"][1]) == models.maps[1].numel()
    e = results(tmp_path / "results")
    assert e.x.shape == (2, 3, 96, 96)
    assert table["distance"].tolist() == pytest.approx(e.distance.tolist())
    assert torch.equal(e.factual, models.pipeline.decide(models.maps[:2]))


def test_a_predictor_can_be_trained_and_then_explained(example: Path) -> None:
    new = example.parent / "new.safetensors"
    done = cf("train", example, "--to", new)
    assert done.exit_code == 0, done.output
    assert "epoch 128: validation loss" in done.output
    assert load_file(new)["weight"].shape == (12, 4)
    refused(cf("train", example, "--to", new), "already exists")
    change(example, '"weights.safetensors"', '"new.safetensors"')
    assert cf("explain", example, "--dry-run").exit_code == 0
    change(example, "epochs = 200", 'epoch = 2\nloss = "SPO+"')
    refused(cf("train", example, "--to", "x"), "[training]", "mean 'epochs'?")
    change(example, "epoch = 2", "epochs = 2")
    done = cf("train", example, "--to", example.parent / "spo.safetensors")
    assert done.exit_code == 0, done.output


def test_images_are_learnt_as_they_are_explained(tmp_path: Path) -> None:
    maps = cfopt.datasets.Terrain(rows=2, cols=2, cell=4).generate(12)
    np.save(tmp_path / "bytes.npy", maps.images.permute(0, 2, 3, 1).numpy())
    np.save(tmp_path / "floats.npy", (maps.images / 255).numpy())
    np.save(tmp_path / "costs.npy", maps.costs.numpy())
    learnt = []
    for kind in ("bytes", "floats"):
        config = tmp_path / f"{kind}.toml"
        config.write_text(
            f"""
            [predictor]
            class = "cfopt.predictors.CompactCNN"
            arguments = {{ cell = 4, width = 8 }}
            weights = "{kind}.safetensors"
            [problem]
            kind = "TerrainShortestPath"
            arguments = {{ rows = 2, cols = 2 }}
            [contexts]
            file = "{kind}.npy"
            [criterion]
            kind = "Epsilon"
            epsilon = 0.1
            [training]
            contexts = "{kind}.npy"
            costs = "costs.npy"
            epochs = 3
            """
        )
        torch.manual_seed(0)  # of the first weights
        done = cf("train", config, "--to", tmp_path / f"{kind}.safetensors")
        assert done.exit_code == 0, done.output
        learnt.append(work_of(config).pipeline.costs(work_of(config).contexts.x))
    assert torch.allclose(*learnt, atol=1e-6)


def test_costs_to_learn_from_go_by_their_names(tmp_path: Path) -> None:
    names = ["ham", "jam", "tea"]
    contexts, values = normal(12, 2), normal(12, 3, seed=1)
    pd.DataFrame(contexts.numpy(), columns=["a", "b"]).to_csv(tmp_path / "x.csv", index=False)
    learnt = []
    for order in ([0, 1, 2], [2, 0, 1]):
        table = pd.DataFrame(values[:, order].numpy(), columns=[names[j] for j in order])
        table.to_csv(tmp_path / "values.csv", index=False)
        config = tmp_path / "CONFIG.toml"
        config.write_text(
            f"""
            [predictor]
            class = "torch.nn.Linear"
            arguments = {{ in_features = 2, out_features = 3 }}
            [problem]
            kind = "Knapsack"
            arguments = {{ weights = [[1.0, 2.0, 3.0]], capacities = [4.0] }}
            names = {json.dumps(names)}
            [contexts]
            file = "x.csv"
            [criterion]
            kind = "Epsilon"
            epsilon = 0.1
            [training]
            contexts = "x.csv"
            costs = "values.csv"
            epochs = 3
            """
        )
        torch.manual_seed(0)  # of the first weights
        to = tmp_path / f"{order[0]}.safetensors"
        done = cf("train", config, "--to", to)
        assert done.exit_code == 0, done.output
        learnt.append(load_file(to)["weight"])
    assert torch.allclose(*learnt)


def test_info_tells_versions_solvers_and_models() -> None:
    told = cf("info")
    assert told.exit_code == 0
    for part in (cfopt.__version__, torch.__version__, "highspy", "cnn.safetensors"):
        assert part in told.output


def test_the_benchmarks_need_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cfopt, "__file__", str(tmp_path / "lib" / "cfopt" / "__init__.py"))
    refused(cf("bench"), "checkout")


@pytest.mark.parametrize(
    "command",
    ["init", "explain", "summarise", "train", "demo", "serve", "bench", "info", "reproduce"],
)
def test_every_command_has_help_with_an_example(command: str) -> None:
    told = cf(command, "--help")
    assert told.exit_code == 0
    assert f"Example: cfopt {command}" in told.output
    # Neither types of Python, such as <bool>, nor words that were taken for markup.
    assert "<" not in told.output.replace("<=", "")
    assert "Its  " not in told.output


def test_help_is_wrapped_to_the_terminal_and_not_as_the_source_is() -> None:
    assert "learning_rate, batch_size, seed" in cf("train", "--help").output


def test_an_unforeseen_error_is_one_line_too(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object, **options: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(running, "claim", broken)
    done = cf("explain", example)
    assert done.exit_code == 1
    assert done.stderr == "Error: RuntimeError: out of luck (--debug shows where it comes from)\n"
    assert "Traceback" not in done.stderr
    assert "Traceback" in cf("explain", example, "--debug").stderr


def test_settings_of_a_run_are_written_once(example: Path) -> None:
    assert cf("explain", example).exit_code == 0
    settings = json.loads((example.parent / "results" / "settings.json").read_text())
    assert settings["cfopt"] == cfopt.__version__
    assert set(settings["files"]) == {"contexts.csv", "weights.safetensors"}


def test_a_run_uses_one_thread_of_torch_or_those_asked_for_and_gives_the_others_back(
    example: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before, seen = torch.get_num_threads(), []
    for name in ("trial", "explain"):
        work = getattr(Job, name)

        def watched(*given: Any, work: Any = work) -> Any:
            seen.append(torch.get_num_threads())
            return work(*given)

        monkeypatch.setattr(Job, name, watched)
    torch.set_num_threads(2)
    try:
        assert cf("explain", example, "--dry-run").exit_code == 0
        assert cf("explain", example).exit_code == 0
        assert torch.get_num_threads() == 2
        assert seen == [1, 1, 1]  # the dry run, the run's own trial, and its only batch
        change(example, "# [run]\n# batch = 64", "[run]\nthreads = 3")
        assert cf("explain", example, "--out", tmp_path / "more").exit_code == 0
        assert seen[3:] == [3, 3]
    finally:
        torch.set_num_threads(before)
