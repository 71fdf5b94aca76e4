"""Data sets of the field."""

from cfopt.datasets import flights, synthetic, warcraft
from cfopt.datasets.maps import Maps
from cfopt.datasets.terrain import Terrain

__all__ = ["Maps", "Terrain", "flights", "synthetic", "warcraft"]
