"""What a user may get wrong in a configuration and its files: told in a line, nothing lost."""

from __future__ import annotations

import io
import itertools
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from tests.commands import cf, change, refused, results
from tests.patient import PATIENCE

import cfopt
from cfopt.app import training
from cfopt.result.status import Status
from cfopt.running import heartbeat
from cfopt.running.pace import Display, Pace

#: A predictor that cannot read contexts with a certain rain.
_MOODY = """
import torch
class Net(torch.nn.Linear):
    def forward(self, x):
        if (x[:, 0] == {rain}).any():
            {does}
        return super().forward(x)
"""


def moody(example: Path, row: int, does: str, name: str) -> None:
    """Make the example's predictor fail in one row."""
    rain = pd.read_csv(example.parent / "contexts.csv")["rain"][row]
    (example.parent / f"{name}.py").write_text(_MOODY.format(rain=rain, does=does))
    change(example, "torch.nn.Linear", f"{name}.Net")


@pytest.mark.parametrize(
    ("does", "said"), [("raise KeyError('mood')", "mood"), ("raise SystemExit(3)", "SystemExit: 3")]
)
def test_a_row_that_fails_at_once_does_not_stop_the_others(
    example: Path, does: str, said: str
) -> None:
    moody(example, 1, does, f"moody_{len(does)}")
    change(example, "decision_of_row = 0", "decision_of_row = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]")
    done = cf("explain", example, "--trust")
    assert done.exit_code == 0, done.output
    e = results(example.parent / "results")
    # Row 2 asks for what is decided in row 1, which is unknown.
    assert [row for row, s in enumerate(e.status) if s is Status.REJECTED] == [1, 2]
    assert said in e.message[1]
    assert "alternative" in e.message[2]
    assert e.valid.sum() == 8


def test_a_pipeline_that_fails_everywhere_is_told_before_anything_is_written(
    example: Path,
) -> None:
    moody(example, 0, "pass\n        raise KeyError('mood')", "moody_everywhere")
    refused(cf("explain", example, "--trust"), "mood")
    assert not (example.parent / "results").exists()


def test_true_costs_that_are_missing_in_a_row_cost_that_row(example: Path) -> None:
    costs = pd.read_csv(example.parent / "costs.csv")
    costs.iloc[3, 5] = np.nan
    costs.to_csv(example.parent / "costs.csv", index=False)
    change(example, "decision_of_row = 0", 'optimum_of_row = "own"\ncosts = "costs.csv"')
    assert cf("explain", example).exit_code == 0
    e = results(example.parent / "results")
    assert [row for row, s in enumerate(e.status) if s is Status.REJECTED] == [3]


def test_rows_with_more_fields_than_the_header_are_refused(example: Path) -> None:
    lines = (example.parent / "contexts.csv").read_text().splitlines()
    shifted = [lines[0], *(f"{line},7" for line in lines[1:])]
    (example.parent / "contexts.csv").write_text("\n".join(shifted))
    refused(cf("explain", example), "[contexts]", "contexts.csv", "more fields than its line")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.ones((3, 4)) * 1j, "real numbers"),
        (np.array(["2026-01-01"], dtype="datetime64[D]"), "real numbers"),
        (np.array(4.0), "a single number"),
        (np.ones((6, 5, 5)), "(rows, 1, height, width)"),
    ],
)
def test_arrays_that_are_no_contexts_are_refused(
    example: Path, array: np.ndarray, said: str
) -> None:
    np.save(example.parent / "x.npy", array)
    change(example, 'file = "contexts.csv"\nlabel = "day"', 'file = "x.npy"')
    refused(cf("explain", example), "[contexts]", "x.npy", said)


def test_a_dry_run_looks_at_every_row_the_room_and_what_is_done(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cf("explain", example).exit_code == 0
    part = example.parent / "results" / "explanations" / "part-000000.parquet"
    part.write_bytes(part.read_bytes()[:50])
    refused(cf("explain", example, "--dry-run"), part.name)
    table = pd.read_csv(example.parent / "contexts.csv")
    table.loc[8, "rain"], table.loc[9, "traffic"] = np.nan, 99
    table.to_csv(example.parent / "contexts.csv", index=False)
    told = cf("explain", example, "--dry-run", "--out", example.parent / "new").output
    assert "Of 10 rows, at least 2 would be rejected. Row next Tue: the context has values" in told
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    refused(cf("explain", example, "--out", example.parent / "new"), "has room for 0.0 MB")
    refused(cf("explain", example, "--dry-run", "--out", example.parent / "new"), "has room for")
    assert not (example.parent / "new").exists()


def test_a_run_without_an_answer_or_a_proof_ends_with_code_1_and_so_does_its_dry_run(
    example: Path,
) -> None:
    table = pd.read_csv(example.parent / "contexts.csv")
    table["traffic"] = 99  # above its upper bound
    table.to_csv(example.parent / "contexts.csv", index=False)
    planned = cf("explain", example, "--dry-run")
    assert planned.exit_code == 1
    assert "at least 10 would be rejected" in planned.output
    done = cf("explain", example)
    assert done.exit_code == 1
    assert done.stderr == "No row has an answer, or a proof that there is none.\n"
    assert (example.parent / "results" / "report.html").is_file()
    again = cf("explain", example)
    assert "10 of 10 rows are already done" in again.output
    assert (again.exit_code, again.stderr) == (1, done.stderr)


def test_a_proof_that_there_is_no_answer_is_one(example: Path) -> None:
    change(example, '["weekend"]', '["rain", "traffic", "roadworks", "weekend"]')
    change(example, 'label = "day"', 'label = "day"\nrows = [1]')
    done = cf("explain", example)
    assert done.exit_code == 0, done.output
    assert results(example.parent / "results").status == (Status.PROVED_INFEASIBLE,)


@pytest.mark.parametrize(
    ("encoding", "separator", "said"),
    [
        ("latin-1", ",", "is not encoded in UTF-8. Save it as UTF-8."),
        ("utf-8", ";", "its separator seems to be ';'"),
        ("utf-8", "\t", "its separator seems to be '\\t'"),
    ],
)
@pytest.mark.parametrize("decimal", [".", ","])
def test_files_of_other_programs_are_refused_with_the_remedy(
    example: Path, encoding: str, separator: str, said: str, decimal: str
) -> None:
    table = pd.read_csv(example.parent / "contexts.csv").replace("Mon", "Lunedì")
    if separator != ",":
        table["rain"] += 0.5  # with digits behind the comma
    text = table.to_csv(index=False, sep=separator, decimal=decimal)
    (example.parent / "contexts.csv").write_bytes(text.encode(encoding))
    refused(cf("explain", example), "[contexts]", said)


def test_numbers_with_commas_between_commas_are_refused_with_the_remedy(example: Path) -> None:
    table = pd.read_csv(example.parent / "contexts.csv")
    table["rain"] += 0.25
    table.to_csv(example.parent / "contexts.csv", index=False, decimal=",")
    said = "column 'rain' needs points in its numbers; row 0 has '0,65'. Save it with points"
    refused(cf("explain", example), "[contexts]", said)


def test_a_folder_or_another_encoding_of_the_configuration_is_named(example: Path) -> None:
    refused(cf("explain", example.parent), "is a folder", str(example))
    example.write_bytes(example.read_text().replace("rain", "Lunedì").encode("latin-1"))
    refused(cf("explain", example), "is not encoded in UTF-8")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "decision_of_row = 0",
            'decision_of_row = 0\ncosts = "costs.csv"',
            "belong together",
        ),
        ("decision_of_row = 0", "decision_of_row = 0\nepsilon = 0.1", "no key 'epsilon'"),
        ('kind = "Absolute"', 'kind = "Epsilonn"', "no criterion 'Epsilonn'. Did you mean"),
        ('kind = "L2"', 'kind = "L2"\nof = "L1"', "no key 'of'"),
        ('kind = "Auto"', 'kind = "Auto"\nmdmm = 3', "mdmm needs a table"),
        ('kind = "Auto"', 'kind = "MDMM"\nstep = true', "step needs a number, got True"),
        ("rain = 0,", "rain = true,", "lower needs numbers"),
        ("decision_of_row = 0", 'alternatives = "nope.csv"', "[criterion]"),
        ("# [reference]", '[reference]\nfile = "nope.csv"\n#', "[reference]"),
        ("decision_of_row = 0", "decision_of_row = 0\nmargin = 1" + "0" * 400, "margin"),
        ("pictures = 0", "pictures = 1" + "0" * 5000, "is not a TOML file"),
    ],
)
def test_what_would_be_ignored_or_misread_is_refused(
    example: Path, old: str, new: str, said: str
) -> None:
    change(example, old, new)
    refused(cf("explain", example), str(example), said)


def test_a_configuration_may_begin_with_a_mark_of_its_encoding(example: Path) -> None:
    example.write_bytes(b"\xef\xbb\xbf" + example.read_bytes())
    assert cf("explain", example, "--dry-run").exit_code == 0


def test_weights_that_are_missing_or_not_finite_are_refused_whoever_is_trusted(
    example: Path,
) -> None:
    weights = load_file(example.parent / "weights.safetensors")
    weights["bias"][3] = torch.nan
    save_file(weights, example.parent / "weights.safetensors")
    refused(cf("explain", example), "[predictor]", "bias has NaN")
    (example.parent / "weights.safetensors").write_bytes(b"no")
    refused(cf("explain", example), "[predictor]", "weights.safetensors")
    change(example, 'weights = "weights.safetensors"\n', "")
    refused(cf("explain", example, "--trust"), "weights is missing")


def test_a_picture_that_cannot_be_drawn_costs_nothing_else(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(example, "pictures = 0", "pictures = 3")
    plot = cfopt.Explanation.plot

    def fails(self: cfopt.Explanation, path: object = None) -> object:
        if self.label(0) == "Mon":
            raise ValueError("no\nink")
        return plot(self, path)

    monkeypatch.setattr(cfopt.Explanation, "plot", fails)
    done = cf("explain", example)
    assert done.exit_code == 0, done.output
    assert "Row Mon could not be drawn: no ink" in done.output
    out = example.parent / "results"
    assert (out / "report.html").exists()
    assert len(list((out / "pictures").iterdir())) == 2
    change(example, "pictures = 3", "pictures = 1")
    monkeypatch.undo()
    assert cf("explain", example).exit_code == 0
    assert [path.name for path in (out / "pictures").iterdir()] == ["row-000000.png"]


def test_empty_labels_and_columns_that_are_left_out_are_told(example: Path) -> None:
    table = pd.read_csv(example.parent / "contexts.csv").assign(driver="Eve")
    table.loc[2, "day"] = None
    table.to_csv(example.parent / "contexts.csv", index=False)
    done = cf("explain", example)
    assert "left out, not a feature: driver" in done.output
    labels = results(example.parent / "results").labels
    assert labels is not None
    assert labels[2] == "row 2"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("epochs = 0", "epochs needs to be at least 1"),
        ("batch_size = 0", "batch_size needs to be at least 1"),
        ("seed = -1", "seed needs to be at least 0"),
        ("learning_rate = nan", "learning_rate needs"),
        ("learning_rate = 1e30", "diverged"),
    ],
)
def test_training_with_bad_settings_writes_nothing(example: Path, setting: str, said: str) -> None:
    change(example, "epochs = 200", setting)
    refused(cf("train", example, "--to", example.parent / "new.safetensors"), "[training]", said)
    assert not (example.parent / "new.safetensors").exists()


def test_training_on_bad_data_or_to_a_bad_place_writes_nothing(example: Path) -> None:
    to = example.parent / "new.safetensors"
    refused(cf("train", example, "--to", example.parent / "new.pt"), "ends with .safetensors")
    refused(cf("train", example, "--to", example.parent / "no" / "new.safetensors"), "no folder")
    change(example, "in_features = 4", "in_features = 5")
    refused(cf("train", example, "--to", to), "[training]", "cannot be trained")
    change(example, "in_features = 5", "in_features = 4")
    for name in ("contexts", "costs"):
        kept = pd.read_csv(example.parent / f"{name}.csv")
        broken = kept.copy()
        broken.iloc[4, 2] = np.nan
        broken.to_csv(example.parent / f"{name}.csv", index=False)
        refused(cf("train", example, "--to", to), f"{name}.csv: row 4 has values that are missing")
        kept.to_csv(example.parent / f"{name}.csv", index=False)
    assert not to.exists()


def test_the_example_s_own_generative_model_can_be_trained_and_searched(example: Path) -> None:
    """Its predictor has float64 weights, a VAE that is trained float32 ones."""
    text = example.read_text()
    for line in ("lower = {", "upper = {", "immutable ="):
        text = "\n".join(one for one in text.splitlines() if not one.startswith(line))
    text = text.replace("# [generative]", "[generative]").replace("#                   #", "#")
    for line in ("class = ", "arguments = { num", 'weights = "vae'):
        text = text.replace(f"# {line}", line)
    text += '\n[plausibility]\nkind = "Sphere"\nbeta = 10.0\n'
    example.write_text(text.replace("epochs = 200", "epochs = 3\nalpha = 1.0"))
    vae = example.parent / "vae.safetensors"
    done = cf("train", example, "--generative", "--to", vae)
    assert done.exit_code == 0, done.output
    done = cf("explain", example)
    assert done.exit_code == 0, done.output
    assert results(example.parent / "results").latent is not None


def test_the_share_that_is_done_is_not_rounded_away() -> None:
    pace = Pace([10.0] * 10)
    pace.finished(10.0)
    pace.finished(10.0)
    assert pace.share == 0.2


def test_before_anything_is_done_no_time_is_foretold() -> None:
    now, out = 0.0, io.StringIO()
    pace = Pace([1e6], clock=lambda: now)
    display = Display(Console(file=out, width=200), pace, 1_000_000, noun="row", rated=True)
    now = 10.0
    display.beat()
    assert out.getvalue() == "  0% done, 0 of 1,000,000 rows in 10 s\n"
    pace.finished(12_900.0)
    display.finished("rows 0 to 12899", 10.0, 12_900)
    line = "  1% done, 12,900 of 1,000,000 rows in 10 s, 1,290 rows/s, about 13 min left"
    assert out.getvalue().splitlines()[1:] == [f"{line}: rows 0 to 12899 (10 s)"]


def test_rows_and_the_files_made_of_them_are_counted_apart(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("run", "finish"):
        monkeypatch.setattr(f"cfopt.fleet.{module}._EVERY", 0.0)
    change(example, "pictures = 0", "pictures = 2")
    said = cf("explain", example, "--workers", "1").output
    rows = re.findall(r"(\d+) of (\d+) rows", said)
    files = re.findall(r"(\d+) of (\d+) files", said)
    pictures = list((example.parent / "results").rglob("*.png"))
    assert rows[-1][0] == rows[-1][1] == str(len(pd.read_csv(example.parent / "contexts.csv")))
    assert files[-1][0] == files[-1][1]
    assert int(files[-1][1]) > len(pictures) == 2


def test_without_a_terminal_a_long_silence_is_broken_by_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeat, "_TICK", 0.01)
    now, out = 0.0, io.StringIO()
    pace = Pace([10.0], clock=lambda: now)
    display = Display(Console(file=out, width=200), pace, 10, noun="row")
    display.started("rows 0 to 9")
    now = 9.0
    display.beat()
    assert out.getvalue() == ""
    now = 10.0
    pace.moved(5.0)
    display.beat()
    said = out.getvalue()
    assert said == " 50% done, 0 of 10 rows in 10 s, about 10 s left: rows 0 to 9\n"
    now = 19.0
    display.beat()
    assert out.getvalue() == said
    # In a terminal a bar moves instead.
    bar = Display(Console(file=out, force_terminal=True), pace, 10, noun="row", silence=0.0)
    bar.beat()
    assert out.getvalue() == said
    now = 20.0
    with display:  # it looks by itself
        end = time.monotonic() + PATIENCE
        while out.getvalue() == said and time.monotonic() < end:
            time.sleep(0.01)
    assert out.getvalue() != said


def test_loading_and_checking_are_not_silent_either(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Talkative(heartbeat.Heartbeat):
        def __enter__(self) -> heartbeat.Heartbeat:
            self.say(self.words())
            return self

    monkeypatch.setattr(heartbeat, "Heartbeat", Talkative)
    said = cf("explain", example, "--dry-run").output
    assert said.startswith("Loading the pipeline.\nChecking every row.\n")


def test_training_says_at_least_every_ten_seconds_how_far_it_is(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, epoch, hearts, said = 0.0, 0, [], []
    train_model = training.train_model

    class Watched(heartbeat.Heartbeat):
        def say(self, line: str) -> None:
            said.append((now, epoch, line))
            super().say(line)

    def heart(console: Console, words: Callable[[], str]) -> heartbeat.Heartbeat:
        hearts.append(Watched(console, words, clock=lambda: now))
        return hearts[-1]

    def slowly(*given: Any, on_epoch: Callable[[int, float], None], **settings: Any) -> Any:
        def second(number: int, loss: float) -> None:
            nonlocal now, epoch
            now, epoch = now + 1.0, number
            on_epoch(number, loss)
            hearts[0].beat()

        return train_model(*given, on_epoch=second, **settings)

    monkeypatch.setattr(heartbeat, "Heartbeat", heart)
    monkeypatch.setattr(training, "train_model", slowly)
    done = cf("train", example, "--to", example.parent / "new.safetensors")
    assert done.exit_code == 0, done.output
    times = [0.0, *(one for one, _, _ in said), now]
    assert now == 200.0
    assert max(after - before for before, after in itertools.pairwise(times)) <= 10.0
    for _, reached, line in said:
        assert line.startswith(f"epoch {reached}: validation loss ")
        assert line in done.output
