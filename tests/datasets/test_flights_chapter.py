"""docs/flights.md: its code is run, and each sentence is checked by listing plans and cells."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.datasets.test_flights import all_plans

from cfopt._typing import Array
from cfopt.datasets import flights

ROOT = Path(__file__).parents[2]
CHAPTER = (ROOT / "docs" / "flights.md").read_text()
PLANS = all_plans()
#: The most that each of an airport's humidity, wind and rain can be, and a usual change.
MOST, USUAL = np.array([100.0, 30.0, 3.0] * 3), np.array([15.0, 4.0, 0.25] * 3)
HUMIDITY_AT_JFK, WIND_AT_EWR = 3, 1


def plan(text: str) -> Array:
    """A plan by its slots."""
    slots = [f"{airport} at {hour}" for hour in (6, 10, 14, 18) for airport in flights.AIRPORTS]
    taken = re.findall(r"[A-Z]{3} at \d+", text)
    assert len(taken) == 4
    return np.array([float(slot in taken) for slot in slots])


DECIDED = plan("JFK at 6, LGA at 10, JFK at 14 and LGA at 18")
WANTED = plan("LGA at 6, JFK at 10, JFK at 14 and LGA at 18")
RIVAL = plan("LGA at 6, LGA at 10, JFK at 14 and JFK at 18")
NEVER = plan("EWR at 6, LGA at 10, EWR at 14 and LGA at 18")
HINDSIGHT = plan("JFK at 6, LGA at 10, LGA at 14 and EWR at 18")


class Day:
    """12 June, and the forest as scikit-learn fits it; everything by listing."""

    def __init__(self) -> None:
        known, new = flights.load().split()
        self.forest = flights.forest().fit(known.contexts, known.delays)
        self.names = list(new.contexts.columns)
        self.x0 = new.contexts.loc["2013-06-12"].to_numpy()
        self.real = new.delays.loc["2013-06-12"].to_numpy()
        trees = [one.tree_ for one in self.forest.estimators_]
        #: What the forest compares each of the nine weathers with, in the precision it uses.
        self.edges = [
            np.unique(np.concatenate([t.threshold[t.feature == j] for t in trees]))
            for j in range(9)
        ]

    def predict(self, x: Array) -> Array:
        costs: Array = self.forest.predict(pd.DataFrame(x, columns=self.names))
        return costs

    def values(self, x: Array) -> Array:
        """What each plan costs: `(N, 11) -> (N, 54)`."""
        return self.predict(x) @ PLANS.T

    def changed(self, features: tuple[int, ...], cells: Array) -> Array:
        """The day with some features at other values: `(N, k) -> (N, 11)`."""
        x = np.tile(self.x0, (len(cells), 1))
        x[:, list(features)] = cells
        return x

    def one_in_each_cell(self, j: int) -> Array:
        """A value between each two thresholds of a feature, within its limits."""
        ends = np.concatenate([[0.0], self.edges[j][self.edges[j] < MOST[j]], [MOST[j]]])
        middles: Array = (ends[1:] + ends[:-1]) / 2
        return middles

    def nearer_cells(self, radius: float) -> Array:
        """A point in each cell whose distance, squared, in usual changes, is less: `(N, 9)`."""
        points, lost = np.zeros((1, 0)), np.zeros(1)
        for j in range(9):
            ends = np.concatenate([[0.0], self.edges[j][self.edges[j] < MOST[j]], [MOST[j]]])
            low, high = ends[:-1], ends[1:]
            away = np.maximum(0.0, np.maximum(low - self.x0[j], self.x0[j] - high)) / USUAL[j]
            lost = (lost[:, None] + away**2).reshape(-1)
            middle = (low + high) / 2
            points = np.concatenate(
                [np.repeat(points, len(middle), axis=0), np.tile(middle, len(points))[:, None]],
                axis=1,
            )
            points, lost = points[lost < radius], lost[lost < radius]
        return points


@pytest.fixture(scope="module")
def day() -> Day:
    return Day()


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the chapter's code computes."""
    module = ModuleType("chapter")
    sys.modules["chapter"] = module
    folder = tmp_path_factory.mktemp("chapter")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for snippet in CHAPTER.split("```python\n")[1:]:
            exec(compile(snippet.split("```")[0], "docs/flights.md", "exec"), module.__dict__)
    assert (folder / "why.png").is_file()
    return module


def cost(values: Array, of: Array) -> Array:
    found: Array = values[..., (of == PLANS).all(axis=1)][..., 0]
    return found


def says(sentence: str) -> None:
    assert sentence in CHAPTER, sentence


def test_the_plan_and_what_it_saves_are_as_told(day: Day, chapter: Any) -> None:
    costs, values = day.predict(day.x0[None])[0], day.values(day.x0[None])[0]
    assert np.array_equal(PLANS[values.argmin()], DECIDED)
    assert np.array_equal(chapter.plan.numpy(), DECIDED)
    weather = dict(zip(day.names, day.x0, strict=True))
    assert all(weather[f"rain at {airport} (in)"] == 0 for airport in flights.AIRPORTS)
    assert all(
        weather[f"wind at {one} (mph)"] > np.quantile(chapter.known.contexts.iloc[:, k], 0.75)
        for one, k in (("EWR", 1), ("JFK", 4), ("LGA", 7))
    )
    assert weather["weekday"] == 3
    says("a dry and windy Wednesday")
    says(f"with a predicted delay of {values.min():.1f} minutes in all")
    _, jfk, lga = costs[:3]
    says(f"LGA is predicted to be {lga:.1f} minutes late then, JFK {jfk:.1f}")
    says(f"by {costs[4] - costs[5]:.1f} minutes at 10, and by {costs[10] - costs[11]:.1f} minutes")
    from_lga = PLANS[:, 2] == 1
    assert np.array_equal(PLANS[from_lga][values[from_lga].argmin()], WANTED)
    says(f"takes {values[from_lga].min():.1f} minutes")
    assert (np.sort(values)[1:3] < values.min() + 0.5).all()
    assert np.sort(values)[3] > values.min() + 0.5
    says("the two next plans are within half a minute")


def test_the_weather_that_changes_the_plan_is_the_nearest_of_all_cells(
    day: Day, chapter: Any
) -> None:
    x = chapter.answer.frame.to_numpy()
    values = day.values(x)[0]
    assert cost(values, WANTED) <= values.min() * (1 + 1e-6)
    moved = np.flatnonzero(x[0] != day.x0)
    assert moved.tolist() == [WIND_AT_EWR, HUMIDITY_AT_JFK]
    says(
        f"With a humidity of {x[0, HUMIDITY_AT_JFK]:.1f}% at JFK in place of "
        f"{day.x0[HUMIDITY_AT_JFK]:.1f}%, and a wind of {x[0, WIND_AT_EWR]:.1f} mph at EWR in "
        f"place of {day.x0[WIND_AT_EWR]:.1f} mph"
    )
    lost = float((((x[0] - day.x0)[:9] / USUAL) ** 2).sum())
    assert chapter.answer.optimal[0]
    # A step that is lost in rounding lies between an answer and the edge of its cell.
    cells = day.nearer_cells(lost * (1 - 1e-6))
    assert len(cells) > 10_000
    values = day.values(day.changed(tuple(range(9)), cells))
    assert (cost(values, WANTED) > values.min(axis=1) * (1 + 1e-6)).all()


def test_both_changes_are_needed_and_the_answer_is_narrow(day: Day, chapter: Any) -> None:
    x = chapter.answer.frame.to_numpy()[0]
    for feature in (HUMIDITY_AT_JFK, WIND_AT_EWR):
        alone = day.changed((feature,), x[[feature]][None])
        assert np.array_equal(PLANS[day.values(alone)[0].argmin()], DECIDED)
    says("with one of them alone, the plan stays as it was")
    edges = day.edges[HUMIDITY_AT_JFK]
    above = edges[edges > x[HUMIDITY_AT_JFK]]
    both = (HUMIDITY_AT_JFK, WIND_AT_EWR)
    # One humidity in each cell from the answer's own on.
    cells = [((low + high) / 2, x[WIND_AT_EWR]) for low, high in itertools.pairwise(above)]
    cells.insert(0, (x[HUMIDITY_AT_JFK], x[WIND_AT_EWR]))
    best = PLANS[day.values(day.changed(both, np.array(cells))).argmin(axis=1)]
    still = (best == WANTED).all(axis=1)
    left = int(still.argmin())  # the first that is not
    assert not still[left:].any()
    assert (best[left:] == RIVAL).all()
    says(f"may be at most {above[left - 1] - x[HUMIDITY_AT_JFK]:.1f} points higher; beyond, the")
    says("best plan is LGA at 6, LGA at 10, JFK at 14 and JFK at 18")


def test_the_weather_at_jfk_alone_cannot_do_it_and_makes_only_few_plans_the_best(
    day: Day, chapter: Any
) -> None:
    assert chapter.only_jfk.status[0] == "proved infeasible"
    jfk = (3, 4, 5)
    cells = np.array(list(itertools.product(*(day.one_in_each_cell(j) for j in jfk))))
    values = day.values(day.changed(jfk, cells))
    assert (cost(values, WANTED) > values.min(axis=1)).all()
    better = cost(values, WANTED) <= cost(values, DECIDED)
    assert better.any()
    assert (cost(values, RIVAL) < cost(values, WANTED))[better].all()
    says(
        "Whenever it beats the plan of the day, LGA at 6, LGA at 10, JFK at 14 and JFK at 18 beats"
    )
    says(f"can make only {len(np.unique(values.argmin(axis=1)))} the best")


def test_in_every_weather_another_plan_is_better_than_the_one_with_newark(
    day: Day, chapter: Any
) -> None:
    assert chapter.never.status[0] == "proved infeasible"
    # The least that it can be worse by: in each tree the leaf that is best for it, of those that
    # can be reached on this day, whatever the others say.
    least = 0.0
    for one in day.forest.estimators_:
        tree, reached, leaves = one.tree_, [0], []
        while reached:
            node = reached.pop()
            feature = tree.feature[node]
            left, right = tree.children_left[node], tree.children_right[node]
            if left < 0:
                leaves.append(tree.value[node][:, 0] @ (NEVER - WANTED))
            elif feature < 9:
                reached += [left, right]
            else:
                reached.append(left if day.x0[feature] <= tree.threshold[node] else right)
        least += min(leaves) / len(day.forest.estimators_)
    assert least > 1.7
    says("JFK at 14 and LGA at 18 is better, by more than 1.7 minutes")


def test_a_little_rain_at_newark_would_have_put_the_plan_off(day: Day, chapter: Any) -> None:
    e = chapter.fragile
    assert e.optimal[0]
    x = e.frame.to_numpy()
    assert np.flatnonzero(x[0] != day.x0).tolist() == [2]
    values = day.values(x)[0]
    assert cost(values, DECIDED) >= 1.1 * values.min() * (1 - 1e-6)
    says(f"Rain of {x[0, 2]:.2f} inches at EWR would have put it 10% off the best")
    cells = day.nearer_cells(float((x[0, 2] / USUAL[2]) ** 2) * (1 - 1e-6))
    nearer = day.values(day.changed(tuple(range(9)), cells))
    assert (cost(nearer, DECIDED) < 1.1 * nearer.min(axis=1)).all()


def test_hindsight_and_held_out_regret_are_as_told(day: Day) -> None:
    values = PLANS @ day.real
    assert np.array_equal(PLANS[values.argmin()], HINDSIGHT)
    says(f"In hindsight the plan was {cost(values, DECIDED):.1f} minutes late in all")
    says(f"would have been {values.min():.1f}")
    table = flights.held_out_regret(flights.load()).to_string(float_format="{:.1f}".format)
    says(table)


def test_the_three_airports_have_much_the_same_weather(day: Day) -> None:
    weather = flights.load().contexts.to_numpy()[:, :9]
    related = np.corrcoef(weather.T)
    pairs = [(j, k) for j, k in itertools.combinations(range(9), 2) if j % 3 == k % 3]
    assert min(related[j, k] for j, k in pairs) > 0.8
    says("the three airports have much the same weather")


def test_the_measures_of_the_chapter_are_taken(chapter: Any) -> None:
    assert chapter.table.loc[("sparsity", "changed features"), "mean"] == 2
    assert chapter.table.loc[("sparsity", "redundant features"), "mean"] == 0
