"""What the pictures share: words, prices, scales, and how a figure begins and ends."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch import Tensor

from cfopt.certificate import Clash
from cfopt.errors import InputError
from cfopt.explanation import Explanation
from cfopt.plots.decisions import Mark
from cfopt.plots.style import ALTERNATIVE, FACTUAL, INK
from cfopt.types import Array, Sense, Status

#: How many features, or limits, a picture names.
SHOWN = 12


def refuse_rejected(e: Explanation) -> None:
    """Raise InputError if a row was rejected."""
    for row, status in enumerate(e.status):
        if status is Status.REJECTED:
            raise InputError(
                f"There is nothing to draw, the row was rejected: {e.message[row]}."
                if len(e) == 1
                else f"There is nothing to draw for row {e.label(row)}, which was rejected: "
                f"{e.message[row]}. Leave it out."
            )


def finish(figure: Figure, path: str | Path | None) -> Figure:
    """The figure, saved if a path is given; its texts are as they are written, and no formulas."""
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a feature may be called "cost in $"
    if path is not None:
        figure.savefig(path)
    return figure


def verdict(e: Explanation) -> str:
    """How the first row ended, as a sentence."""
    return f"{e.status[0].capitalize()}: {e.message[0]}."


def other_name(e: Explanation) -> str:
    """What to call the decision that is compared with the factual one."""
    return "the alternative" if e.criterion.contrasts else "what is best then"


def value_verb(e: Explanation) -> str:
    """How a decision's value is said."""
    return "costs" if e.sense is Sense.MIN else "is worth"


def host(values: Tensor) -> Array:
    """A tensor as an array of float64."""
    array: Array = values.detach().double().cpu().numpy()
    return array


def prices(e: Explanation, name: str) -> Array:
    """The price of each column in the first row, at `costs_before` or at `costs`: `(m,)`."""
    costs = getattr(e, name).double().cpu()
    if e.problem is None and costs.shape != e.factual.shape:
        raise InputError(
            "The picture needs the fixed costs of the problem. Read the explanation with "
            "from_json(path, problem=...)."
        )
    return host((costs if e.problem is None else e.problem.prices(costs))[0])


def shared_scale(parts: Iterable[Array]) -> Normalize:
    """One range for the prices of several panels."""
    values = np.concatenate(list(parts))
    values = values[np.isfinite(values)]
    return Normalize(values.min(), values.max()) if values.size else Normalize(0, 1)


def marks(e: Explanation) -> tuple[Mark, Mark]:
    """The factual decision of the first row, and the one it is compared with."""
    return Mark(host(e.factual[0]), FACTUAL), Mark(host(e.alternative[0]), ALTERNATIVE)


def reasons(axes: Axes, clash: Clash) -> None:
    """The limits on the context that take part in a clash, in words."""
    axes.set_axis_off()
    parts = [("Limits that take part", clash.limits), ("Locked, and taking part", clash.locked)]
    lines = [f"{title}:\n  " + "\n  ".join(_first(names)) for title, names in parts if names]
    text = "\n\n".join(lines) or "No limit takes part:\nit is so in every context."
    axes.text(0.05, 0.95, text, va="top", fontsize=10, color=INK, transform=axes.transAxes)


def _first(names: tuple[str, ...]) -> list[str]:
    more = [f"... and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return [*names[:SHOWN], *more]


def obstacle_title(count: int) -> str:
    """What a panel with the decisions of a clash is called."""
    if not count:
        return "No context helps"
    return f"In its way: {min(count, 2)} of {count} decisions" if count > 2 else "In its way"
