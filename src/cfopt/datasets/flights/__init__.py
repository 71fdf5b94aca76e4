"""New York's flights and weather of 2013: where to leave from, by forecast."""

from cfopt.datasets.flights.data import Flights, load
from cfopt.datasets.flights.models import MODELS, forest, network, ridge
from cfopt.datasets.flights.regret import held_out_regret
from cfopt.datasets.flights.timetable import AIRPORTS, HOURS, Timetable

__all__ = [
    "AIRPORTS",
    "HOURS",
    "MODELS",
    "Flights",
    "Timetable",
    "forest",
    "held_out_regret",
    "load",
    "network",
    "ridge",
]
