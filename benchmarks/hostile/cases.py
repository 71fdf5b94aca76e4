"""Random cases of the hostile trial: a question, a predictor, what is asked besides, and a norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import cfopt
from benchmarks.hostile.instances import (
    FAMILIES,
    PROBLEMS,
    Array,
    draw_model,
    draw_wish,
    predicted,
)

PLANS, EPSILONS = ("relative", "absolute"), ("epsilon 0.05", "epsilon 0.5", "epsilon 2")
QUESTIONS = (*PLANS, *EPSILONS, "wish for one entry", "wish for several", "group", "prices")
MODIFIERS = ("margin", "ball", "models", "one change", "two changes", "options", *["plain"] * 4)
LIMITS = ("bounds", "fixed", "way", "one-hot", "integer", "sum")
NORMS = {1: cfopt.L1, 2: cfopt.L2, np.inf: cfopt.LInf}
#: Contexts of a case; the limit of time that some have, which none of them needs.
ROWS, TIME_LIMIT = 3, 600.0


@dataclass(frozen=True)
class Limits:
    """What contexts may be, as plain arrays; `features` says the same to cfopt."""

    lower: Array
    upper: Array
    fixed: NDArray[np.bool_]
    rise: NDArray[np.bool_]
    fall: NDArray[np.bool_]
    whole: tuple[int, ...] = ()
    group: tuple[int, ...] = ()
    total: float = np.inf  # an upper limit of the sum of all features
    most: int | None = None

    def features(self, scale: Array | None) -> cfopt.Features:
        ones = [1.0] * len(self.lower)
        return cfopt.Features(
            scale=None if scale is None else scale.tolist(),
            lower={j: v for j, v in enumerate(self.lower) if np.isfinite(v)},
            upper={j: v for j, v in enumerate(self.upper) if np.isfinite(v)},
            immutable=np.flatnonzero(self.fixed).tolist(),
            only_increase=np.flatnonzero(self.rise).tolist(),
            only_decrease=np.flatnonzero(self.fall).tolist(),
            integer=self.whole,
            one_hot=[self.group] if self.group else [],
            linear=[cfopt.LinearLimit(ones, upper=self.total)] if self.total < np.inf else [],
            max_changes=self.most,
        )


@dataclass(frozen=True)
class Case:
    """Some rows of one question; what a seed and a number determine.

    Arguments:
        model, others: the predictor, and further ones that answers have to be robust to.
        listed: every plan, `(D, m)`, listed without the problem.
        wanted: the numbers of the plans that each row argues for.
        foil: the same as a wish, if it is one.
        radius, ball: of a ball, how far contexts may be off and in which norm.
        relative: whether it is to beat the factual plan, rather than all.
        share: of a group, in how many of the rows the criterion has to hold.
        limited: whether the call has a limit of time.
        informed: whether known contexts are passed as a reference.
    """

    seed: int
    number: int
    question: str
    family: str
    modifier: str
    model: Any
    others: tuple[Any, ...]
    problem: cfopt.Problem
    listed: Array
    x0: Array
    known: Array
    limits: Limits
    scale: Array | None
    norm: float
    wanted: list[list[int]]
    foil: cfopt.Foil | None
    epsilon: float
    relative: bool
    margin: float
    radius: float
    ball: float
    options: int
    share: float
    limited: bool
    informed: bool
    threads: int

    @property
    def answers(self) -> int:
        """How many answers are judged: one for each row, or for a group."""
        return 1 if self.question == "group" else len(self.x0)

    @property
    def words(self) -> str:
        limits = {k: v for k, v in vars(self.limits.features(self.scale)).items() if v}
        asked = f"margin {self.margin:g}, Ball({self.radius:g}, L{self.ball:g}), {limits}"
        return (
            f"{self.question}, {self.family}, {self.modifier}, {type(self.problem).__name__}, "
            f"L{self.norm:g}, {asked}"
        )

    @property
    def criterion(self) -> cfopt.Criterion:
        if self.epsilon:
            return cfopt.Epsilon(self.epsilon)
        kind = cfopt.Relative if self.relative else cfopt.Absolute
        if self.foil is not None:
            return kind(self.foil)
        return kind(torch.from_numpy(self.listed[[plans[0] for plans in self.wanted]]))

    def ask(self) -> cfopt.Explanation | cfopt.GroupExplanation:
        """What cfopt says."""
        pipeline, x0 = cfopt.Pipeline(self.model, self.problem), torch.from_numpy(self.x0)
        more: dict[str, Any] = {
            "proximity": NORMS[self.norm](),
            "features": self.limits.features(self.scale),
            "margin": self.margin,
            "time_limit": TIME_LIMIT if self.limited else None,
        }
        if self.question == "group":
            return cfopt.explain_group(x0, pipeline, self.criterion, share=self.share, **more)
        if self.radius:
            more["robust"] = cfopt.Ball(self.radius, norm=NORMS[self.ball]())
        if self.question == "prices":
            return cfopt.explain_costs(x0, self.problem, self.criterion, **more)
        if self.others:
            more["robust"] = cfopt.Models(list(self.others))
        reference = torch.from_numpy(self.known) if self.informed else None
        return cfopt.explain(
            x0, pipeline, self.criterion, reference=reference, options=self.options, **more
        )


def make_case(seed: int, number: int) -> Case:
    """The case of a seed and a number: its question and family go round, the rest is drawn."""
    rng = np.random.default_rng([seed, number])
    question = QUESTIONS[number % len(QUESTIONS)]
    family = FAMILIES[number // len(QUESTIONS) % len(FAMILIES)]
    modifier = str(rng.choice(MODIFIERS))
    group, prices = question == "group", question == "prices"
    if (group or prices) and modifier in ("ball", "models", "options"):
        modifier = "ball" if prices and modifier == "ball" else "plain"
    problem, listed = PROBLEMS[rng.integers(len(PROBLEMS))](rng)
    size = listed.shape[1] if prices else int(rng.integers(2, 4))
    known = rng.normal(size=(60, size)).round(2)
    limits = _limits(rng, known, modifier, plain=group or prices)
    x0 = known[:ROWS].copy()
    model = torch.nn.Identity() if prices else draw_model(rng, family, known, listed.shape[1])
    other = (draw_model(rng, family, known, listed.shape[1]),) if modifier == "models" else ()
    scale = rng.uniform(0.3, 3, size).round(2) if rng.random() < 0.5 else None
    foil, wanted = None, _wanted(rng, problem.sense.sign * predicted(model, known) @ listed.T)
    if "wish" in question:
        foil, plans = draw_wish(rng, listed, several="several" in question)
        wanted = [plans for _ in x0]
    return Case(
        seed,
        number,
        question,
        "identity" if prices else family,
        modifier,
        model,
        other,
        problem,
        listed,
        x0,
        known,
        limits,
        scale,
        float(rng.choice([1, 2, 2, np.inf])),
        wanted,
        foil,
        float(question.split()[1]) if "epsilon" in question else 0.0,
        question == "relative" or (question != "absolute" and rng.random() < 0.3),
        0.05 if modifier == "margin" else 0.0,
        0.1 if modifier == "ball" else 0.0,
        float(rng.choice([1, 2, 2, np.inf])),
        2 if modifier == "options" else 1,
        float(rng.choice([0.5, 1.0])),
        bool(rng.random() < 0.3),
        # Scales are given with a reference, so that they do not follow from it.
        scale is not None and bool(rng.random() < 0.5),
        int(rng.integers(1, 3)),
    )


def _limits(rng: np.random.Generator, known: Array, modifier: str, plain: bool) -> Limits:
    """Random limits; the known contexts are made to keep them."""
    size = known.shape[1]
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    fixed, rise, fall = np.zeros((3, size), dtype=bool)
    whole: tuple[int, ...] = ()
    group: tuple[int, ...] = ()
    total = np.inf
    kinds = {*rng.choice(LIMITS[:3] if plain else LIMITS, rng.integers(0, 3), replace=False)}
    if "one-hot" in kinds and size == 3:
        group = (0, 1)
        known[:, :2] = np.eye(2)[rng.integers(2, size=len(known))]
    free = [j for j in range(size) if j not in group]
    if "integer" in kinds:
        whole = (free.pop(),)
        lower[[*whole]], upper[[*whole]] = -2.0, 2.0
        known[:, whole] = known[:, whole].round().clip(-2, 2)
    if "bounds" in kinds:
        lower[free], upper[free] = -rng.uniform(0.5, 3), rng.uniform(0.5, 3)
        known[:, free] = known[:, free].clip(lower[free], upper[free])
    if "fixed" in kinds and size > 2 and free:
        fixed[free[0]] = True
    if "way" in kinds and free:
        (rise if rng.random() < 0.5 else fall)[free[-1]] = True
    if "sum" in kinds:
        total = float(known[:ROWS].sum(axis=1).max() + rng.uniform(0, 2))
    most = {"one change": 1, "two changes": 2}.get(modifier)
    return Limits(lower, upper, fixed, rise, fall, whole, group, total, most)


def _wanted(rng: np.random.Generator, values: Array) -> list[list[int]]:
    """A plan for each row other than its own; mostly one that is best in a known context."""
    best = values.argmin(axis=1)
    found = []
    for own in best[:ROWS]:
        some = np.unique(best) if rng.random() < 0.7 else np.arange(values.shape[1])
        if (some == own).all():
            some = np.arange(values.shape[1])
        found.append([int(rng.choice(some[some != own]))])
    return found
