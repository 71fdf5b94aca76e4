"""What the page learns: a context and its decision, a search on its way, and its result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.drawing.panel import Line, Panel, host, price_range
from cfopt.drawing.redrawn import origin_of
from cfopt.drawing.svg import draw
from cfopt.engine.progress import Moving, Progress
from cfopt.errors import InputError
from cfopt.generative.protocol import GenerativeModel
from cfopt.pipeline import relative_regret
from cfopt.problems.scene import Scene
from cfopt.report.pictures import Gallery, galleries
from cfopt.report.tasks import task_views
from cfopt.result.explanation import Explanation
from cfopt.result.nearness import measured
from cfopt.web.served import ServedPipeline
from cfopt.web.views import plain

#: Seconds between two reports of a search.
_EVERY = 0.2

Tell = Callable[[dict[str, Any]], None]


class Stopped(BaseException):
    """Raised within a search that is no longer wanted; no search may catch it by mistake."""


def decided(served: ServedPipeline, context: Tensor) -> dict[str, Any]:
    """A context `(...)`, its costs and what is decided there."""
    with torch.no_grad():
        costs = served.pipeline.costs(context[None])
    if not bool(costs.isfinite().all()):
        raise InputError("The predictor's costs for this context are not finite.")
    decision = served.pipeline.problem.solve(costs)
    return served.view.show(context) | _chosen(served, costs, decision)


def _chosen(
    served: ServedPipeline, costs: Tensor, decision: Tensor, picture: str = ""
) -> dict[str, Any]:
    """A decision over its costs: `(1, n), (1, m)`."""
    problem = served.pipeline.problem
    prices, chosen = host(problem.prices(costs.detach().double())[0]), host(decision[0])
    drawn = problem.cached_scene
    name = drawn.name_of(chosen)
    shown: dict[str, Any] = {
        "costs": plain(costs),
        # Of every column: costs, and fixed prices that are not predicted.
        "prices": [_finite(price) for price in prices.tolist()],
        "decision": plain(decision),
        "value": _finite(float(prices @ chosen)),
        "name": name,
        "path": drawn.path_of(chosen),
    }
    if served.view.kind != "map":  # which the page draws on the image itself
        shown["drawing"] = picture or _drawing(drawn, prices, chosen, name)
    return shown


def _drawing(scene: Scene, prices: Array, decision: Array, label: str) -> str:
    """A decision over its prices, as SVG that needs no other element of the page."""
    # Bars show where two decisions differ: against nothing, all that is taken.
    nothing = Line(np.zeros(len(decision)), "other")
    weak = (nothing,) if scene.kind == "bars" else ()
    panel = Panel(scene, prices, Line(decision, "factual"), weak, *price_range([prices]), label)
    return draw(panel, standalone=True)


def explained(served: ServedPipeline, e: Explanation) -> dict[str, Any]:
    """An explanation of one row, in the words of the report."""
    route = served.pipeline.problem.cached_scene.path_of
    # Maps are drawn by the page itself, on the images of both sides.
    gallery = galleries(e, standalone=True)[0] if served.view.kind == "table" else Gallery()
    view = task_views(e, [gallery])[0]
    drawn = [str(picture.drawing) for picture in gallery.pictures]
    drawn += [""] * (2 - len(drawn))
    asked = e.alternative if e.criterion.contrasts else e.factual
    sides = {
        "before": _side(served, e.x0, e.costs_before, e.factual, asked, drawn[0]),
        "after": _side(served, e.x, e.costs, e.decision, asked, drawn[1]),
    }
    # All that the report's page is given; its pictures are sent with the sides.
    words = asdict(replace(view, gallery=Gallery()))
    for name in ("number", "label", "gallery"):
        del words[name]
    return {
        **words,
        "redrawn": _redrawn(served, e),
        "valid": bool(e.valid[0]),
        "message": e.message[0],
        "measured": measured(e),
        "tie": bool(e.tie[0]),
        "solves": int(e.solves[0]),
        "captions": [picture.caption for picture in gallery.pictures],
        "asked_decision": plain(asked),
        "asked_path": route(host(asked[0])),
        "factual_decision": plain(e.factual),
        "factual_path": route(host(e.factual[0])),
        "regret_before": sides["before"]["regret"],
        "regret_after": sides["after"]["regret"],
        **sides,
    }


def _redrawn(served: ServedPipeline, e: Explanation) -> dict[str, Any] | None:
    """What the generative model alone makes of the image, if the answer is measured from there."""
    origin = origin_of(e)
    if not origin.redrawn or served.view.kind == "table" or e.latent is None:
        return None
    chosen = _chosen(served, origin.costs[None], e.latent.decision)
    return served.view.show(origin.context) | chosen


def _side(
    served: ServedPipeline, x: Tensor, costs: Tensor, decision: Tensor, asked: Tensor, picture: str
) -> dict[str, Any]:
    """Before or after: the context, the decision there, and the regret of the one asked about."""
    regret = float(relative_regret(served.pipeline.problem, asked, costs)[0])
    shown = served.view.show(x[0]) | _chosen(served, costs, decision, picture)
    return shown | {"regret": _finite(regret)}


class News:
    """Reports where a search is, a few times a second, and ends it when it is no longer wanted.

    Arguments:
        served: the pipeline whose contexts are searched.
        generative: the model whose codes are searched, if any.
        stopped: whether the search is no longer wanted.
        tell: called with the news.
    """

    def __init__(
        self,
        served: ServedPipeline,
        generative: GenerativeModel | None,
        stopped: Callable[[], bool],
        tell: Tell,
    ) -> None:
        self._served, self._generative = served, generative
        self._stopped, self._tell, self._last = stopped, tell, 0.0

    def __call__(self, progress: Progress) -> None:
        """Take in the search's own report."""
        if self._stopped():
            raise Stopped
        now = time.perf_counter()
        if now - self._last >= _EVERY:
            self._tell({"step": progress.step} | self._where(progress.moving))
            # After the report: its own cost must not take all of the time.
            self._last = time.perf_counter()

    def _where(self, moving: Moving | None) -> dict[str, Any]:
        if moving is None or not len(moving.at):
            return {}
        at, generative, pipeline = moving.at[-1:], self._generative, self._served.pipeline
        with torch.no_grad():
            x = at if generative is None else generative.decode(at)
            x = x.reshape(1, *self._served.contexts.shape[1:])
            decision = pipeline.problem.solve(pipeline.predict(x))
        path = pipeline.problem.cached_scene.path_of(host(decision[0]))
        return self._served.view.show(x[0]) | {"path": path, "decision": plain(decision)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
