"""How usual contexts are: to a generative model, or among known contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from cfopt._batch import ROWS, Batch
from cfopt.generative.protocol import GenerativeModel, log_density, reconstruct
from cfopt.question.local_outlier import Surroundings
from cfopt.result.explanation import Explanation

#: From this percentile on, a context is called unlike those that the model knows.
UNLIKE = 99.5
#: So few known contexts say nothing about what is usual.
_FEWEST = 20
#: Contexts that are looked at together.
_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Typical(Batch):
    """How unusual contexts are, as percentiles of those that are known, `(B,)` each.

    By their reconstruction errors, beside those of contexts that the generative model was not
    trained on, or by its density, if it is one; or by local outlier factors, beside those of the
    reference. 100 means that all of these are more usual.

    Arguments:
        before: the values of the factual contexts.
        after: the values of the contexts that explain; NaN where there is none.
    """

    before: Tensor = field(metadata=ROWS)
    after: Tensor = field(metadata=ROWS)

    def __len__(self) -> int:
        return len(self.before)


def with_typical(e: Explanation, model: GenerativeModel, known: Tensor | None) -> Explanation:
    """The explanation with `typical`, and with a word about contexts that the model does not know.

    Arguments:
        e: found among the codes of a model.
        model: that model. If it has `usual_errors`, sorted errors of held-out contexts, these are
            compared with.
        known: contexts to compare with otherwise, `(N, ...)`; fewer than 20 say nothing.
    """
    own = getattr(model, "usual_errors", None)
    measure, usual = _errors, None
    if isinstance(own, Tensor) and bool(own.isfinite().all()):
        usual = own.double().cpu()
    elif known is not None and len(known) >= _FEWEST:
        measure = _unlikeness
        found = _by(measure, model, known)
        usual = found[found.isfinite()].sort().values
    if usual is None or len(usual) < _FEWEST:
        return e
    # Rows without an answer are not looked at.
    answers = e.x.clone()
    answers[~e.answered] = torch.nan
    before, after = (_percentile(_by(measure, model, x), usual) for x in (e.x0, answers))
    return _with_words(
        e,
        Typical(before, after),
        "; mind that the context itself is unlike those that the generative model knows: to it, "
        "{:.3g}% of them are more usual",
    )


def with_likeness(e: Explanation, known: Surroundings) -> Explanation:
    """The explanation with `typical`, and with a word about contexts unlike the known ones.

    Arguments:
        e: whose answers had to be like known contexts.
        known: these.
    """
    before, after = known.percentile(e.x0), known.percentile(e.x)
    return _with_words(
        e,
        Typical(before, torch.where(e.answered.cpu(), after, torch.nan)),
        "; mind that the context itself is unlike those that are known: its local outlier factor "
        "is above that of {:.3g}% of them",
    )


def _with_words(e: Explanation, typical: Typical, unlike: str) -> Explanation:
    """The explanation with how usual its contexts are, and a word where they are not."""
    messages = [
        text + (unlike.format(p) if p >= UNLIKE else "")
        for text, p in zip(e.message, typical.before.tolist(), strict=True)
    ]
    return replace(e, typical=typical, message=tuple(messages))


def _unlikeness(model: GenerativeModel, x: Tensor) -> Tensor:
    """How surprising contexts are to a density, or else how badly they are reconstructed: `(B,)`.

    An invertible model reconstructs everything: what is left is rounding, which says nothing.
    """
    density = log_density(model, x)
    return _errors(model, x) if density is None else -density


def _errors(model: GenerativeModel, x: Tensor) -> Tensor:
    """`|x - d(e(x))|^2` of each row, `(B,)`."""
    return (x - reconstruct(model, x)).flatten(1).double().square().sum(1)


@torch.no_grad()
def _by(
    measure: Callable[[GenerativeModel, Tensor], Tensor], model: GenerativeModel, x: Tensor
) -> Tensor:
    """What a measure says of each row, some rows at a time, `(B,)`; NaN where x is not finite."""
    found = torch.full((len(x),), torch.nan, dtype=torch.float64)
    finite = x.flatten(1).isfinite().all(1).nonzero().flatten()
    for rows in torch.split(finite, _AT_ONCE) if len(finite) else ():
        found[rows.cpu()] = measure(model, x[rows]).double().cpu()
    return found


def _percentile(errors: Tensor, usual: Tensor) -> Tensor:
    below = torch.searchsorted(usual, errors.nan_to_num(0.0)).double()
    return torch.where(errors.isfinite(), 100 * below / len(usual), torch.nan)
