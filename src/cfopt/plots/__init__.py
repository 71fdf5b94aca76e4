"""Pictures of explanations."""

from cfopt.plots.comparison import plot_naive_and_plausible
from cfopt.plots.explanation import plot_explanation
from cfopt.plots.gallery import plot_gallery

__all__ = ["plot_explanation", "plot_gallery", "plot_naive_and_plausible"]
