"""Several options: answers to one question that differ in kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.clock import is_over
from cfopt.engine.task import Task
from cfopt.names import join_words
from cfopt.question.domain import Domain
from cfopt.question.proximity import L1
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status
from cfopt.result.wording import ANOTHER_PLAN
from cfopt.search import Enumeration

#: Contexts with more features than this leave all main features of earlier options as they are.
_MOST_FEATURES = 200
#: The fraction of the loss that the main features make up, where all change at once.
_MAIN = 0.5
#: How far apart options are at least, as a fraction of the first one's distance.
_APART = 0.5
#: From how many starts each further option is looked for, where options are a distance apart.
_STARTS = 3

#: Explains some rows of a task, which is the same but for where it may end or begin.
Explain = Callable[[Task, Tensor], Explanation]


def with_options(
    e: Explanation, task: Task, count: int, explain: Explain, deadline: float
) -> Explanation:
    """An explanation with up to `count` options for each row that has an answer.

    Where the criterion asks for some decision, and all can be listed, an option is the nearest
    answer in which another plan takes over: one that topples the factual decision and is no worse
    than the plans that take over in earlier options.

    Among other contexts, an option is the nearest answer that leaves at least one of the main
    features of every earlier option as it is. All that an option changes are its main features
    where few changes are asked for, by `max_changes` or L1; else the fewest that make up half of
    its loss. Large contexts such as images leave all main features of earlier options as they are,
    and so are a distance apart. Among codes, where nothing can be held, options are looked for from
    other starts, and are at least half as far from each other as the first is from the context.

    Arguments:
        e: the answers.
        task: what they answer.
        count: how many options a row may have.
        explain: explains rows of another task.
        deadline: when to look for no more options.
    """
    found = _Found(e, deadline)
    more = _sparing if task.space.latent is None else _apart
    if task.variation is None and not Enumeration().refusal(task):
        more = _by_plan
    more(found, task, count, explain)
    options = found.of_each_row()
    return replace(e, options=options, message=tuple(one.message[0] for one in options))


class _Found:
    """The options of each row, in the order in which they were found."""

    def __init__(self, first: Explanation, deadline: float) -> None:
        self._deadline = deadline
        self._parts = [first]
        self._words = list(first.message)
        #: For each row its options, by their numbers among all that were found.
        self._places = [[row] for row in range(len(first))]
        self.first = first

    def __len__(self) -> int:
        return len(self._places)

    def rounds(self, count: int) -> Iterator[int]:
        """As many rounds as there is time for, at most so many."""
        return takewhile(lambda _: not is_over(self._deadline), range(count))

    def count(self, row: int) -> int:
        """How many options a row has."""
        return len(self._places[row])

    def add(self, answers: Explanation, taken: dict[int, int], words: str) -> None:
        """Take some answers as options of rows: `{number among the answers: row}`.

        Arguments:
            words: what precedes their messages.
        """
        before = len(self._words)
        self._parts.append(answers)
        self._words += [f"{words}: {message}" for message in answers.message]
        for number, row in taken.items():
            self._places[row].append(before + number)

    def say(self, row: int, words: str) -> None:
        """Add words to the message of a row's last option."""
        self._words[self._places[row][-1]] += words

    def rename(self, number: int, words: str) -> None:
        """Say something of the last answers, by number."""
        place = len(self._words) - len(self._parts[-1]) + number
        self._words[place] = f"{words}: {self._parts[-1].message[number]}"

    def sort(self) -> None:
        """Put the options of each row in the order of their losses, the first apart."""
        loss = torch.cat([part.loss for part in self._parts]).tolist()
        self._places = [[own[0], *sorted(own[1:], key=loss.__getitem__)] for own in self._places]

    def distances(self, row: int, one: Explanation) -> Tensor:
        """How far a row's options are from another answer, `(K,)`."""
        near = one.asked.near(one.x)
        ends = torch.cat([part.ends[1] for part in self._parts])[self._places[row]]
        return near.length(near(ends, one.ends[1].expand_as(ends)))

    def of_each_row(self) -> tuple[Explanation, ...]:
        """The options of each row as an explanation of their own."""
        every = replace(Explanation.concat(self._parts), message=tuple(self._words))
        order = [place for own in self._places for place in own]
        return tuple(every[order].split([len(own) for own in self._places]))


def _sparing(found: _Found, task: Task, count: int, explain: Explain) -> None:
    """Add options that leave main features of earlier ones as they are."""
    domain = task.space.domain
    if domain is None:
        domain = Domain.unlimited(found.first.features, task.space.origin)
    name = cache(domain.unit_name)
    spared: list[tuple[frozenset[int], ...]] = [()] * len(found)
    rows = [row for row, one in enumerate(found.first.status) if one.is_found]
    latest = found.first[rows]
    for _ in found.rounds(count - 1):
        if not rows:
            return
        for row, units in zip(
            rows, _main_units(latest, task, domain[torch.tensor(rows)]), strict=True
        ):
            spared[row] = (*spared[row], units)
        other = replace(domain, spared=tuple(spared))
        if domain.limits.num_units > _MOST_FEATURES:
            held = torch.zeros(domain.origin.shape, dtype=torch.bool, device=domain.origin.device)
            for row in rows:
                held[row, sorted(k for units in spared[row] for k in units)] = True
            other = domain.holding(held[:, torch.from_numpy(domain.limits.unit).to(held.device)])
        asked = replace(task, space=replace(task.space, domain=other))
        answers = explain(asked, torch.tensor(rows))
        for i, row in enumerate(rows):
            if answers.status[i] is Status.PROVED_INFEASIBLE:
                found.say(row, "; no other option")
        good = [i for i in range(len(rows)) if answers.status[i].is_found]
        found.add(answers, {i: rows[i] for i in good}, "another way")
        changed = domain[torch.tensor(rows)].changed(answers.x).cpu().numpy()
        for i in good:
            earlier = {k for units in spared[rows[i]] for k in units}
            kept = [name(k) for k in sorted(earlier) if not changed[i, k]]
            found.rename(i, f"leaving {join_words(kept, most=4)} unchanged")
        rows, latest = [rows[i] for i in good], answers[good]


def _by_plan(found: _Found, task: Task, count: int, explain: Explain) -> None:
    """Add options in which other plans take over than in earlier ones."""
    problem, listed = task.rules.problem, task.rules.problem.decisions()
    assert listed is not None  # as `Enumeration` has made sure
    passed: list[Array] = [np.empty((0, problem.num_columns))] * len(found)
    rows = [row for row, one in enumerate(found.first.status) if one.is_found]
    latest = found.first[rows]
    for _ in found.rounds(count - 1):
        if not rows:
            return
        values = problem.sense.sign * problem.prices(latest.costs).double().cpu() @ listed.T
        for row, value in zip(rows, values.numpy(), strict=True):
            open_plans = np.ones(len(listed), dtype=bool)
            for plan in passed[row]:
                open_plans &= (listed.numpy() != plan).any(axis=1)
            best = listed.numpy()[np.where(open_plans, value, np.inf).argmin()]
            passed[row] = np.concatenate([passed[row], best[None]])
        rules = replace(task.rules, passed_over=tuple(passed))
        answers = explain(replace(task, rules=rules), torch.tensor(rows))
        for i, row in enumerate(rows):
            if answers.status[i] is Status.PROVED_INFEASIBLE:
                found.say(row, "; no other option")
        good = [i for i in range(len(rows)) if answers.status[i].is_found]
        found.add(answers, {i: rows[i] for i in good}, ANOTHER_PLAN)
        rows, latest = [rows[i] for i in good], answers[good]


def _main_units(e: Explanation, task: Task, domain: Domain) -> list[frozenset[int]]:
    """The features that carry each answer: all that changed, or those that make up half the loss.

    Arguments:
        domain: the domain of these rows.
    """
    changed = domain.changed(e.x).cpu().numpy()
    if domain.limits.max_changes is not None or isinstance(task.space.proximity, L1):
        return [frozenset(np.flatnonzero(one).tolist()) for one in changed]
    units = task.space.proximity.units(e.x[0].numel())
    moved = (e.x - e.x0).flatten(1).double().cpu().numpy() / units
    of_units = np.eye(domain.limits.num_units)[domain.limits.unit]
    found = []
    for parts in (moved**2) @ of_units * changed:
        order = np.argsort(-parts, kind="stable")
        needed = int(np.searchsorted(np.cumsum(parts[order]), _MAIN * parts.sum())) + 1
        found.append(frozenset(order[:needed].tolist()))
    return found


def _apart(found: _Found, task: Task, count: int, explain: Explain) -> None:
    """Add options that are found from elsewhere, and a distance apart from earlier ones."""
    generator = torch.Generator().manual_seed(0)
    first, home = found.first, task.space.home
    rows = [row for row, one in enumerate(first.status) if one.is_found]
    for _ in found.rounds((count - 1) * _STARTS):
        rows = [row for row in rows if found.count(row) < count]
        if not rows:
            break
        noise = torch.randn(home.shape, generator=generator, dtype=torch.float64).to(home)
        start = home.clone()
        for row in rows:
            point = first.x[row] if first.z is None else first.z[row]
            size = (point - home[row]).norm() / noise[row].norm()
            start[row] = home[row] + 2 * size * noise[row]
        answers = explain(task.starting_at(start), torch.tensor(rows))
        taken = {}
        for i, row in enumerate(rows):
            least = _APART * float(first.distance[row])
            away = found.distances(row, answers[i])
            if answers.status[i].is_found and bool((away >= least).all()):
                taken[i] = row
        found.add(answers, taken, "a distance apart from the others")
    found.sort()
