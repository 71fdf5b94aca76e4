"""The panels of pictures: axes that make no tick before one is drawn."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis, YAxis


class _NoTickYet(Axis):
    """An axis that begins without ticks, and makes those that are drawn.

    Matplotlib's own makes one of either kind at once, to keep the looks that others are to have.
    These are kept by `tick_params` as well, and a tick takes a millisecond.
    """

    def reset_ticks(self) -> None:
        """Forget all ticks."""
        self.majorTicks: list[Any] = []
        self.minorTicks: list[Any] = []

    def _get_tick(self, major: bool) -> Any:
        tick = super()._get_tick(major)  # type: ignore[misc]
        tick.set_clip_path(self.axes.patch)  # lines of a grid end with the panel
        return tick


class _Across(_NoTickYet, XAxis):
    """The horizontal one."""


class _Up(_NoTickYet, YAxis):
    """The vertical one."""


class Panel(Axes):
    """Axes with such an axis on each side: for drawings and charts with few ticks."""

    def _init_axis(self) -> None:
        across, up = _Across(self, clear=False), _Up(self, clear=False)
        self.xaxis, self.yaxis = across, up
        for side in ("bottom", "top"):
            self.spines[side].register_axis(across)
        for side in ("left", "right"):
            self.spines[side].register_axis(up)
