"""Rows of arrays, told apart and put together: against one row at a time."""

from __future__ import annotations

import numpy as np
import pytest

from cfopt._rows import row_keys, stacked


def test_keys_are_the_same_just_where_rows_are_equal() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(-1, 2, (200, 3)).astype(float)
    values[rng.random(values.shape) < 0.2] *= -0.0  # also a zero with a sign
    keys = row_keys(values)
    alike = (values[:, None] == values[None]).all(axis=2)
    assert alike.sum() > len(values)  # some rows are equal
    assert [[a == b for b in keys] for a in keys] == alike.tolist()


def test_keys_do_not_depend_on_how_an_array_lies_in_memory() -> None:
    values = np.random.default_rng(1).standard_normal((6, 4))
    assert row_keys(np.asfortranarray(values)) == row_keys(values)
    assert row_keys(values[::2]) == row_keys(values)[::2]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_there_is_a_key_for_each_row_of_nothing(shape: tuple[int, int]) -> None:
    assert row_keys(np.empty(shape)) == [b""] * shape[0]


def test_rows_are_put_one_after_the_other() -> None:
    rows = list(np.random.default_rng(2).standard_normal((5, 4)))
    assert stacked(rows).tolist() == np.stack(rows).tolist()
