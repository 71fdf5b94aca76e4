"""Names of criteria, searches and so on: decorators, entry points, and mistakes."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

import cfopt
from cfopt import registry
from cfopt.registry import Registry
from cfopt.search import MDMM


def test_names_are_found_whatever_their_case_and_the_nearest_one_is_offered() -> None:
    assert registry.searches.find("mdmm") is MDMM
    assert registry.searches.name_of(MDMM) == "MDMM"
    with pytest.raises(cfopt.InputError, match=r"no search 'MDMN'\. Did you mean 'MDMM'"):
        registry.searches.find("MDMN")


def test_what_cfopt_has_of_its_own_cannot_be_replaced_but_a_new_version_of_yours_can() -> None:
    known = Registry("search", "cfopt.tests", "cfopt.search")
    known.register(MDMM)
    with pytest.raises(cfopt.InputError, match="of its own"):
        known.register(type("MDMM", (), {"__module__": "elsewhere"}))
    first, second = (type("Mine", (), {"__module__": "mine"}) for _ in "12")
    known.register(first)
    assert known.register(second) is second
    assert known.find("mine") is second


def test_entry_points_of_installed_packages_are_entered_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[str] = []
    point = EntryPoint("Ordered", "collections:OrderedDict", "cfopt.searches")

    def points(group: str, name: str | None = None) -> Any:
        loaded.append(group)
        return [point] if group == "cfopt.searches" and name in (None, "Ordered") else []

    monkeypatch.setattr(registry, "entry_points", points)
    known = Registry("search", "cfopt.searches", "cfopt.search")
    known.register(MDMM)
    assert "MDMM" in known
    assert loaded == []  # looking through what is installed takes a while
    assert "Ordered" in known
    assert "Unordered" not in known
    assert known.names() == ["MDMM", "Ordered"]
    from collections import OrderedDict

    assert known.find("ordered") is OrderedDict
    assert known.name_of(OrderedDict) == "Ordered"
    assert set(loaded) == {"cfopt.searches"}


@pytest.mark.parametrize(
    "noun",
    [
        *(registry.criteria, registry.problems, registry.searches, registry.proximities),
        *(registry.plausibilities, registry.generative_models, registry.predictors),
    ],
)
def test_every_registry_knows_what_cfopt_ships(noun: Registry) -> None:
    names = noun.names()
    assert len(names) >= 2
    for name in names:
        assert callable(noun.find(name))
        assert noun.name_of(noun.find(name)) == name
