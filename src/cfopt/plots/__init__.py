"""Pictures of explanations."""

from cfopt.extras import require

require("Drawing explanations", "plots")

from cfopt.plots.comparison import plot_naive_and_plausible  # noqa: E402
from cfopt.plots.explanation import plot_explanation  # noqa: E402
from cfopt.plots.gallery import plot_gallery  # noqa: E402
from cfopt.plots.trade_off import plot_trade_off  # noqa: E402

__all__ = ["plot_explanation", "plot_gallery", "plot_naive_and_plausible", "plot_trade_off"]
