"""cfopt beside libraries that explain classifiers, on tasks that all of them can play."""

from benchmarks.peers.comparison import compare

__all__ = ["compare"]
