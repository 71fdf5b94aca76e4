"""What a worker does: describe, decide, check, explain and draw."""

from __future__ import annotations

import base64
import io
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from cfopt.criteria import Absolute, Criterion, Epsilon, Relative
from cfopt.errors import CfoptError, InputError
from cfopt.explain import explain
from cfopt.explanation import Explanation
from cfopt.pipeline import relative_regret
from cfopt.plots.parts import host
from cfopt.report.naming import decision_name
from cfopt.report.pictures import Gallery, galleries
from cfopt.report.tasks import task_views
from cfopt.search import Search
from cfopt.task import Task
from cfopt.types import Moving, Points, Progress, Status
from cfopt.web.pictures import Canvas
from cfopt.web.requests import Context, Decide, Explain, Wanted
from cfopt.web.routes import alone, along, drawing, route
from cfopt.web.scenes import Means, Scene
from cfopt.web.views import ImageView, plain

#: Seconds between two reports of a search, and how many maps have a thumbnail.
_EVERY, _THUMBNAILS = 0.2, 48

Tell = Callable[[dict[str, Any]], None]


class Stopped(BaseException):
    """Raised within a search that is no longer wanted; no search may catch it by mistake."""


class Work:
    """Answers the calls of the server with what the pipelines say.

    Arguments:
        scenes: the pipelines by name.
        stopped: whether the current call is no longer wanted.
    """

    def __init__(self, scenes: dict[str, Scene], stopped: Callable[[], bool]) -> None:
        self._scenes, self._stopped = scenes, stopped

    def do(self, command: str, arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
        """Answer one call; `tell` is for news on the way."""
        if command == "explain":
            return self._explain(Explain.model_validate(arguments), tell)
        quick: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "decide": lambda given: self._decide(Decide.model_validate(given)),
            "check": lambda given: self._check(Explain.model_validate(given)),
            "context": self._context,
            "thumbnails": self._thumbnails,
            "draw": self._draw,
        }
        return quick[command](arguments)

    def _decide(self, asked: Decide) -> dict[str, Any]:
        scene = self._scene(asked.pipeline)
        return self._shown(scene, self._read(scene, asked.context))

    def _context(self, arguments: dict[str, Any]) -> dict[str, Any]:
        scene, row = self._scene(arguments["pipeline"]), arguments["row"]
        shown = self._shown(scene, self._stored(scene, row))
        return shown | {"label": scene.labels[row], "row": row}

    def _shown(self, scene: Scene, context: Tensor) -> dict[str, Any]:
        """A context, its costs and what is decided there."""
        x, problem = context[None], scene.pipeline.problem
        with torch.no_grad():
            costs = scene.pipeline.costs(x)
        if not bool(costs.isfinite().all()):
            raise InputError("The predictor's costs for this context are not finite.")
        return scene.view.show(context) | self._decided(scene, costs, problem.solve(costs))

    def _decided(
        self, scene: Scene, costs: Tensor, decision: Tensor, picture: str = ""
    ) -> dict[str, Any]:
        """A decision over its costs: `(1, n), (1, m)`."""
        problem = scene.pipeline.problem
        prices, chosen = host(problem.prices(costs.detach().double())[0]), host(decision[0])
        name = decision_name(problem, chosen)
        shown: dict[str, Any] = {
            "costs": plain(costs),
            "decision": plain(decision),
            "value": _finite(float(prices @ chosen)),
            "name": name,
            "path": route(problem, chosen),
        }
        if scene.view.kind == "table":
            shown["drawing"] = picture or drawing(problem, prices, chosen, name)
        return shown

    def _thumbnails(self, arguments: dict[str, Any]) -> dict[str, Any]:
        scene = self._scene(arguments["pipeline"])
        return {"png": _canvas(scene).sprite(scene.contexts[:_THUMBNAILS])}

    def _check(self, asked: Explain) -> dict[str, Any]:
        """Try everything but the search; what is wrong is told in the library's words.

        Returns the request as it is to be remembered: an image in the size that was searched.
        """
        scene = self._scene(asked.pipeline)
        tried = self._run(scene, asked, search=_Tried())
        if tried.status[0] is Status.REJECTED:
            raise InputError(tried.message[0][:1].upper() + tried.message[0][1:] + ".")
        kept = asked.model_dump(mode="json", exclude_none=True)
        if asked.context.image is not None:
            uri = _canvas(scene).uri(tried.x0[0])
            kept["context"] = {"image": uri.partition(",")[2]}
        return kept

    def _explain(self, asked: Explain, tell: Tell) -> dict[str, Any]:
        scene, start = self._scene(asked.pipeline), time.perf_counter()
        news = _News(scene, self._means(scene, asked), self._stopped, tell)
        e = self._run(scene, asked, on_progress=news)
        return {
            "result": _told(self, scene, e) | {"seconds": time.perf_counter() - start},
            "explanation": e.to_json(),
        }

    def _run(self, scene: Scene, asked: Explain, **how: Any) -> Explanation:
        means = self._means(scene, asked)
        x = self._read(scene, asked.context)[None]
        search, reference = how.pop("search", means.search), means.reference
        if isinstance(search, _Tried):
            reference = None  # which is a search of its own
        elif isinstance(asked.question.alternative, Wanted) and reference is not None:
            row = asked.question.alternative.row
            if row is not None:  # there the alternative is known to be the best
                reference = torch.cat([scene.contexts[row : row + 1], reference])
        return explain(
            x,
            scene.pipeline,
            self._criterion(scene, asked),
            generative=means.generative,
            proximity=means.proximity,
            plausibility=means.plausibility,
            search=search,
            features=scene.view.limited(asked.features),
            reference=reference,
            margin=asked.question.margin,
            **how,
        )

    def _means(self, scene: Scene, asked: Explain) -> Means:
        if asked.plausible and scene.plausible is None:
            raise InputError(
                f"{scene.title} has no generative model, so that plausible needs to be false."
            )
        wanted = asked.plausible is not False and scene.plausible is not None
        return scene.plausible if wanted and scene.plausible is not None else scene.naive

    def _criterion(self, scene: Scene, asked: Explain) -> Criterion:
        question, problem = asked.question, scene.pipeline.problem
        if question.kind == "epsilon":
            assert question.epsilon is not None
            return Epsilon(question.epsilon)
        wanted = question.alternative
        if isinstance(wanted, Wanted) and wanted.row is not None:
            row = self._stored(scene, wanted.row)
            decision = scene.pipeline.decide(row[None])
        elif isinstance(wanted, Wanted):
            assert wanted.path is not None
            decision = torch.from_numpy(along(problem, wanted.path))[None]
        else:
            decision = torch.tensor([wanted], dtype=torch.float64)
        return Relative(decision) if question.kind == "relative" else Absolute(decision)

    def _scene(self, name: str) -> Scene:
        if name not in self._scenes:
            raise InputError(f"There is no pipeline {name!r}.")
        return self._scenes[name]

    def _read(self, scene: Scene, sent: Context) -> Tensor:
        return scene.view.read(sent) if sent.row is None else self._stored(scene, sent.row)

    def _stored(self, scene: Scene, row: int) -> Tensor:
        if row >= len(scene.contexts):
            raise InputError(
                f"There is no row {row}: {scene.title} has rows 0 to {len(scene.contexts) - 1}."
            )
        return scene.contexts[row]

    def _draw(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The picture of an explanation, in base64."""
        import matplotlib.pyplot as plt

        problem = self._scene(arguments["pipeline"]).pipeline.problem
        figure = Explanation.from_json(arguments["explanation"], problem).plot()
        file = io.BytesIO()
        figure.savefig(file, format="png")
        plt.close(figure)
        return {"png": base64.b64encode(file.getvalue()).decode("ascii")}


def _told(work: Work, scene: Scene, e: Explanation) -> dict[str, Any]:
    """An explanation of one row for the page, in the words of the report."""
    table = scene.view.kind == "table"
    problem, gallery = scene.pipeline.problem, galleries(e)[0] if table else Gallery()
    view = task_views(e, [gallery])[0]
    drawn = [alone(problem, picture.drawing) for picture in gallery.pictures]
    drawn += [""] * (2 - len(drawn))
    asked = e.alternative if e.criterion.contrasts else e.factual
    sides = {}
    for side, x, costs, decision, picture in (
        ("before", e.x0, e.costs_before, e.factual, drawn[0]),
        ("after", e.x, e.costs, e.decision, drawn[1]),
    ):
        sides[side] = scene.view.show(x[0]) | work._decided(scene, costs, decision, picture)
        sides[side]["regret"] = _finite(float(relative_regret(problem, asked, costs)[0]))
    return {
        "status": str(view.status),
        "valid": bool(e.valid[0]),
        "question": view.question,
        "verdict": view.verdict,
        "message": e.message[0],
        "asked": view.asked,
        "compared": [asdict(one) for one in view.compared],
        "changes": asdict(view.changes),
        "proof": list(view.proof),
        "plausibility": list(view.plausibility),
        "rating": view.rating,
        "effort": view.effort,
        "distance": view.distance,
        "optimal": view.optimal,
        "tie": bool(e.tie[0]),
        "steps": view.steps,
        "solves": int(e.solves[0]),
        "captions": [picture.caption for picture in gallery.pictures],
        "asked_decision": plain(asked),
        "asked_path": route(problem, host(asked[0])),
        "factual_decision": plain(e.factual),
        "factual_path": route(problem, host(e.factual[0])),
        "regret_before": sides["before"]["regret"],
        "regret_after": sides["after"]["regret"],
        **sides,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _canvas(scene: Scene) -> Canvas:
    if not isinstance(scene.view, ImageView):
        raise InputError(f"{scene.title} has no images.")
    return scene.view.canvas


@dataclass(frozen=True)
class _Tried(Search):
    """Lets the contexts themselves be the answer, so that all else is checked."""

    def steps(self, task: Task) -> Iterator[Progress]:
        """One report, of all rows."""
        count = len(task)
        none = torch.zeros(count, dtype=torch.long)
        points = Points(torch.arange(count), task.home, none.bool(), none, none, none)
        yield Progress(0, 0, count, points)


class _News:
    """Tells where a search is, a few times a second, and ends it when it is not wanted."""

    def __init__(self, scene: Scene, means: Means, stopped: Callable[[], bool], tell: Tell) -> None:
        self._scene, self._means, self._stopped, self._tell = scene, means, stopped, tell
        self._last = 0.0

    def __call__(self, progress: Progress) -> None:
        if self._stopped():
            raise Stopped
        now = time.perf_counter()
        if now - self._last < _EVERY:
            return
        self._last = now
        self._tell({"step": progress.step} | self._where(progress.moving))

    def _where(self, moving: Moving | None) -> dict[str, Any]:
        if moving is None or not len(moving.at):
            return {}
        at = moving.at[-1:]  # of several starts the last
        generative, pipeline = self._means.generative, self._scene.pipeline
        with torch.no_grad():
            x = at if generative is None else generative.decode(at)
            x = x.reshape(1, *self._scene.contexts.shape[1:])
            costs = pipeline.predict(x)
            decision = pipeline.problem.solve(costs)
        path = route(pipeline.problem, host(decision[0]))
        return self._scene.view.show(x[0]) | {"path": path, "decision": plain(decision)}


def sentence(error: Exception) -> str:
    """What went wrong, for a reader who did not write the code."""
    if isinstance(error, CfoptError):
        return str(error)
    return f"The pipeline fails: {' '.join(f'{type(error).__name__}: {error}'.split())}"
