"""Proofs about ReLU networks: a tree of cases, each refuted by multipliers up to a radius."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.exact.certificate import Certificate, Clash, Cut
from cfopt.exact.geometry import Grid
from cfopt.exact.relu.region import Plane, Region
from cfopt.exact.relu.relaxation import (
    Inequalities,
    Intervals,
    Multipliers,
    Network,
    combined,
    tightened,
)
from cfopt.exact.relu.task import ReluTask
from cfopt.question.quantifier import Quantifier

#: Where decisions are not known exactly, a bound stands if what verification grants lowers it by no
#: more than this fraction.
_ROBUST = 0.01


@dataclass(frozen=True)
class Division:
    """Two cases: a neuron that is inactive or active; or a feature up to a whole number or above.

    Arguments:
        index: the number of the neuron in its layer, or of the feature.
        layer: the neuron's hidden layer; None for a feature.
        at: the largest whole number of the lower case, for a feature.
    """

    index: int
    layer: int | None = None
    at: int = 0


@dataclass(frozen=True)
class State:
    """What is known of the explanations of one case that are no farther than its radius.

    Arguments:
        region: where they are.
        intervals: what goes into the neurons there.
        bound: what they cost at least; inf if there are none.
    """

    region: Region
    intervals: Intervals
    bound: float = 0.0

    @classmethod
    def root(cls, network: Network, region: Region) -> State:
        """All cases."""
        return cls(region, tightened(network, Intervals.unknown(network), region, None))

    def after(self, network: Network, known: Inequalities, multipliers: Multipliers) -> State:
        """With what follows by multipliers: a bound, and narrower intervals beyond their plane."""
        return self.beyond(network, combined(network, self.intervals, known, multipliers))

    def beyond(self, network: Network, plane: Plane) -> State:
        """With what follows from a plane."""
        if not (np.isfinite(plane.slope).all() and np.isfinite(plane.level)):
            return self
        bound = max(self.bound, self.region.bound(plane))
        if bound == np.inf:
            return replace(self, bound=bound)
        intervals = tightened(network, self.intervals, self.region, plane)
        return State(self.region, intervals, np.inf if intervals.empty else bound)

    def case(
        self, network: Network, division: Division, above: bool, radius: float, grid: Grid | None
    ) -> State:
        """One of two cases, no farther than another radius."""
        region, intervals = self.region, self.intervals
        region = replace(region, radius=min(radius, region.radius))
        if division.layer is None:
            lower, upper = region.lower.copy(), region.upper.copy()
            assert grid is not None
            end = grid.change(division.index, division.at + above)
            if above:
                lower[division.index] = max(lower[division.index], end)
            else:
                upper[division.index] = min(upper[division.index], end)
            region = region.within(lower, upper)
        else:
            intervals = intervals.split(division.layer, division.index)[above]
        intervals = tightened(network, intervals, region, None)
        nothing = intervals.empty or bool((region.lower > region.upper).any())
        return State(region, intervals, np.inf if nothing else self.bound)


@dataclass(frozen=True)
class Node:
    """One case of the tree.

    Arguments:
        parent: the number of the case that it is part of; -1 for all cases together.
        above: which of its two parts.
        radius: up to which length of change it is looked at.
        steps: multipliers, each for what was known after those before.
        division: how it is divided further, if it is.
    """

    parent: int
    above: bool
    radius: float
    steps: tuple[Multipliers, ...]
    division: Division | None = None


@dataclass(frozen=True)
class ReluProof(Certificate[ReluTask]):
    """A tree of cases with multipliers: weak duality bounds each, whatever solver found them.

    Arguments:
        cuts: in the order in which multipliers refer to them.
        nodes: the cases, each after the one that it is part of.
        infeasible: whether they are said to prove that there is no explanation.
    """

    cuts: tuple[Cut, ...]
    nodes: tuple[Node, ...]
    infeasible: bool = False

    @classmethod
    def model(cls, task: Task) -> ReluTask | None:
        """The task as a network of changes."""
        return None if ReluTask.refusal(task) else ReluTask(task)

    def bound(self, model: ReluTask, row: int, some: Array | None = None) -> float:
        """The least bound of any case, computed again; inf if there is no explanation in any.

        `some` is the decision that is enough, where the proof is about that one alone.
        """
        if not self.nodes or not all(
            model.multiples(cut.quantifier) and not cut.ray and cut.belongs(model, row, some)
            for cut in self.cuts
        ):
            return 0.0
        known = model.inequalities(row, self.cuts)
        strict = self._least(model, row, known)
        if strict == 0 or (strict < np.inf and model.exact_decisions):
            return strict
        # That there is no explanation must hold of all that would be called valid.
        leeway = model.granted(row, self.cuts, self.nodes[0].radius)
        granting = self._least(model, row, replace(known, leeway=leeway))
        sound = strict < np.inf and granting >= (1 - _ROBUST) * strict
        return strict if sound else granting

    def _least(self, model: ReluTask, row: int, known: Inequalities) -> float:
        if not np.isfinite(known.leeway).all():
            return 0.0
        reach, power = model.reach(row), model.norm.power
        least = np.inf
        for state, whole in self._states(model, row, known):
            if whole:
                continue  # its cases speak for it
            if state.region.radius < reach:
                least = min(least, state.bound, state.region.radius**power)
            else:
                least = min(least, state.bound)
        return max(0.0, float(least))

    def _states(
        self, model: ReluTask, row: int, known: Inequalities
    ) -> Iterator[tuple[State, bool]]:
        """Each case with what is known of it, and whether both of its parts are cases as well."""
        network, grid = model.network(row), model.grid(row)
        parts: dict[int, set[bool]] = {}
        for node in self.nodes:
            parts.setdefault(node.parent, set()).add(node.above)
        states: list[State] = []
        for k, node in enumerate(self.nodes):
            if k == 0:
                state = State.root(network, model.region(row, node.radius))
            else:
                before = self.nodes[node.parent].division if 0 <= node.parent < k else None
                if before is None or not _possible(before, network, grid):
                    # Not a case of anything that was looked at: nothing follows.
                    yield State(model.region(row, 0.0), Intervals.unknown(network)), False
                    return
                state = states[node.parent].case(network, before, node.above, node.radius, grid)
            for step in node.steps:
                if state.bound == np.inf:
                    break
                fitting = _fitted(step, known, network)
                state = state if fitting is None else state.after(network, known, fitting)
            states.append(state)
            yield state, node.division is not None and len(parts.get(k, ())) == 2

    def decisions(self) -> list[Array]:
        """Those of the cuts, but for one that is enough, which the problem itself lists."""
        return [cut.decision for cut in self.cuts if cut.quantifier is not Quantifier.SOME]

    def clash(self, model: ReluTask, row: int) -> Clash:
        """The decisions whose cuts are used anywhere, and the limits on features."""
        counts = [len(model.inequalities(row, [cut]).directions) for cut in self.cuts]
        owners = np.repeat(np.arange(len(counts)), counts)
        steps = [step for node in self.nodes for step in node.steps]
        cuts = {int(owners[c]) for step in steps for c in np.flatnonzero(step.cuts > 0)}
        used = [self.cuts[k] for k in sorted(cuts)]
        rivals = [cut.decision for cut in used if cut.quantifier is not Quantifier.SOME]
        decisions = np.array(rivals).reshape(len(rivals), model.rules.factual.shape[1])
        domain = model.space.domain
        if domain is None:
            return Clash(decisions, (), (), np.inf)
        limits = domain.limits
        held = limits.immutable
        bounded = np.isfinite(limits.lower) | np.isfinite(limits.upper)
        names = limits.names
        sums = {int(c) for step in steps for c in np.flatnonzero(step.sums)}
        said = [domain.describe_sum(c) for c in sorted(sums)]
        said += [names[int(j)] for j in np.flatnonzero(bounded & ~held)]
        locked = tuple(names[int(j)] for j in np.flatnonzero(held))
        return Clash(decisions, tuple(said), locked, np.inf)


def _possible(division: Division, network: Network, grid: Grid | None) -> bool:
    """Whether there is nothing between two cases."""
    if division.layer is not None:
        layers = network.widths
        return 0 <= division.layer < len(layers) and 0 <= division.index < layers[division.layer]
    return grid is not None and bool(grid.integer[division.index])


def _fitted(step: Multipliers, known: Inequalities, network: Network) -> Multipliers | None:
    """Multipliers of a time when fewer cuts were known; None if they are not of this task."""
    missing = len(known.directions) - len(step.cuts)
    arrays = [step.cuts, step.sums, *step.slopes, *step.sides]
    widths = network.widths
    fits = (
        missing >= 0
        and len(step.sums) == len(known.sums)
        and tuple(map(len, step.slopes)) == tuple(map(len, step.sides)) == widths
        and all(np.isfinite(array).all() for array in arrays)
    )
    return replace(step, cuts=np.pad(step.cuts, (0, missing))) if fits else None
