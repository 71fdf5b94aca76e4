"""Data sets of the field."""

from cfopt.datasets import synthetic, warcraft
from cfopt.datasets.maps import Maps
from cfopt.datasets.terrain import Terrain

__all__ = ["Maps", "Terrain", "synthetic", "warcraft"]
