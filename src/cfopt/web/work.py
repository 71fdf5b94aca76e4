"""What a worker does: describe, decide, check, explain and draw."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cfopt.criteria import Absolute, Criterion, Epsilon, Relative
from cfopt.errors import CfoptError, InputError
from cfopt.explain import explain
from cfopt.explanation import Explanation
from cfopt.search import Search
from cfopt.task import Task
from cfopt.types import Points, Progress, Status
from cfopt.web.pictures import Canvas
from cfopt.web.requests import Context, Decide, Explain, Wanted
from cfopt.web.routes import along
from cfopt.web.scenes import Means, Scene
from cfopt.web.telling import News, Tell, decided, told
from cfopt.web.views import ImageView

#: How many maps have a thumbnail.
_THUMBNAILS = 48


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
        return decided(scene, self._read(scene, asked.context))

    def _context(self, arguments: dict[str, Any]) -> dict[str, Any]:
        scene, row = self._scene(arguments["pipeline"]), arguments["row"]
        return decided(scene, self._stored(scene, row)) | {"label": scene.labels[row], "row": row}

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
        news = News(scene, self._means(scene, asked), self._stopped, tell)
        e = self._run(scene, asked, on_progress=news)
        return {
            "result": told(scene, e) | {"seconds": time.perf_counter() - start},
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
                f"{scene.title.title} has no generative model, so that plausible needs to be false."
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
                f"There is no row {row}: {scene.title.title} has rows 0 to "
                f"{len(scene.contexts) - 1}."
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


def _canvas(scene: Scene) -> Canvas:
    if not isinstance(scene.view, ImageView):
        raise InputError(f"{scene.title.title} has no images.")
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


def sentence(error: Exception) -> str:
    """What went wrong, for a reader who did not write the code."""
    if isinstance(error, CfoptError):
        return str(error)
    return f"The pipeline fails: {' '.join(f'{type(error).__name__}: {error}'.split())}"
