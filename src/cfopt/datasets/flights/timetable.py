"""The decision: from which airport to leave in each part of the day."""

from __future__ import annotations

from itertools import product

import numpy as np

from cfopt._typing import Array
from cfopt.problems import MILP
from cfopt.problems.scene import Items, Scene

AIRPORTS = ("EWR", "JFK", "LGA")
#: When each part of the day begins; it lasts four hours.
HOURS = (6, 10, 14, 18)
#: What each entry of a decision is called, in the order of the day.
SLOTS = tuple(f"{airport} at {hour}" for hour in HOURS for airport in AIRPORTS)


class Timetable(MILP):
    """One airport for each part of the day, and none too often: the least delay in all.

        min <delays, y>,  sum_a y[h, a] = 1 for each h,  sum_h y[h, a] <= most for each a

    A part of the day is called after the hour in which it begins: "JFK at 6" is a departure from
    JFK between 6:00 and 9:59.

    Arguments:
        most: how many of the four departures may be from one airport, at least 2.
    """

    def __init__(self, most: int = 2) -> None:
        parts, airports = len(HOURS), len(AIRPORTS)
        each_part = np.kron(np.eye(parts), np.ones((1, airports)))
        each_airport = np.kron(np.ones((1, parts)), np.eye(airports))
        super().__init__(
            np.concatenate([each_part, each_airport]),
            np.repeat([1.0, 0.0], [parts, airports]),
            np.repeat([1.0, most], [parts, airports]),
            upper=1.0,
            integer=True,
            names=SLOTS,
        )
        self.most = most

    def list_decisions(self, limit: int) -> Array | None:
        """Every plan, in the order of the airports at each hour."""
        choices = product(range(len(AIRPORTS)), repeat=len(HOURS))
        kept = [one for one in choices if max(map(one.count, one)) <= self.most]
        if len(kept) > limit:
            return None
        plans: Array = np.eye(len(AIRPORTS))[np.array(kept)].reshape(len(kept), -1)
        return plans

    def scene(self) -> Scene:
        """Slots that are taken or not; a decision is a plan."""
        return Items(entries=self.entries(), noun="plan", nouns="plans", nothing="no flight")
