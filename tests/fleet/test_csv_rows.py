"""Large CSV files: rows that are read piece by piece are those of the whole file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cfopt.errors import InputError
from cfopt.storage import rows
from cfopt.storage.csv_rows import CsvRows
from cfopt.storage.rows import open_rows

_COUNT = 103


@pytest.fixture
def text() -> str:
    """A table with quotation marks, commas, ends of lines and gaps within its cells."""
    rng = np.random.default_rng(0)
    names = np.array(["plain", "with, comma", 'a ""quoted"" word', "two\nlines", '"\n"', ""])
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(_COUNT),
            "whole, or not": rng.integers(0, 9, _COUNT),
            "name": rng.choice(names, _COUNT),
            "gap": np.where(rng.random(_COUNT) < 0.3, np.nan, rng.random(_COUNT)),
        }
    )
    return frame.to_csv(index=False)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("block", [1, 7, 64, 2**20])
def test_pieces_are_what_pandas_reads_of_the_whole(
    text: str, ends: str, last: bool, block: int, tmp_path: Path
) -> None:
    lines = text.replace("\n", ends)
    lines = lines if last else lines.removesuffix(ends)
    lines = lines.replace(ends, 3 * ends, 1)  # empty lines are none
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xef\xbb\xbf" + lines.encode())
    whole = pd.read_csv(path)
    found = CsvRows(path, piece=10, block=block)
    assert len(found) == len(whole) == _COUNT
    some = [0, 57, 58, 59, 60, 3, _COUNT - 1, 3]
    for numbers in (range(_COUNT), range(15, 45), some, []):
        expected = whole.iloc[list(numbers)].reset_index(drop=True)
        pd.testing.assert_frame_equal(found.read(numbers), expected)


def test_what_is_text_at_first_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "codes.csv"
    path.write_text("code\n" + "".join(f"A{k}\n" for k in range(5)) + "007\n8\n")
    found = CsvRows(path, piece=5)
    assert found.read([5, 6])["code"].tolist() == ["007", "8"]


def test_files_beyond_a_size_are_read_piece_by_piece_and_faults_are_told(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    assert not isinstance(open_rows(path), CsvRows)
    monkeypatch.setattr(rows, "_LARGE", 100)
    assert isinstance(open_rows(path), CsvRows)
    path.write_text(text + '"')
    with pytest.raises(InputError, match="quotation mark is not closed"):
        open_rows(path)
    path.write_text("a;b\n" + 100 * "1;2\n")
    with pytest.raises(InputError, match="commas"):
        open_rows(path)
    path.write_text("a,b\n" + 50 * "1,2\n" + "1,2,3\n")
    with pytest.raises(InputError, match="cannot be read"):
        open_rows(path).read(range(51))
    path.write_text("a\n" + 99 * "1\n" + "  \n")
    with pytest.raises(InputError, match="lines of blanks"):
        open_rows(path).read([0])
    path.write_text("a\r" + 99 * "1\r")  # an end of line of old
    assert len(open_rows(path)) == 99
