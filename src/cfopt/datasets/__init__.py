"""Data sets of the field."""

from cfopt.datasets import synthetic

__all__ = ["synthetic"]
