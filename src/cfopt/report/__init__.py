"""A report of explanations that a planner can read: one HTML file, complete in itself."""

from cfopt.report.write import write_report

__all__ = ["write_report"]
