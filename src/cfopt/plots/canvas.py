"""Pictures as pixels: each line of text is set once, and stamped wherever it occurs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg, get_hinting_flag
from matplotlib.ft2font import FT2Font
from numpy.typing import NDArray

#: How many lines of text are remembered.
_LINES = 2048


class _Line(NamedTuple):
    """A line of text as it is drawn.

    Arguments:
        ink: how much of each pixel is covered, from 0 to 255, `(h, w)`.
        offset: how far to the right of its origin, and how far below its upper edge, it begins.
        width, height, descent: its size, and how much of its height is below the line.
    """

    ink: NDArray[np.uint8]
    offset: tuple[float, float]
    width: float
    height: float
    descent: float


@lru_cache(_LINES)
def _line(font: FT2Font, size: float, dpi: float, hinting: Any, text: str) -> _Line:
    font.clear()
    font.set_size(size, dpi)
    font.set_text(text, 0.0, flags=hinting)
    font.draw_glyphs_to_bitmap(antialiased=True)
    right, down = font.get_bitmap_offset()
    width, height = font.get_width_height()
    return _Line(
        np.array(font.get_image(), dtype=np.uint8),
        (right / 64, down / 64),
        width / 64,
        height / 64,
        font.get_descent() / 64,
    )


class _Renderer(RendererAgg):
    """Measures and draws a line of text at once, where matplotlib sets it twice, letter by letter.

    The pictures of a run have most of their words in common, so that many lines are known.
    """

    def get_text_width_height_descent(self, s: str, prop: Any, ismath: Any) -> Any:
        """The size of a line."""
        if ismath:
            return super().get_text_width_height_descent(s, prop, ismath)
        line = self._known(s, prop)
        return line.width, line.height, line.descent

    def draw_text(
        self,
        gc: Any,
        x: float,
        y: float,
        s: str,
        prop: Any,
        angle: float,
        ismath: Any = False,
        mtext: Any = None,
    ) -> None:
        """Draw a line of text; y is downwards."""
        if ismath or angle or not gc.get_antialiased() or _is_special(mtext):
            super().draw_text(gc, x, y, s, prop, angle, ismath=ismath, mtext=mtext)
            return
        line = self._known(s, prop)
        if not line.ink.size:
            return
        red, green, blue, *_ = gc.get_rgb()
        ink = np.empty((*line.ink.shape, 4), dtype=np.uint8)
        ink[..., :3] = np.rint(255 * np.array([red, green, blue]))
        ink[..., 3] = np.rint(gc.get_alpha() * line.ink)
        right, down = line.offset
        bottom = round(self.height - (y + down + line.descent)) - 1
        self.draw_image(gc, round(x + right), bottom, ink[::-1])

    def _known(self, text: str, prop: Any) -> _Line:
        font = self._prepare_font(prop)
        return _line(font, prop.get_size_in_points(), self.dpi, get_hinting_flag(), text)


def _is_special(text: Any) -> bool:
    """Whether letters are chosen in another way than they usually are."""
    choices = ("get_fontfeatures", "get_language")
    return text is not None and any(getattr(text, one, lambda: None)() for one in choices)


class Canvas(FigureCanvasAgg):
    """What figures are drawn on when they are saved as PNG."""

    def get_renderer(self) -> RendererAgg:
        """What it is drawn with; the same as long as the size is."""
        width, height = self.get_width_height(physical=True)
        key = width, height, self.figure.dpi
        if self._lastKey != key:
            self.renderer, self._lastKey = _Renderer(*key), key
        renderer: RendererAgg = self.renderer
        return renderer
