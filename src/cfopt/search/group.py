"""One change for many rows by trying changes, whatever the predictor: nothing is proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cfopt._typing import Array
from cfopt.clock import is_over

#: Called with a change u, it says in which rows the criterion holds: `(p,) -> (B,)`.
Holds = Callable[[Array], Any]
#: How far out to look, in doublings, and how often an interval is halved.
_DOUBLINGS, _HALVINGS = 12, 8
#: How many random steps pull an answer home, and how short they become before that is enough.
_STEPS, _SHORTEST = 200, 0.01
#: To which fractions single features are pulled back.
_PULLS = (0.0, 0.5, 0.8, 0.95)


def shared_search(
    holds: Holds,
    cost: Callable[[Array], float],
    allowed: Callable[[Array], Array],
    starts: Array,
    needed: int,
    deadline: float,
    seed: int = 0,
) -> Array | None:
    """A small change after which enough rows hold; None if none was found.

    Along each direction the shortest change that is enough is looked for, then the best of them is
    pulled home.

    Arguments:
        holds: the rows in which a change is enough.
        cost: what a change costs.
        allowed: the nearest allowed change, `(p,) -> (p,)`.
        starts: changes that are enough for some rows, `(S, p)`.
        needed: the number of rows in which it has to be enough.
        deadline: when to stop.
        seed: the seed of the random steps.
    """
    best: Array | None = None
    size = starts.shape[1]

    def enough(u: Array) -> bool:
        return not is_over(deadline) and int(holds(u).sum()) >= needed

    if enough(np.zeros(size)):
        return np.zeros(size)
    for direction in _directions(starts):
        if is_over(deadline):
            break
        limit = np.inf if best is None else cost(best)
        found = _along(direction, enough, allowed, cost, limit)
        if found is not None and cost(found) < limit:
            best = found
    if best is None:
        return None
    random, reach = np.random.default_rng(seed), 0.3
    for step in range(_STEPS):
        if is_over(deadline) or reach < _SHORTEST:
            break
        better = False
        for trial in _pulled(best, random, reach, step):
            trial = allowed(trial)
            if cost(trial) < cost(best) * (1 - 1e-9) and enough(trial):
                best, better = trial, True
        reach = min(1.0, 1.5 * reach) if better else 0.8 * reach
    return best


def _directions(starts: Array) -> Iterator[Array]:
    """What helps some rows, what helps them on average, and each feature alone."""
    if len(starts):
        yield starts.mean(axis=0)
        yield np.median(starts, axis=0)
        largest = np.abs(starts).argmax(axis=0)
        yield starts[largest, np.arange(starts.shape[1])]
        yield from starts
    for unit in np.eye(starts.shape[1]):
        yield unit
        yield -unit


def _along(
    direction: Array,
    enough: Callable[[Array], bool],
    allowed: Callable[[Array], Array],
    cost: Callable[[Array], float],
    limit: float,
) -> Array | None:
    """The shortest change along a direction that is enough, unless it costs more than a limit."""
    if not direction.any():
        return None
    low, high = 0.0, 1.0
    for _ in range(_DOUBLINGS):
        u = allowed(high * direction)
        if enough(u):
            break
        if cost(u) > limit:
            return None
        low, high = high, 2 * high
    else:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if enough(allowed(middle * direction)):
            high = middle
        else:
            low = middle
    return allowed(high * direction)


def _pulled(u: Array, random: np.random.Generator, reach: float, step: int) -> Iterator[Array]:
    """Changes a little nearer: one feature pulled back, or all of them and a random step aside."""
    j = step % len(u)
    for pull in _PULLS:
        if u[j] != 0:
            trial = u.copy()
            trial[j] *= pull
            yield trial
    aside = random.normal(size=len(u)) * np.linalg.norm(u) / np.sqrt(len(u))
    yield (1 - reach / 2) * u + reach * aside * (u != 0)
    yield (1 - reach / 4) * u + reach / 2 * aside
    yield (1 - reach) * u
