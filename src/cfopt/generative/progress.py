"""What is reported of training while it runs, and a progress bar that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cfopt.extras import require

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Epoch:
    """The result of an epoch; means over rows.

    Arguments:
        number: the number of the epoch, from 1.
        loss: the loss on the training data.
        validation: the loss on the validation data, with the full weight of the divergence.
        reconstruction: the squared error on the validation data.
        divergence: the divergence on the validation data.
        costs: squared error of their predicted costs; 0 where costs do not count.
        active: how many latents carry information.
    """

    number: int
    loss: float
    validation: float
    reconstruction: float
    divergence: float
    costs: float
    active: int


@dataclass(frozen=True)
class Batch:
    """A report of running training: how many contexts of the epoch are done."""

    epoch: int
    done: int
    total: int
    loss: float


class ProgressBar:
    """Shows epochs, the time left, and the result of the last epoch.

        with ProgressBar("alpha = 2", epochs=30) as bar:
            train(vae, contexts, validation, training, on_progress=bar)

    Arguments:
        title: what is trained.
        epochs: the most epochs to train.
        console: where to show it; the terminal by default.
    """

    def __init__(self, title: str, epochs: int, console: Console | None = None) -> None:
        require("A progress bar", "cli", "rich")
        from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

        self._title = title
        usual = Progress.get_default_columns()
        self._bars = Progress(*usual, MofNCompleteColumn(), TimeElapsedColumn(), console=console)
        self._bar = self._bars.add_task(title, total=epochs)

    def __enter__(self) -> ProgressBar:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def __call__(self, report: Batch | Epoch) -> None:
        """Take in a report of `train`."""
        if isinstance(report, Batch):
            self._bars.update(self._bar, completed=report.epoch - 1 + report.done / report.total)
            return
        text = (
            f"{self._title}: squared error {report.reconstruction:.1f}, divergence "
            f"{report.divergence:.1f}, {report.active} active latents"
        )
        self._bars.update(self._bar, completed=report.number, description=text)
