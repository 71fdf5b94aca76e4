"""Searches for explanations."""

from cfopt.search.base import Search
from cfopt.search.mdmm import MDMM, Counting

__all__ = ["MDMM", "Counting", "Search"]
