"""Random moves of points: the same for every row, so that a row does not depend on the others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cfopt.search.climbers import Climbers
from cfopt.search.landscape import Landscape

#: How many moves are drawn at once.
DRAWN = 32
#: How often one, two or three blocks are moved; else all of them.
_FEW = (0.3, 0.3, 0.2)
#: The shortest move, as a fraction of the longest.
_SHORTEST = 2.0**-8


@dataclass(frozen=True)
class Draws:
    """Moves of all kinds and lengths.

    Arguments:
        land: what they are made in.
        step: the direction of each, of length 1 in units of the features, `(S, p)`.
        moved: the features that it moves, `(S, p)`.
        length: the lengths, from the shortest to 1, `(S,)`.
        chance: a random number from 0 to 1 for every other choice, `(S,)`.
    """

    land: Landscape
    step: Tensor
    moved: Tensor
    length: Tensor
    chance: Tensor

    @classmethod
    def of(cls, land: Landscape, generator: torch.Generator) -> Draws:
        """Along one block, a few, or all of them."""
        size, like = land.home.shape[1], land.home
        noise = torch.randn((DRAWN, size), generator=generator, dtype=torch.float64)
        rank = torch.rand((DRAWN, land.blocks), generator=generator)
        length, chance, how_many = torch.rand((3, DRAWN), generator=generator, dtype=torch.float64)
        bounds = torch.tensor(_FEW, dtype=torch.float64).cumsum(0)
        few = 1 + torch.bucketize(how_many, bounds)
        few = torch.where(few > len(_FEW), land.blocks, few).clamp(max=land.blocks)
        last = rank.sort(1).values.gather(1, few[:, None] - 1)
        # What is in no block has the number -1, the last column, and stays.
        chosen = torch.cat([rank <= last, torch.zeros((DRAWN, 1), dtype=torch.bool)], 1)
        moved = chosen.to(like.device)[:, land.block_of]
        step = noise.to(like) * moved
        norm = torch.linalg.vector_norm(step, dim=1, keepdim=True)
        step = step / norm.clamp(min=torch.finfo(like.dtype).tiny)
        return cls(land, step, moved, (_SHORTEST**length).to(like), chance.to(like))

    def around(self, base: Tensor, reach: Tensor) -> Tensor:
        """Every move from points, as far as said: `(C, S or 1, p), (C, S) -> (C, S, p)`.

        Whole numbers move by one at least; of a one-hot group any member may be chosen.
        """
        step = reach[:, :, None] * self.step * self.land.unit
        points = base + torch.where(self.land.whole, step.sign() * step.abs().ceil(), step)
        for group in self.land.groups:
            member = self.step[:, group].argmax(1)
            chosen = torch.nn.functional.one_hot(member, len(group)).to(points)
            points[:, :, group] = torch.where(
                self.moved[:, group], chosen, base[:, :, group].expand_as(points[:, :, group])
            )
        return points

    def nearer(self, climbers: Climbers) -> Tensor:
        """Candidates that are nearer than points: `(C, S, p)`.

        A third moves a little from where the points are, a third moves some features and puts
        another one back, and a third begins anew from home.
        """
        land, home = self.land, self.land.home[climbers.rows][:, None]
        change = climbers.at[:, None] - home
        size = (change / land.unit).abs()
        far = torch.linalg.vector_norm(size, dim=2)
        kind = torch.arange(DRAWN, device=home.device) % 3
        # The feature that is put back is drawn by its part in the change.
        weight = size.square().double()
        heap, drawn = weight.cumsum(2), self.chance.double()[:, None] * weight.sum(2, keepdim=True)
        put_back = (heap >= drawn) & (heap - weight < drawn)
        for group in land.groups:
            put_back[..., group] = put_back[..., group].any(-1, keepdim=True)
        kept = change * torch.where((kind == 1)[:, None], ~put_back, (kind == 0)[:, None])
        reach = far * torch.where(kind == 2, (1 + self.chance) / 2, self.length)
        return self._shrunk(climbers, self.around(home + kept, reach))

    def _shrunk(self, climbers: Climbers, points: Tensor) -> Tensor:
        """Points moved towards home, so that they are nearer than what is known: `(C, S, p)`."""
        land, home = self.land, self.land.home[climbers.rows][:, None]
        gain = 0.5 * 2.0 ** (-6 * self.chance.double())
        loss = land.loss(climbers.rows.repeat_interleave(DRAWN), points.flatten(0, 1))
        if land.power is None or loss is None:
            fraction = (1 - gain).expand(points.shape[:2])
        else:
            target = climbers.loss[:, None] * (1 - gain)
            fraction = target / loss.view(points.shape[:2]).clamp(min=torch.finfo(loss.dtype).tiny)
            fraction = fraction.clamp(max=1.0) ** (1 / land.power)
        return home + (points - home) * fraction[:, :, None].to(points)
