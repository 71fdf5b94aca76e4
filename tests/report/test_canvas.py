"""Pictures as pixels: texts that are set once look as matplotlib sets them."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from cfopt._typing import Array
from cfopt.plots.canvas import Canvas
from cfopt.plots.panel import Panel
from cfopt.plots.png import png


def drawn(canvas: type[FigureCanvasAgg], write: Callable[[Figure], object]) -> Array:
    """The pixels of a figure, `(height, width, 3)` from 0 to 255."""
    figure = Figure(figsize=(4, 2), dpi=130, facecolor="white")
    write(figure)
    drawing = canvas(figure)
    drawing.draw()
    pixels: Array = np.asarray(drawing.buffer_rgba())[..., :3].astype(float)
    return pixels


def edges(pixels: Array) -> Array:
    """The first and last row and column that are clearly not white, `(4,)`."""
    rows, columns = (pixels.min(axis=2) < 150).nonzero()
    return np.array([rows.min(), rows.max(), columns.min(), columns.max()])


@pytest.mark.parametrize("align", ["left", "center", "right"])
@pytest.mark.parametrize("text", ["gypsum", "-0.0157 → Ångström", "one line,\nand another"])
def test_a_text_is_where_and_what_matplotlib_writes(text: str, align: str) -> None:
    for place in (0.5, 0.503):  # also where it does not begin with a whole pixel

        def write(figure: Figure, at: float = place) -> None:
            figure.text(at, at, text, ha=align, va="center", fontsize=9, color="#7a1040")

        own, other = drawn(Canvas, write), drawn(FigureCanvasAgg, write)
        assert np.abs(edges(own) - edges(other)).max() <= 1
        assert np.isclose((255 - own).sum(), (255 - other).sum(), rtol=0.05)
        across = [(255 - pixels).sum(axis=(1, 2)) for pixels in (own, other)]
        assert max(np.corrcoef(across[0], np.roll(across[1], by))[0, 1] for by in (-1, 0, 1)) > 0.95
        # The darkest pixels have the colour itself.
        assert np.abs(np.sort(own.reshape(-1, 3), axis=0)[:5] - [122, 16, 64]).max() <= 2


def test_texts_that_are_turned_or_formulas_are_drawn_by_matplotlib() -> None:
    def write(figure: Figure) -> None:
        figure.text(0.2, 0.2, "upwards", rotation=90)
        figure.text(0.5, 0.5, r"$\sqrt{2}$")

    assert np.array_equal(drawn(Canvas, write), drawn(FigureCanvasAgg, write))


def test_a_text_keeps_its_transparency_and_is_cut_where_it_should_be() -> None:
    def write(figure: Figure) -> None:
        axes = figure.add_axes((0.25, 0.25, 0.5, 0.5))
        axes.set_axis_off()
        axes.text(0.6, 0.5, "WWWWWWWWWWWWWWWWWWWW", clip_on=True, alpha=0.5, color="black")

    pixels = drawn(Canvas, write)
    columns = (pixels.min(axis=2) < 200).nonzero()[1]
    assert 380 <= columns.max() <= 390  # three quarters of 520 pixels
    assert abs(pixels.min() - 127.5) <= 1


def test_the_same_text_in_another_size_or_font_is_another_picture() -> None:
    small, large, bold = (
        drawn(Canvas, lambda figure, style=style: figure.text(0.1, 0.5, "words", **style))
        for style in ({"fontsize": 9}, {"fontsize": 18}, {"fontsize": 9, "fontweight": "bold"})
    )
    height = [np.diff(edges(pixels)[:2])[0] for pixels in (small, large, bold)]
    assert height[1] > 1.7 * height[0]
    assert (255 - bold).sum() > 1.2 * (255 - small).sum()


@pytest.mark.parametrize("shown", [True, False])
def test_a_panel_looks_like_any_axes(shown: bool) -> None:
    def chart(kind: type[Axes]) -> Callable[[Figure], None]:
        def write(figure: Figure) -> None:
            axes = figure.add_subplot(axes_class=kind)
            axes.barh([0, 1, 2], [3, -1, 2])
            axes.set_yticks([0, 1, 2], ["a", "b", "c"])
            axes.tick_params(labelsize=6, colors="#803010", length=7)
            axes.grid(axis="x")
            axes.set_xlabel("change")
            if not shown:
                axes.set_axis_off()

        return write

    own, other = (drawn(FigureCanvasAgg, chart(kind)) for kind in (Panel, Axes))
    assert np.array_equal(own, other)


def test_a_png_has_the_pixels_that_were_drawn_and_its_resolution() -> None:
    figure = Figure(figsize=(4, 2), dpi=130, facecolor="white")
    axes = figure.add_subplot()
    axes.imshow(np.random.default_rng(0).random((5, 7, 3)))
    axes.set_title("noise")
    with Image.open(io.BytesIO(png(figure))) as image:
        image.load()
        assert image.format == "PNG"
        assert np.allclose(image.info["dpi"], 130, atol=0.1)
        found = np.asarray(image)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    assert np.array_equal(found, np.asarray(canvas.buffer_rgba())[..., :3])
