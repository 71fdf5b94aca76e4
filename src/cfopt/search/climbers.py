"""Points that move to better ones, and home as far as the criterion holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cfopt.search.landscape import Landscape, Seen

#: More blocks than these are put back in random bundles.
BUNDLES = 24
#: When a block is at rest: what is tried of it is less than this fraction of the whole change.
COARSE, FINE = 1e-3, 1e-7
#: How often bundles are made anew, in rounds.
_NEW_BUNDLES = 8
#: How many rounds a pull home takes at most.
_ROUNDS = 80


@dataclass
class Climbers:
    """Some points, several of a row perhaps, with what is known of them.

    Arguments:
        rows: the row of each, `(C,)`.
        at: where they are, `(C, p)`.
        loss, miss: as judged there, `(C,)`.
    """

    rows: Tensor
    at: Tensor
    loss: Tensor
    miss: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: Tensor) -> Climbers:
        return Climbers(self.rows[which], self.at[which], self.loss[which], self.miss[which])

    def put(self, which: Tensor, others: Climbers) -> None:
        """Others in the place of some."""
        self.at[which], self.loss[which], self.miss[which] = others.at, others.loss, others.miss

    def take(self, points: Tensor, seen: Seen) -> Tensor:
        """Move to the best of S candidates each, `(C, S, p)`, where one is better: `(C,)`.

        Better is less amiss or, as among valid ones, no more amiss and nearer.
        """
        loss, miss = self.loss[:, None], self.miss[:, None]
        better = (seen.miss < miss) | ((seen.miss == miss) & (seen.loss < loss))
        least = seen.miss.masked_fill(~better, torch.inf).amin(1, keepdim=True)
        tied = better & (seen.miss == least)
        best = seen.loss.masked_fill(~tied, torch.inf).argmin(1)
        moved = better.any(1).nonzero().flatten()
        chosen = (moved, best[moved])
        self.at[moved] = points[chosen]
        self.loss[moved], self.miss[moved] = seen.loss[chosen], seen.miss[chosen]
        return better.any(1)

    @staticmethod
    def joined(parts: list[Climbers]) -> Climbers:
        """All of several."""
        names = ("rows", "at", "loss", "miss")
        return Climbers(*(torch.cat([getattr(part, name) for part in parts]) for name in names))

    def valid(self) -> Climbers:
        """Those at which the criterion holds."""
        return self[(self.miss == 0).nonzero().flatten()]

    def best(self, each: int = 1) -> Tensor:
        """The numbers of the best `each` of every row, in order of rows."""
        order = self.loss.argsort(stable=True)
        order = order[self.miss[order].argsort(stable=True)]
        order = order[self.rows[order].argsort(stable=True)]
        rows = self.rows[order]
        counts = torch.unique_consecutive(rows, return_counts=True)[1]
        first = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        return order[torch.arange(len(order), device=order.device) - first < each]


def judge(
    land: Landscape, climbers: Climbers, points: Tensor, which: Tensor | None = None
) -> tuple[Tensor, Seen]:
    """Repair S candidates a point, and judge those that could be better: `(C, S, p)`.

    Of a valid point only candidates that are nearer are worth a look.

    Arguments:
        land: what judges.
        climbers: the points that may move.
        points: the candidates, `(C, S, p)`.
        which: those to try, `(C, S)`; all by default.
    """
    count, each, size = points.shape
    wide, flat = climbers.rows.repeat_interleave(each), points.reshape(-1, size).clone()
    tried = torch.arange(len(flat), device=flat.device)
    tried = tried if which is None else tried[which.flatten()]
    flat[tried] = land.repair(wide[tried], flat[tried])
    known = land.loss(wide[tried], flat[tried])
    if known is not None:
        limit = torch.where(climbers.miss == 0, climbers.loss, torch.inf)
        tried = tried[known < limit.repeat_interleave(each)[tried]]
    seen = land.look(wide[tried], flat[tried])
    loss, miss = torch.full((2, len(flat)), torch.inf, dtype=torch.float64, device=flat.device)
    loss[tried], miss[tried] = seen
    return flat.view(points.shape), Seen(loss.view(count, each), miss.view(count, each))


def pull_home(
    land: Landscape, climbers: Climbers, rest: float, generator: torch.Generator, part: float = 1.0
) -> Iterator[None]:
    """Put valid points back block by block, and altogether, as far as they stay valid.

    Each round tries a fraction of the way home for each block on its own, then all that succeeded
    together. What succeeds is kept; of what fails half as much is tried next.

    Arguments:
        land: what judges.
        climbers: the points; those that are not valid stay.
        rest: a block is at rest when what is tried of it is a smaller fraction of the change.
        generator: the generator of bundles.
        part: the fraction of the budget that may be used.
    """
    running = (climbers.miss == 0).nonzero().flatten()
    masks = _bundles(land, generator)
    fraction = torch.ones((len(climbers), len(masks)), dtype=torch.float64, device=masks.device)
    fraction[:, -1] = 0.5
    for round_ in range(_ROUNDS):
        if land.blocks > BUNDLES and round_ % _NEW_BUNDLES == _NEW_BUNDLES - 1:
            masks = _bundles(land, generator)
            fraction[:, :-1] = fraction[:, -1:]
        running = running[land.affords(climbers.rows[running], part)]
        here, tries = climbers[running], fraction[running]
        way = land.home[here.rows] - here.at
        size = (way / land.unit).double().abs()
        reach = size @ masks.double().T * tries
        tried = reach > rest * size.sum(1, keepdim=True)
        going = tried.any(1)
        running, here = running[going], here[going]
        tries, way, tried = tries[going], way[going], tried[going]
        if not len(running):
            return
        step = (masks[None] * tries[:, :, None]).to(way)
        points, seen = judge(land, here, here.at[:, None] + step * way[:, None], tried)
        good = (seen.miss == 0) & (seen.loss < here.loss[:, None])
        several = (good.sum(1) > 1)[:, None]
        joint = (masks[None] * torch.where(good, tries, 0.0)[:, :, None]).amax(1).to(way)
        both, seen_both = judge(land, here, (here.at + joint * way)[:, None], several)
        here.take(
            torch.cat([points, both], 1),
            Seen(*(torch.cat(pair, 1) for pair in zip(seen, seen_both, strict=True))),
        )
        climbers.put(running, here)
        fraction[running] = torch.where(good | ~tried, tries, tries / 2)
        yield


def _bundles(land: Landscape, generator: torch.Generator) -> Tensor:
    """Which features are put back together: each block, or bundles of them, and all: `(Q, p)`."""
    count = min(land.blocks, BUNDLES)
    bundle = torch.arange(land.blocks)
    if land.blocks > count:
        bundle = torch.randperm(land.blocks, generator=generator) % count
    bundle = torch.cat([bundle, torch.tensor([-1])]).to(land.block_of.device)[land.block_of]
    masks = bundle == torch.arange(count, device=bundle.device)[:, None]
    return torch.cat([masks, (bundle >= 0)[None]])
