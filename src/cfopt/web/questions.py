"""The questions that the page offers: those of all criteria there are, in their own words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cfopt import registry


def questions(noun: str) -> list[dict[str, Any]]:
    """What can be asked, first the questions about an alternative.

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
