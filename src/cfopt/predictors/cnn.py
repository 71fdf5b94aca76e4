"""Predictors of what each cell of a map costs, from its image."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from cfopt import registry
from cfopt.errors import InputError


@registry.predictors.register
class PartialResNet(nn.Module):
    """The first layers of a ResNet-18 and one maximum for each cell: the paper's predictor.

    Parameters have the names of the model in PyEPO and in the paper's experiments, so that
    published state dicts load.

    Arguments:
        rows, cols: the cells of a map.
    """

    #: What its pixels are: uint8 images are scaled to it, and floats are checked against it.
    value_range = (0.0, 1.0)

    def __init__(self, rows: int = 12, cols: int | None = None) -> None:
        super().__init__()
        self.rows, self.cols = rows, rows if cols is None else cols
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool1 = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.block = nn.Sequential(BasicBlock(64), BasicBlock(64))
        # The padding frames the map with zeros: part of the published model.
        self.conv2 = nn.Conv2d(64, 1, kernel_size=1, padding=1, bias=False)
        self.maxpool2 = nn.AdaptiveMaxPool2d((self.rows, self.cols))

    def settings(self) -> dict[str, Any]:
        """The arguments that rebuild this network."""
        return {"rows": self.rows, "cols": self.cols}

    def forward(self, x: Tensor) -> Tensor:
        """Costs of images: `(B, 3, H, W) -> (B, rows * cols)`."""
        check_images(x)
        seen = self.block(self.maxpool1(self.relu(self.bn(self.conv1(x)))))
        costs: Tensor = self.maxpool2(self.conv2(seen)).flatten(1)
        return costs


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around which the input is passed on, as in a ResNet-18."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """`relu(x + f(x))`."""
        change = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out: Tensor = self.relu(x + change)
        return out


@registry.predictors.register
class CompactCNN(nn.Module):
    """A small network at the resolution of cells, for processors rather than graphics cards.

    Quarters of a cell are read first, then cells with their borders, then their neighbourhood.
    Costs are positive, so that no path goes in circles.

    Arguments:
        cell: pixels along the side of a cell, a multiple of 4.
        width: channels.
    """

    value_range = (0.0, 1.0)
    #: Whether all costs are known to be above 0: the layers end in a Softplus.
    positive_costs = True

    def __init__(self, cell: int = 8, width: int = 64) -> None:
        super().__init__()
        if cell < 4 or cell % 4:
            raise InputError(f"CompactCNN needs cells of 4, 8, 12, ... pixels, got {cell}.")
        self.cell, self.width = cell, width
        patch = cell // 2
        self.layers = nn.Sequential(
            nn.Conv2d(3, width // 2, kernel_size=patch, stride=patch),
            nn.ReLU(),
            nn.Conv2d(width // 2, width, kernel_size=4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 1, kernel_size=1),
            nn.Softplus(),
        )

    def settings(self) -> dict[str, Any]:
        """The arguments that rebuild this network."""
        return {"cell": self.cell, "width": self.width}

    def forward(self, x: Tensor) -> Tensor:
        """Costs of images: `(B, 3, rows * cell, cols * cell) -> (B, rows * cols)`."""
        check_images(x, self.cell)
        costs: Tensor = self.layers(x).flatten(1)
        return costs


def check_images(x: Tensor, cell: int = 1) -> None:
    """Raise InputError unless x holds colour images, channels first, made of whole cells."""
    if x.ndim != 4 or x.shape[1] != 3:
        remedy = " Move the channels with x.permute(0, 3, 1, 2)." if x.shape[-1:] == (3,) else ""
        raise InputError(
            f"Images need the shape (rows, 3, height, width), got {tuple(x.shape)}.{remedy}"
        )
    if x.shape[2] % cell or x.shape[3] % cell:
        raise InputError(
            f"Images need a height and a width that are multiples of {cell}, the pixels of a cell; "
            f"got {x.shape[2]} x {x.shape[3]}."
        )
