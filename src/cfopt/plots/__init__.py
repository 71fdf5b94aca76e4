"""Pictures of explanations."""

from cfopt.plots.decisions import Scene, draw_decision
from cfopt.plots.explanation import plot_explanation

__all__ = ["Scene", "draw_decision", "plot_explanation"]
