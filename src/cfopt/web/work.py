"""What a worker does: describe, decide, check, explain and draw."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from cfopt.errors import CfoptError, InputError
from cfopt.explaining.explain import answer
from cfopt.explaining.pose import to_try
from cfopt.question import Question
from cfopt.question.ball import Ball
from cfopt.question.prices import Prices
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status
from cfopt.web.familiar import unlike
from cfopt.web.pictures import Canvas
from cfopt.web.presenter import News, Tell, decided, explained
from cfopt.web.questions import criterion_of
from cfopt.web.requests import Context, Decide, Explain, Wanted
from cfopt.web.served import ServedPipeline
from cfopt.web.views import ImageView

#: How many maps have a thumbnail.
_THUMBNAILS = 48


class Work:
    """Answers the calls of the server with what the pipelines say.

    Arguments:
        pipelines: the pipelines by name.
        stopped: whether the current call is no longer wanted.
    """

    def __init__(self, pipelines: dict[str, ServedPipeline], stopped: Callable[[], bool]) -> None:
        self._pipelines, self._stopped = pipelines, stopped
        #: The explanation whose answer the current call continues from.
        self._origin: Explanation | None = None

    def do(self, command: str, arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
        """Answer one call; `tell` is for news on the way."""
        given = arguments.get("origin")
        self._origin = None if given is None else Explanation.from_json(given)
        arguments = {key: value for key, value in arguments.items() if key != "origin"}
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
        served = self._served(asked.pipeline)
        context = self._read(served, asked.context)
        shown = decided(served, context)
        return shown | {"unlike": unlike(served, context)} if asked.familiar else shown

    def _context(self, arguments: dict[str, Any]) -> dict[str, Any]:
        served, row = self._served(arguments["pipeline"]), arguments["row"]
        shown = decided(served, self._stored(served, row))
        return shown | {"label": served.labels[row], "row": row}

    def _thumbnails(self, arguments: dict[str, Any]) -> dict[str, Any]:
        served = self._served(arguments["pipeline"])
        return {"png": _canvas(served).sprite(served.contexts[:_THUMBNAILS])}

    def _check(self, asked: Explain) -> dict[str, Any]:
        """Try everything but the search; what is wrong is reported in the library's words.

        Returns the request as it is to be remembered: an image in the size that was searched.
        """
        served = self._served(asked.pipeline)
        question = self._question(served, asked)
        context = self._read(served, asked.context)[None]
        tried = answer(context, served.pipeline, to_try(question))
        if tried.status[0] is Status.REJECTED:
            decided(served, tried.x0[0])  # a failing solver is not the request's fault
            raise InputError(tried.message[0][:1].upper() + tried.message[0][1:] + ".")
        kept = asked.model_dump(mode="json", exclude_none=True)
        if asked.context.image is not None:
            uri = _canvas(served).uri(tried.x0[0])
            kept["context"] = {"image": uri.partition(",")[2]}
        return kept

    def _explain(self, asked: Explain, tell: Tell) -> dict[str, Any]:
        served, start = self._served(asked.pipeline), time.perf_counter()
        question = self._question(served, asked)
        news = News(served, question.generative, self._stopped, tell)
        e = answer(self._read(served, asked.context)[None], served.pipeline, question, news)
        return {
            "result": explained(served, e) | {"seconds": time.perf_counter() - start},
            "explanation": e.to_json(),
        }

    def _question(self, served: ServedPipeline, asked: Explain) -> Question:
        """What is asked, in the terms of the library."""
        if asked.plausible and served.plausible is None:
            raise InputError(
                f"{served.title.title} has no generative model. Set plausible to false."
            )
        ask = served.naive
        if asked.plausible is not False and served.plausible is not None:
            ask = served.plausible
        wanted = asked.question.alternative
        alternative = None if wanted is None else self._decision(served, wanted)
        question = ask(
            criterion_of(asked.question, alternative, served.pipeline.problem),
            margin=asked.question.margin,
            features=served.view.limited(asked.features),
            robust=None if asked.robust is None else Ball(asked.robust),
        )
        question = replace(
            question,
            options=asked.question.options,
            prices=Prices() if asked.prices else None,
            time_limit=served.time_limit if asked.time_limit is None else asked.time_limit,
        )
        if question.reference is None or not isinstance(wanted, Wanted) or wanted.row is None:
            return question
        # The first to start from is where the alternative is known to be the best.
        known = torch.cat([self._stored(served, wanted.row)[None], question.reference])
        return replace(question, reference=known)

    def _decision(self, served: ServedPipeline, wanted: Wanted | list[float]) -> Tensor:
        """An alternative, `(1, m)`."""
        if not isinstance(wanted, Wanted):
            return torch.tensor([wanted], dtype=torch.float64)
        if wanted.row is not None:
            return served.pipeline.decide(self._stored(served, wanted.row)[None])
        assert wanted.path is not None
        return torch.from_numpy(served.pipeline.problem.cached_scene.decision_of(wanted.path))[None]

    def _served(self, name: str) -> ServedPipeline:
        if name not in self._pipelines:
            raise InputError(f"There is no pipeline {name!r}.")
        return self._pipelines[name]

    def _read(self, served: ServedPipeline, sent: Context) -> Tensor:
        if self._origin is not None:
            return self._origin.x[0].to(served.contexts.dtype)
        return served.view.read(sent) if sent.row is None else self._stored(served, sent.row)

    def _stored(self, served: ServedPipeline, row: int) -> Tensor:
        if row >= len(served.contexts):
            raise InputError(
                f"There is no row {row}: {served.title.title} has rows 0 to "
                f"{len(served.contexts) - 1}."
            )
        return served.contexts[row]

    def _draw(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The picture of an explanation, in base64."""
        import matplotlib.pyplot as plt

        problem = self._served(arguments["pipeline"]).pipeline.problem
        figure = Explanation.from_json(arguments["explanation"], problem).plot()
        file = io.BytesIO()
        figure.savefig(file, format="png")
        plt.close(figure)
        return {"png": base64.b64encode(file.getvalue()).decode("ascii")}


def _canvas(served: ServedPipeline) -> Canvas:
    if not isinstance(served.view, ImageView):
        raise InputError(f"{served.title.title} has no images.")
    return served.view.canvas


def sentence(error: Exception) -> str:
    """What went wrong, for a reader who did not write the code."""
    said = str(error) if isinstance(error, CfoptError) else f"{type(error).__name__}: {error}"
    return f"The pipeline fails: {' '.join(said.split())}"
