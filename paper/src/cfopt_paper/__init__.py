"""The numerical study of the paper, reproduced."""

__version__ = "0.1.0"
