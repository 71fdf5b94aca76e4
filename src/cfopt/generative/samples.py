"""Contexts as a VAE is trained on them: batch by batch, with the costs that it should keep."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from cfopt.errors import InputError, PredictorError
from cfopt.generative.cost_aware import Terms, terms
from cfopt.generative.flow import Flow
from cfopt.generative.vae import VAE
from cfopt.pipeline import Predictor
from cfopt.pipeline.images import as_floats

#: Contexts that are evaluated at once.
_AT_ONCE = 256


class Samples:
    """Contexts of one purpose, checked before any training.

    Arguments:
        name: the name of the purpose, for messages.
        contexts: `(N, ...)`; uint8 images are turned into floats batch by batch.
        vae: what they are for.
        predictor: phi, if costs count.
        least: how many contexts there must be.
    """

    def __init__(
        self, name: str, contexts: Tensor, vae: VAE | Flow, predictor: Predictor | None, least: int
    ) -> None:
        self.contexts = contexts
        self._vae, self._predictor = vae, predictor
        self._parameter = next(vae.parameters())
        if len(contexts) < least:
            raise InputError(f"Training needs {least} or more {name}, got {len(contexts)}.")
        for rows in self.parts():
            batch = self.batch(rows)
            vae.check_contexts(batch)
            if not batch.isfinite().all():
                raise InputError(
                    f"Training needs finite {name}; some of rows {int(rows[0])} to {int(rows[-1])} "
                    "are not. Leave such rows out."
                )

    def __len__(self) -> int:
        return len(self.contexts)

    def parts(self) -> Iterator[Tensor]:
        """All rows, in order, a few hundred at a time."""
        yield from torch.split(torch.arange(len(self)), _AT_ONCE)

    def batch(self, rows: Tensor) -> Tensor:
        """Some contexts as floats, where the VAE is: `(B,) -> (B, ...)`."""
        return as_floats(self.contexts[rows.to(self.contexts.device)]).to(self._parameter)

    def terms(self, rows: Tensor, generator: torch.Generator) -> Terms:
        """The terms of the bound for some contexts: `(B,)` each."""
        known = None if self.costs is None else self.costs[rows]
        return terms(self._vae, self.batch(rows), self._predictor, known, generator)

    @cached_property
    @torch.no_grad()
    def costs(self) -> Tensor | None:
        """What the predictor makes of the contexts, `(N, n)`; None where costs do not count."""
        if self._predictor is None:
            return None
        parts = []
        for rows in self.parts():
            costs = self._predictor(self.batch(rows))
            if costs.ndim != 2 or len(costs) != len(rows) or not costs.isfinite().all():
                raise PredictorError(
                    f"Training needs finite costs of shape ({len(rows)}, n) from the predictor; "
                    f"got shape {tuple(costs.shape)}, with {int((~costs.isfinite()).sum())} costs "
                    "that are not finite."
                )
            parts.append(costs)
        return torch.cat(parts)
