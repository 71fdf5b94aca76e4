"""Pictures of explanations."""

from cfopt.plots.decisions import Mark, Scene, draw_decision
from cfopt.plots.explanation import plot_explanation

__all__ = ["Mark", "Scene", "draw_decision", "plot_explanation"]
