"""Searches for explanations."""

from cfopt.search.base import Search
from cfopt.search.closed_form import ClosedForm
from cfopt.search.cutting_plane import CuttingPlane
from cfopt.search.enumeration import Enumeration
from cfopt.search.mdmm import MDMM, Counting

__all__ = ["MDMM", "ClosedForm", "Counting", "CuttingPlane", "Enumeration", "Search"]
