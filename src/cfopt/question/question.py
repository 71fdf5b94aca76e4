"""One question: what is asked of every context, and how an answer is looked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cfopt._batch import ROWS, Batch
from cfopt.question.criterion import Criterion
from cfopt.question.features import Features
from cfopt.question.plausibility import Plausibility
from cfopt.question.prices import Prices
from cfopt.question.proximity import L2, Latent, Proximity
from cfopt.question.robustness import Robustness

if TYPE_CHECKING:  # both stand on criteria
    from cfopt.generative.protocol import GenerativeModel
    from cfopt.search.base import Search


@dataclass(frozen=True, eq=False)
class Question(Batch):
    """What `explain` is asked, whether in Python, by a configuration or over HTTP.

    An explanation keeps it as `asked`, without the generative model and the reference, and so does
    its JSON.

    Arguments:
        criterion: what must hold.
        margin: the fraction by which the criterion must hold.
        proximity: what to keep small; None for `L2()`; in an explanation, if its file does not say.
        plausibility: what codes should be like, if that matters.
        search: how to search; None for `Auto()`; in an explanation, if its file does not say.
        features: names and scales of the features, and what they may be.
        generative: the model whose codes are searched, if any.
        reference: known contexts, if any.
        time_limit: seconds after which rows without an answer end as best effort; None for no end.
        robust: what answers have to stand up to, if anything.
        options: how many answers that differ in kind are looked for, at most.
        prices: what is asked about the costs besides, if anything.
    """

    criterion: Criterion = field(metadata=ROWS)
    margin: float = 0.0
    proximity: Proximity | None = None
    plausibility: Plausibility | None = None
    search: Search | None = None
    features: Features = field(default_factory=Features)
    generative: GenerativeModel | None = None
    reference: Any = None
    time_limit: float | None = None
    robust: Robustness | None = None
    options: int = 1
    prices: Prices | None = None

    def kept(self, criterion: Criterion, features: Features) -> Question:
        """The question as an explanation keeps it, whose criterion is bound to the rows."""
        robust = None if self.robust is None else self.robust.described()
        own: dict[str, Any] = {"criterion": criterion, "features": features, "robust": robust}
        return replace(self, **own, generative=None, reference=None)

    def near(self, contexts: Tensor) -> Proximity:
        """The proximity between contexts of some shape, `(B, ...)`, in its units.

        Its own scales, or else the features'; codes have none.
        """
        proximity = L2() if self.proximity is None else self.proximity
        scale = self.features.scales
        if scale is not None and proximity.scale is None and not isinstance(proximity, Latent):
            shaped = torch.tensor(scale, dtype=torch.float64).reshape(contexts.shape[1:])
            proximity = replace(proximity, scale=shaped)
        return proximity if isinstance(proximity, Latent) else proximity.bind(contexts)
