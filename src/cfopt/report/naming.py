"""What decisions are called, also where their problem is not known."""

from __future__ import annotations

from cfopt._typing import Array
from cfopt.problems.base import Problem
from cfopt.problems.scene import Bars


def noun(problem: Problem | None) -> str:
    """What a decision of the problem is: "route", "selection" or "decision"."""
    return Bars.noun if problem is None else problem.cached_scene.noun


def decision_name(problem: Problem | None, decision: Array, beside: Array | None = None) -> str:
    """A decision in a few words, as `Scene.name_of` says it: `(m,) -> str`."""
    scene = Bars.unnamed(len(decision)) if problem is None else problem.cached_scene
    return scene.name_of(decision, beside)
