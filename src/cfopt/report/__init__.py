"""A report of explanations that a planner can read: one HTML file, complete in itself."""

from cfopt.extras import require

require("Writing a report", "report")

from cfopt.report.write import write_report  # noqa: E402

__all__ = ["write_report"]
