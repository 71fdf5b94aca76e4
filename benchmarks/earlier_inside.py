"""Run groups of measurements with whichever cfopt is on the path, and note every question asked.

`earlier.py` runs this file with two trees. It listens at `cfopt.explain`, so that no group has to
hand anything over: what a group asks, in whatever way it times that itself, is noted here with its
CPU seconds and what was found. The same question asked again counts once, with its least time.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

import cfopt

_NORMS = {"L1": 1, "LInf": np.inf}


@dataclass
class Asked:
    """A question as it was asked and answered: a list has an entry for each row.

    Arguments:
        name: the table that it is for, and the question in a few words.
        seconds: the CPU seconds it took, the least of several times.
        found, proved: whether there is a valid answer, and a proof of its distance or that there
            is none.
        distance: how far the answer is in units of the scales.
    """

    name: str
    seconds: float
    found: list[bool]
    proved: list[bool]
    distance: list[float]


@dataclass
class Listener:
    """Notes what is asked; as a group's `record` it learns for which table that was."""

    asked: dict[str, Asked] = field(default_factory=dict)
    _variants: dict[str, list[str]] = field(default_factory=dict)
    _new: list[Asked] = field(default_factory=list)

    def __call__(self, table: str, lines: list[dict[str, Any]]) -> None:
        for one in self._new:
            one.name = f"{table}: {one.name}"
        self._new.clear()

    def listening(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, each call of which is noted."""

        def heard(x0: Any, *given: Any, **more: Any) -> Any:
            began = time.process_time()
            e = ask(x0, *given, **more)
            seconds = time.process_time() - began
            self._note(e, seconds, ask.__name__, more)
            return e

        return heard

    def _note(self, e: Any, seconds: float, how: str, more: dict[str, Any]) -> None:
        e = getattr(e, "explanation", e)  # of a group, its rows
        words = _words(e, how, more)
        content = hashlib.sha256(words.encode())
        for one in (e.x0, e.factual, getattr(e.criterion, "alternative", None)):
            if isinstance(one, torch.Tensor):
                content.update(one.detach().cpu().contiguous().numpy().tobytes())
        # How else it was asked counts by its turn: a setting may be written otherwise elsewhere.
        variants = self._variants.setdefault(content.hexdigest(), [])
        if (setting := repr(sorted(more.items()))) not in variants:
            variants.append(setting)
        key = f"{content.hexdigest()}-{variants.index(setting)}"
        known = self.asked.get(key)
        if known is not None:
            known.seconds = min(known.seconds, seconds)
            return
        hopeless = [str(status) == "proved infeasible" for status in e.status]
        proved = [a or b for a, b in zip(e.optimal.tolist(), hopeless, strict=True)]
        found = Asked(words, seconds, e.valid.tolist(), proved, _distances(e, more))
        self.asked[key] = found
        self._new.append(found)


def _words(e: Any, how: str, more: dict[str, Any]) -> str:
    """A question in a few words: whose answers are compared, and whose times."""
    criterion, problem = e.criterion, type(e.problem).__name__
    named = [type(criterion).__name__]
    named += ["a wish"] if getattr(criterion, "foil", None) is not None else []
    if hasattr(criterion, "epsilon"):
        named.append(f"{criterion.epsilon:g}")
    named += [type(one).__name__ for name in ("search", "proximity") if (one := more.get(name))]
    robust = more.get("robust") or []
    named += [type(one).__name__ for one in (robust if isinstance(robust, list) else [robust])]
    if (features := more.get("features")) is not None and features.max_changes is not None:
        named.append(f"{features.max_changes} changes")
    named += [f"{more[name]} {name}" for name in ("options", "margin") if more.get(name)]
    named += [name for name in ("reference", "generative") if more.get(name) is not None]
    where = "" if how == "explain" else f" ({how})"
    size = "x".join(map(str, e.x0.shape[1:]))
    return f"{problem}, {size} features: {', '.join(named)}{where}"


def _distances(e: Any, more: dict[str, Any]) -> list[float]:
    """In units of the scales given, by the norm asked for, whatever the tree calls a distance."""
    change = (e.x - e.x0).detach().double().flatten(1).cpu().numpy()
    scale = getattr(more.get("features"), "scale", None)
    scale = 1.0 if scale is None else np.array(scale)
    norm = _NORMS.get(type(e.asked.proximity).__name__, 2)
    found: list[float] = np.linalg.norm(change / scale, ord=norm, axis=1).tolist()
    return found


def run(groups: list[str]) -> dict[str, Any]:
    """What each group asked, or why it does not run with this tree."""
    listener = Listener()
    for name in ("explain", "explain_costs", "explain_group"):
        setattr(cfopt, name, listener.listening(getattr(cfopt, name)))
    found: dict[str, Any] = {}
    for group in groups:
        listener.asked = {}
        try:
            measures = importlib.import_module("benchmarks.__main__").GROUPS
            if group not in measures:
                found[group] = f"the groups that can be compared are {', '.join(measures)}"
                continue
            measures[group](listener)
            found[group] = {key: asdict(one) for key, one in listener.asked.items()}
        except (ImportError, AttributeError, TypeError) as error:  # the API was another one
            found[group] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, sys.stderr  # what groups print is not the answer
    json.dump(run(sys.argv[1:]), answers)
