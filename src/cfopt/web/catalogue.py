"""What the pipelines are, known before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Title:
    """A pipeline's name, what it is called, what its contexts are, and a sentence about it."""

    name: str
    title: str
    kind: str
    about: str


SHIPPED = {
    title.name: title
    for title in (
        Title(
            "terrain",
            "Routes across a map",
            "map",
            "A network reads a map and predicts what each cell costs to cross; the best route is "
            "the cheapest from the upper left to the lower right.",
        ),
        Title(
            "flights",
            "Flights from New York",
            "table",
            "A forest predicts from the day's weather how many minutes late flights leave in each "
            "part of the day; the plan picks an airport for each, none more than twice, with the "
            "least delay. The data are real, of 2013; the forest has not seen these days.",
        ),
        Title(
            "grid",
            "Streets across town",
            "table",
            "A linear model predicts the minutes on each street from the day's conditions, each in "
            "standard deviations from an ordinary day; the route moves right or down, and takes "
            "the least time. The data are synthetic.",
        ),
        Title(
            "knapsack",
            "What to pack",
            "table",
            "A linear model predicts what each of 16 items is worth from the market, each feature "
            "in standard deviations from the usual; the selection has the highest value within two "
            "capacities. The data are synthetic.",
        ),
    )
}
#: The user's own comes first.
OWN = "own"
