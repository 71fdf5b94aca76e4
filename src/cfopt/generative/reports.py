"""What is reported of training while it runs."""

from __future__ import annotations

from dataclasses import dataclass


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
