"""What the server answers: its JSON, and the models that check and describe it."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict


class Plain(JSONResponse):
    """JSON in ASCII: names that are not valid Unicode can be sent as well."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Answer(BaseModel):
    """Data of an answer: a key that is not described is a fault of the server."""

    model_config = ConfigDict(extra="forbid")


class Problem(Answer):
    """What went wrong, in a sentence."""

    detail: str


class Worker(Answer):
    """A worker process: its role and its state; whoever knows a search's id could end it."""

    role: str
    pid: int | None
    state: str


class Health(Answer):
    """The health of the server."""

    status: str
    version: str
    queued: int
    workers: list[Worker]
    faults: dict[str, str]


class Listed(Answer):
    """A pipeline in the list of all."""

    name: str
    title: str
    kind: str
    contexts: int
    ready: bool
    fault: str | None = None


class Column(Answer):
    """An entry of a decision: whether it is whole, or 0 or 1, and its bounds where known."""

    name: str
    integer: bool
    binary: bool
    lower: float | None
    upper: float | None


class Described(Answer):
    """A pipeline: what it reads, what it decides, and what may be changed."""

    name: str
    title: str
    kind: str
    about: str
    contexts: int
    labels: list[str]
    sense: str
    noun: str
    questions: list[dict[str, Any]]
    plausible: bool
    time_limit: float | None
    decision_names: list[str] | None
    columns: list[Column] | None
    scene: dict[str, Any] | None
    features: list[dict[str, Any]] | None = None
    grid: dict[str, Any] | None = None
    terrains: list[dict[str, Any]] | None = None
    size: dict[str, int] | None = None
    ready: bool


class Decided(Answer):
    """A context, the predicted costs, and the decision."""

    values: list[float | None] | None = None
    image: str | None = None
    costs: list[float | None]
    prices: list[float | None]
    decision: list[float | None]
    value: float | None
    name: str
    path: list[list[int] | str] | None
    drawing: str | None = None
    unlike: str | None = None
    label: str | None = None
    row: int | None = None


class Queued(Answer):
    """Where to follow a search."""

    id: str
    status: str
    url: str
    events: str
    page: str


class Task(Answer):
    """A search and, once it is done, its result."""

    id: str
    status: str
    place: int
    seconds: float
    step: int
    message: str
    request: dict[str, Any]
    result: dict[str, Any] | None


_ERRORS = {
    400: "The body cannot be read.",
    403: "The request comes from a page of another origin.",
    404: "It does not exist.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The input is not valid; the detail says why.",
    429: "Too much is already waiting.",
    502: "The pipeline fails: its predictor or solver raises an error for valid input.",
    503: "The workers are loading, or one died.",
    504: "The pipeline took too long.",
}
#: What may happen wherever workers are asked, and to any request with a body.
WORKERS, BODY = (429, 502, 503, 504), (400, 403, 413, 415)
#: What can be done with a search that was started.
FOLLOW = {
    name: {"operationId": name, "parameters": {"name": "$response.body#/id"}}
    for name in ("task", "cancel", "events", "document", "picture")
}


def data(model: Any, words: str, *errors: int) -> dict[str, Any]:
    """How a route answers that gives the data of a model.

    Arguments:
        model: what every answer is checked against.
        words: what it is.
        errors: the statuses that are possible instead.
    """
    return {
        "response_model": model,
        "response_model_exclude_unset": True,
        "response_description": words,
        "responses": _described(errors),
    }


def file(kind: str, words: str, *errors: int) -> dict[str, Any]:
    """How a route answers that gives a file of some media type; otherwise as `data`."""
    given = {200: {"content": {kind: {}}, "description": words}}
    return {"response_class": Response, "responses": given | _described(errors)}


def _described(errors: tuple[int, ...]) -> dict[int, dict[str, Any]]:
    return {code: {"model": Problem, "description": _ERRORS[code]} for code in errors}
