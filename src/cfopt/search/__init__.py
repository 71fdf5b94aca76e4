"""Searches for explanations."""

from cfopt.search.auto import Auto
from cfopt.search.base import Search
from cfopt.search.broad_codes import BroadCodes
from cfopt.search.certify import Certify
from cfopt.search.closed_form import ClosedForm
from cfopt.search.cutting_plane import CuttingPlane
from cfopt.search.derivative_free import DerivativeFree
from cfopt.search.edits import Edits, Vocabulary
from cfopt.search.enumeration import Enumeration
from cfopt.search.fallback import Fallback, Refined
from cfopt.search.few_codes import FewCodes
from cfopt.search.mdmm import MDMM, Counting
from cfopt.search.reference import Reference
from cfopt.search.scenarios import Scenarios
from cfopt.search.tangents import Tangents
from cfopt.search.tree_cells import TreeCells
from cfopt.search.trust_region import LatentReference, LatentSequential, Sequential
from cfopt.search.unlisted_wishes import UnlistedWishes
from cfopt.search.wishes import Wishes

__all__ = [
    "MDMM",
    "Auto",
    "BroadCodes",
    "Certify",
    "ClosedForm",
    "Counting",
    "CuttingPlane",
    "DerivativeFree",
    "Edits",
    "Enumeration",
    "Fallback",
    "FewCodes",
    "LatentReference",
    "LatentSequential",
    "Reference",
    "Refined",
    "Scenarios",
    "Search",
    "Sequential",
    "Tangents",
    "TreeCells",
    "UnlistedWishes",
    "Vocabulary",
    "Wishes",
]
