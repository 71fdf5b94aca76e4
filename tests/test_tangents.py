from __future__ import annotations
import cfopt
from cfopt.search import Tangents
from cfopt.testing import SearchContract


class TestTangents(SearchContract):
    def search(self) -> cfopt.Search:
        return Tangents()
