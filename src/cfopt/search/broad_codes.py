"""Long codes: a search moves them in the few directions in which most contexts differ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real

from cfopt.engine.progress import Moving, Progress
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.generative.protocol import broad_directions
from cfopt.search.base import Search, check_whole, needs_gradient


@dataclass(frozen=True)
class BroadCodes(Search):
    """Lets a search move long codes in a few broad directions only.

    Single entries of codes that lie in a grid change a cell or two. Known contexts seldom differ in
    so little: such patches are next to noise, and gone once another model redraws the context. What
    contexts differ in are whole regions. So codes move in the directions in which contexts vary
    most, as far as the model names them (`broad_directions`). Where plausibility is asked for, each
    unit of squared change costs something besides: of two changes that are as near, the more usual
    one is taken.

    Rows without an answer are left to another search, such as `FewCodes`.

    Arguments:
        search: a search among codes.
        directions: how many directions it has.
        stray: what a unit of squared change of the code costs, in the unit of the loss.
    """

    search: Search
    directions: int = 128
    stray: float = 0.25

    def __post_init__(self) -> None:
        check_whole(self, directions=1)
        if not isinstance(self.stray, Real) or not 0 <= self.stray < math.inf:
            raise InputError(
                f"BroadCodes needs a finite number >= 0 for stray, got {self.stray!r}."
            )

    def refusal(self, task: Task) -> str:
        """Needs long codes, a model that names their broad directions, and a gradient."""
        latent = task.space.latent
        if latent is None:
            return "contexts are searched; use Auto()"
        if latent.codes.shape[1] <= self.directions:
            return f"codes have no more than {self.directions} entries; use the search itself"
        if task.space.proximity.between_codes:
            return "codes are compared entry by entry; use FewCodes(...)"
        if task.space.start is not None:
            return "it begins at factual codes; use FewCodes(...)"
        if broad_directions(latent.model, self.directions) is None:
            return "the generative model names no broad directions; use FewCodes(...)"
        return needs_gradient(task) or self.search.refusal(task)

    def steps(self, task: Task) -> Iterator[Progress]:
        """As the search does, with its points as whole codes."""
        self.check(task)
        narrow = self._narrowed(task)
        latent = narrow.space.latent
        assert latent is not None
        for progress in self.search.steps(narrow):
            finished, moving = progress.finished, progress.moving
            if finished is not None:
                finished = replace(finished, x=latent[finished.rows].full(finished.x))
            if moving is not None:
                moving = Moving(moving.rows, latent[moving.rows].full(moving.at))
            yield replace(progress, finished=finished, moving=moving)

    def _narrowed(self, task: Task) -> Task:
        """The task in broad directions, from the codes of the factual contexts."""
        latent = task.space.latent
        assert latent is not None
        directions = broad_directions(latent.model, self.directions)
        assert directions is not None
        directions = directions.to(latent.codes)
        home = latent.codes.new_zeros((len(task), directions.shape[1]))
        few = replace(
            latent, codes=home, base=latent.codes, directions=directions, stray=self.stray
        )
        return replace(task, space=replace(task.space, latent=few))
