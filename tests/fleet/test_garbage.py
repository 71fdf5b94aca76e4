"""When garbage is looked for."""

from __future__ import annotations

import gc
import weakref

import pytest

from cfopt.running.garbage import collected_at_the_end, seldom_collected


class _Node:
    """Something that holds itself, so that only the collector finds it."""

    def __init__(self) -> None:
        self.own = self


def test_garbage_that_was_made_is_gone_at_the_end_and_nothing_is_looked_for_before() -> None:
    looks: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        looks.append(phase)

    with collected_at_the_end():
        gc.callbacks.append(note)
        try:
            dead = [weakref.ref(_Node()) for _ in range(20_000)]
            assert not looks
            assert all(one() is not None for one in dead)
        finally:
            gc.callbacks.remove(note)
    gc.disable()  # so that nobody else finds it
    try:
        with collected_at_the_end():
            last = weakref.ref(_Node())
        assert last() is None
    finally:
        gc.enable()


def test_few_new_objects_are_not_looked_at_and_many_are() -> None:
    looks: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        looks.append(phase)

    usual = gc.get_threshold()
    with seldom_collected():
        gc.callbacks.append(note)
        try:
            kept = [_Node() for _ in range(20_000)]
            assert not looks
            kept += [_Node() for _ in range(200_000)]
            assert looks
        finally:
            gc.callbacks.remove(note)
    assert gc.get_threshold() == usual
    with pytest.raises(ValueError, match="here"), seldom_collected():
        raise ValueError("here")
    assert gc.get_threshold() == usual


def test_the_collector_is_left_as_it_was_also_after_an_error() -> None:
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            with pytest.raises(ValueError, match="here"), collected_at_the_end():
                raise ValueError("here")
            assert gc.isenabled() == enabled
        finally:
            gc.enable()
