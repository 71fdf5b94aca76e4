"""Normalising flows: what contexts or codes are like, as a map to and from N(0, I)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from cfopt import registry
from cfopt.errors import InputError
from cfopt.generative.coded_module import CodedModule
from cfopt.generative.elliptical import Elliptical
from cfopt.generative.flow_level import Level, doubled, halved
from cfopt.generative.protocol import (
    GenerativeModel,
    ambiguity,
    check_attributes,
    shown,
    value_range,
)


@registry.generative_models.register
class Flow(CodedModule):
    """An invertible network whose codes of the data are distributed as N(0, I).

    Entries that lie in a grid are taken apart into a coarse image and the details of finer and
    finer ones, as in wavelet flows (Yu et al., 2020), and each level is modelled given the coarser
    ones. So what a whole image has in common, such as how dry a map is, has a density of its own,
    in few entries, which likelihood sees clearly; in one network for all entries it would be a sum
    of many small shifts that hardly count. Other entries are one level.

    Both ways are one pass, exact, the same each time and for each row alone. Trained for the
    likelihood of the data, which `log_density` states.

    Arguments:
        latent_dim: the size of a context.
        grid: the shape in which entries lie, channels first, if they lie in a grid.
        layers: how many couplings a level has.
        width: the width of their hidden layers.
    """

    mean: Tensor
    turn: Tensor

    def __init__(
        self,
        latent_dim: int,
        grid: Sequence[int] | None = None,
        layers: int = 8,
        width: int = 32,
    ) -> None:
        shape = None if grid is None else tuple(grid)
        if not isinstance(latent_dim, int) or min(latent_dim, layers, width) < 1:
            raise InputError(
                "Flow needs whole numbers of at least 1 for latent_dim, layers and width, got "
                f"{latent_dim}, {layers} and {width}."
            )
        if shape is not None and (len(shape) != 3 or math.prod(shape) != latent_dim):
            raise InputError(
                f"Flow needs a grid (channels, rows, columns) with {latent_dim} entries, got "
                f"{shape}."
            )
        listed = None if shape is None else list(shape)
        super().__init__((latent_dim,), latent_dim, grid=listed, layers=layers, width=width)
        self.shapes = [(latent_dim,)] if shape is None else _shapes(shape)
        self.levels = nn.ModuleList(
            Level(details, self.shapes[0][0] if k else 0, layers, width)
            for k, details in enumerate(self.shapes)
        )
        self.register_buffer("mean", torch.zeros(latent_dim))
        self.register_buffer("turn", torch.eye(latent_dim))

    def standardise(self, contexts: Tensor) -> Flow:
        """Take mean and covariance from contexts, `(N, n)`; returns the model.

        Codes are turned such that before training they are whitened entries, each as near as it
        can be to where its entry was: a code changes what is near its place. N(0, I) is the same
        after a rotation.
        """
        if contexts.ndim != 2 or contexts.shape[1] != self.latent_dim or len(contexts) < 2:
            raise InputError(
                f"standardise needs contexts of shape (N, {self.latent_dim}) with N >= 2, got "
                f"{tuple(contexts.shape)}."
            )
        values = contexts.detach().double().cpu()
        self.mean.copy_(values.mean(0))
        for level, parts in zip(self._levels, self._apart(values - values.mean(0)), strict=True):
            level.standardise(*parts)
        colour = self._colour()
        # Of white entries w and of s, whitened by the symmetric root: w colour = s root, and so
        # w = s turn.
        left, _, right = torch.linalg.svd(colour)
        self.turn.copy_(right.T @ left.T)
        return self

    def broad_directions(self, count: int) -> Tensor:
        """Of codes, those in which contexts vary most: `(n, count)`, orthonormal columns.

        Without its couplings, a flow decodes z to `mean + z root` with the symmetric root of the
        covariance that it was standardised with: these are the vectors of its largest values.
        """
        root = self.turn.cpu().double() @ self._colour()
        _, vectors = torch.linalg.eigh((root + root.T) / 2)
        broadest: Tensor = vectors.flip(1)[:, :count]
        return broadest.to(self.turn)

    def encode(self, x: Tensor) -> Tensor:
        """The code of each context: `(B, n) -> (B, n)`."""
        return self._forward(x)[0]

    def decode(self, z: Tensor) -> Tensor:
        """The context of each code: `(B, n) -> (B, n)`."""
        self.check_codes(z)
        return self.mean + self._together(z @ self.turn, Level.undo)

    def log_density(self, x: Tensor) -> Tensor:
        """The logarithm of the density at contexts: `(B, n) -> (B,)`."""
        z, volume = self._forward(x)
        return volume - 0.5 * (z.square() + math.log(2 * math.pi)).sum(1)

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Codes `(B, n)`, and the logarithm of how much volume grows, `(B,)`."""
        self.check_contexts(x)
        parts = self._apart(x - self.mean)
        found = [level(*part) for level, part in zip(self._levels, parts, strict=True)]
        codes, volumes = zip(*found, strict=True)
        return torch.cat(codes, dim=1) @ self.turn.T, torch.stack(volumes).sum(0)

    def _colour(self) -> Tensor:
        """What a flow without couplings makes of white entries, in float64, `(n, n)`."""
        exact = copy.deepcopy(self).to("cpu", torch.float64)
        return exact._together(torch.eye(self.latent_dim, dtype=torch.float64), Level.linear)

    @property
    def _levels(self) -> list[Level]:
        return [cast(Level, level) for level in self.levels]

    def _apart(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The details of each level, coarsest first, and the coarser image: `(B, m)`, `(B, k)`."""
        parts: list[tuple[Tensor, Tensor]] = []
        for _, rows, columns in reversed(self.shapes[1:]):
            image = x.view(len(x), self.shapes[0][0], 2 * rows, 2 * columns)
            coarser, details = halved(image)
            x = coarser.flatten(1)
            parts.append((details.flatten(1), x))
        return [(x, x[:, :0]), *reversed(parts)]

    def _together(self, codes: Tensor, undo: Callable[[Level, Tensor, Tensor], Tensor]) -> Tensor:
        """Entries from the codes of all levels, each undone given what is coarser."""
        parts = torch.split(codes, [math.prod(shape) for shape in self.shapes], dim=1)
        x = undo(self._levels[0], parts[0], codes[:, :0])
        for level, shape, part in zip(self._levels[1:], self.shapes[1:], parts[1:], strict=True):
            image = x.view(len(x), self.shapes[0][0], *shape[1:])
            x = doubled(image, undo(level, part, x).view(len(x), *shape)).flatten(1)
        return x


class FlowPrior(nn.Module):
    """A generative model whose codes are brought to N(0, I) by a flow.

    Samples of N(0, I) then look like the data, and the sphere of typical codes means something.

    Arguments:
        model: the generative model.
        flow: trained on its codes, or standardised with them.
    """

    def __init__(self, model: GenerativeModel, flow: Flow | Elliptical) -> None:
        super().__init__()
        self.model, self.flow = check_attributes(model), flow
        if flow.latent_dim != model.latent_dim:
            raise InputError(
                f"FlowPrior needs a flow of codes with {model.latent_dim} entries, as the model "
                f"has; got one of {flow.latent_dim}."
            )
        self.latent_dim = model.latent_dim
        shape = getattr(model, "context_shape", None)
        if shape is not None:
            self.context_shape = tuple(shape)
        self.value_range: tuple[float, float] | None = value_range(model)

    @property
    def usual_errors(self) -> Tensor | None:
        """Reconstruction errors of held-out contexts, if the model knows them: `(q,)`."""
        usual: Tensor | None = getattr(self.model, "usual_errors", None)
        return usual

    def encode(self, x: Tensor) -> Tensor:
        """The code of each context: `(B, ...) -> (B, n)`."""
        return self.flow.encode(self.model.encode(x))

    def decode(self, z: Tensor) -> Tensor:
        """The context of each code: `(B, n) -> (B, ...)`."""
        return self.model.decode(self.flow.decode(z))

    def ambiguity(self, z: Tensor) -> Tensor | None:
        """How undecided the model is: `(B, n) -> (B, p)`."""
        return ambiguity(self.model, self.flow.decode(z))

    def shown(self, z: Tensor) -> tuple[Tensor, Tensor | None]:
        """`decode` and `ambiguity` in one pass."""
        return shown(self.model, self.flow.decode(z))

    def broad_directions(self, count: int) -> Tensor:
        """The directions in which contexts vary most: `(n, count)`, orthonormal columns."""
        return self.flow.broad_directions(count)


def _shapes(grid: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes of the levels of a grid, coarsest first: halved as long as sides are even."""
    channels, rows, columns = grid
    if rows % 2 or columns % 2:
        return [grid]
    rows, columns = rows // 2, columns // 2
    return [*_shapes((channels, rows, columns)), (3 * channels, rows, columns)]
