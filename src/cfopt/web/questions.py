"""The questions of the explorer: those of all criteria there are, in their own words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import Tensor

from cfopt import registry
from cfopt.app.schema import settings_of
from cfopt.errors import InputError
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
            "knobs": [asdict(knob) for knob in kind.knobs],
        }
        for kind in sorted(known, key=lambda one: not one.contrasts)
        for title, more in [kind.choice(noun)]
    ]


def criterion_of(asked: Question, alternative: Tensor | None) -> Criterion:
    """The criterion of a request.

    Arguments:
        asked: its kind and settings.
        alternative: the decision that it names, `(1, m)`, if any.
    """
    kind: type[Criterion] = registry.criteria.find(asked.kind)
    name, settings = kind.kind().lower(), asked.model_extra or {}
    if kind.contrasts and alternative is None:
        raise InputError(f"A question of kind {name} needs an alternative.")
    if alternative is not None and not kind.contrasts:
        raise InputError(f"A question of kind {name} has no alternative.")
    table = settings_of(kind, skip=kind.row_fields())
    for key in settings:
        if key not in table.known_keys():
            raise InputError(f"A question of kind {name} has no {key}.")
    return kind.of(table.read(settings).given(), alternative)
