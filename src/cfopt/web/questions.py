"""The questions of the explorer: those of all criteria there are, in their own words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import Tensor

from cfopt import registry
from cfopt.app.schema import settings_of
from cfopt.errors import InputError
from cfopt.problems import Problem
from cfopt.problems.foil_text import foil_of
from cfopt.question import Criterion
from cfopt.web.requests import Question


def questions(noun: str) -> list[dict[str, Any]]:
    """What can be asked; questions about an alternative come first.

    Arguments:
        noun: what a decision is called.
    """
    known = [registry.criteria.find(name) for name in registry.criteria.names()]
    return [
        {
            "kind": kind.kind().lower(),
            "title": title,
            "more": more,
            "contrasts": kind.contrasts,
            "sliders": [asdict(slider) for slider in kind.sliders],
        }
        for kind in sorted(known, key=lambda one: not one.contrasts)
        for title, more in [kind.choice(noun)]
    ]


def criterion_of(asked: Question, alternative: Tensor | None, problem: Problem) -> Criterion:
    """The criterion of a request.

    Arguments:
        asked: its kind and settings, and its wish if it has one.
        alternative: the decision that it names, `(1, m)`, if any.
        problem: the problem whose decisions a wish is about.
    """
    kind: type[Criterion] = registry.criteria.find(asked.kind)
    name, settings = kind.kind().lower(), asked.model_extra or {}
    given = asked.wish()
    wish = foil_of(_without_nothing(given)).on(problem) if given else None
    if kind.contrasts and (alternative is None) is (wish is None):
        raise InputError(f"A question of kind {name} needs an alternative or a wish, one of them.")
    if not kind.contrasts and (alternative is not None or wish is not None):
        raise InputError(f"A question of kind {name} has no alternative.")
    table = settings_of(kind, skip=kind.row_fields())
    for key in settings:
        if key not in table.known_keys():
            raise InputError(f"A question of kind {name} has no {key}.")
    return kind.of(table.read(settings).given(), alternative if wish is None else wish)


def _without_nothing(wish: dict[str, Any]) -> dict[str, Any]:
    """Conditions with the limits that they have, and coefficients in lists."""
    conditions = [
        {key: value for key, value in one.items() if value is not None}
        | {"coefficients": [list(pair) for pair in one["coefficients"]]}
        for one in wish.get("conditions", [])
    ]
    return wish | ({"conditions": conditions} if conditions else {})
