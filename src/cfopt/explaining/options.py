"""Several options: answers to one question that differ in kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cfopt.engine.task import Task
from cfopt.names import join_words
from cfopt.question.domain import Domain
from cfopt.question.proximity import L1
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status

#: Contexts with more features than this leave all main features of earlier options as they are.
_MOST_FEATURES = 200
#: Which part of the loss the main features make up, where all change at once.
_MAIN = 0.5
#: How far apart options are at least, as a part of the first one's distance.
_APART = 0.5
#: From how many starts each further option is looked for, where options are a distance apart.
_STARTS = 3

#: Explains some rows of a task, which is the same but for where it may end or begin.
Explain = Callable[[Task, Tensor], Explanation]


def with_options(e: Explanation, task: Task, count: int, explain: Explain) -> Explanation:
    """An explanation with up to `count` options for each row that has an answer.

    Among contexts, an option is the nearest answer that leaves at least one of the main features
    of every earlier option as it is. All that an option changes are its main features where few
    changes are asked for, by `max_changes` or L1; else the fewest that make up half of its loss.
    Large contexts such as images leave all main features of earlier options as they are, and so are
    a distance apart. Among codes, where nothing can be held, options are looked for from other
    starts, and are at least half as far from each other as the first is from the context.

    Arguments:
        e: the answers.
        task: what they answer.
        count: how many options a row may have.
        explain: explains rows of another task.
    """
    found = [[e[row]] for row in range(len(e))]
    more = _sparing if task.space.latent is None else _apart
    more(found, task, count, explain)
    options = tuple(Explanation.concat(list(rows)) for rows in found)
    return replace(e, options=options, message=tuple(one.message[0] for one in options))


def _sparing(found: list[list[Explanation]], task: Task, count: int, explain: Explain) -> None:
    """Add options that leave main features of earlier ones as they are."""
    domain = task.space.domain
    if domain is None:
        domain = Domain.unlimited(found[0][0].features, task.space.origin)
    spared: list[tuple[frozenset[int], ...]] = [()] * len(found)
    rows = [row for row, options in enumerate(found) if options[0].status[0] is Status.VALID]
    for _ in range(count - 1):
        for row in rows:
            spared[row] = (*spared[row], _main_units(found[row][-1], task, domain, row))
        if not rows:
            return
        other = replace(domain, spared=tuple(spared))
        if domain.limits.num_units > _MOST_FEATURES:
            held = torch.zeros(domain.origin.shape, dtype=torch.bool, device=domain.origin.device)
            for row in rows:
                held[row, sorted(k for units in spared[row] for k in units)] = True
            other = domain.holding(held[:, torch.from_numpy(domain.limits.unit).to(held.device)])
        asked = replace(task, space=replace(task.space, domain=other))
        answers = explain(asked, torch.tensor(rows))
        going = []
        for i, row in enumerate(rows):
            one = answers[i]
            if one.status[0] is Status.VALID:
                kept = [domain.unit_name(k) for k in sorted(_still(one, task, domain, row, spared))]
                words = f"leaving {join_words(kept, most=4)} unchanged: {one.message[0]}"
                found[row].append(replace(one, message=(words,)))
                going.append(row)
            elif one.status[0] is Status.PROVED_INFEASIBLE:
                last = found[row][-1]
                found[row][-1] = replace(last, message=(f"{last.message[0]}; no other option",))
        rows = going


def _main_units(one: Explanation, task: Task, domain: Domain, row: int) -> frozenset[int]:
    """The features that carry an answer: all that changed, or those that make up half the loss."""
    place = torch.tensor([row])
    changed = domain[place].changed(one.x)[0].cpu().numpy()
    if domain.limits.max_changes is not None or isinstance(task.space.proximity, L1):
        return frozenset(np.flatnonzero(changed).tolist())
    units = task.space.proximity.units(one.x[0].numel())
    moved = (one.x - one.x0).flatten().double().cpu().numpy() / units
    parts = np.bincount(domain.limits.unit, moved**2, domain.limits.num_units) * changed
    order = np.argsort(-parts, kind="stable")
    needed = int(np.searchsorted(np.cumsum(parts[order]), _MAIN * parts.sum())) + 1
    return frozenset(order[:needed].tolist())


def _still(
    one: Explanation,
    task: Task,
    domain: Domain,
    row: int,
    spared: list[tuple[frozenset[int], ...]],
) -> set[int]:
    """The main features of earlier options that an answer leaves as they were."""
    changed = domain[torch.tensor([row])].changed(one.x)[0].tolist()
    return {k for units in spared[row] for k in units if not changed[k]}


def _apart(found: list[list[Explanation]], task: Task, count: int, explain: Explain) -> None:
    """Add options that are found from elsewhere, and a distance apart from earlier ones."""
    generator = torch.Generator().manual_seed(0)
    rows = [row for row, options in enumerate(found) if options[0].status[0] is Status.VALID]
    home = task.space.home
    for _ in range((count - 1) * _STARTS):
        rows = [row for row in rows if len(found[row]) < count]
        if not rows:
            return
        noise = torch.randn(home.shape, generator=generator, dtype=torch.float64).to(home)
        start = home.clone()
        for row in rows:
            first = found[row][0]
            point = first.x[0] if first.z is None else first.z[0]
            size = (point - home[row]).norm() / noise[row].norm()
            start[row] = home[row] + 2 * size * noise[row]
        answers = explain(task.starting_at(start), torch.tensor(rows))
        for i, row in enumerate(rows):
            one = answers[i]
            least = _APART * float(found[row][0].distance[0])
            near = [float((one.x - other.x).norm()) < least for other in found[row]]
            if one.status[0] is Status.VALID and not any(near):
                words = f"a distance apart from the others: {one.message[0]}"
                found[row].append(replace(one, message=(words,)))
    for row, options in enumerate(found):
        found[row] = [options[0], *sorted(options[1:], key=lambda one: float(one.loss[0]))]
