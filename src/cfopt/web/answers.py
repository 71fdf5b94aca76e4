"""What the server answers: its JSON, and the models of the OpenAPI description."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel

Responses = dict[int | str, dict[str, Any]]


class Plain(JSONResponse):
    """JSON in ASCII: names that are not valid Unicode can be sent as well."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Problem(BaseModel):
    """What went wrong, in a sentence."""

    detail: str


class Worker(BaseModel):
    """A worker process: its role, its state, and the task that it works on."""

    role: str
    pid: int | None
    state: str
    task: str | None


class Health(BaseModel):
    """The health of the server."""

    status: str
    version: str
    queued: int
    workers: list[Worker]
    faults: dict[str, str]


class Listed(BaseModel):
    """A pipeline in the list of all."""

    name: str
    title: str
    kind: str
    contexts: int
    ready: bool
    fault: str | None = None


class Column(BaseModel):
    """An entry of a decision: whether it is whole, or 0 or 1, and its bounds where known."""

    name: str
    integer: bool
    binary: bool
    lower: float | None
    upper: float | None


class Described(BaseModel):
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
    decision_names: list[str] | None
    columns: list[Column] | None
    scene: dict[str, Any] | None
    features: list[dict[str, Any]] | None = None
    grid: dict[str, Any] | None = None
    terrains: list[dict[str, Any]] | None = None
    size: dict[str, int] | None = None
    ready: bool


class Decided(BaseModel):
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
    label: str | None = None
    row: int | None = None


class Queued(BaseModel):
    """Where to follow a search."""

    id: str
    status: str
    url: str
    events: str
    page: str


class Task(BaseModel):
    """A search and, once it is done, its result."""

    id: str
    status: str
    place: int
    seconds: float
    step: int
    message: str
    request: dict[str, Any]
    result: dict[str, Any] | None


def _problem(words: str) -> dict[str, Any]:
    return {"model": Problem, "description": words}


_WRONG: Responses = {422: _problem("The input is not valid; the detail says why.")}
_UNKNOWN: Responses = {404: _problem("It does not exist.")}
#: What may happen wherever workers are asked.
_WORKERS: Responses = {
    429: _problem("Too much is already waiting."),
    502: _problem("The pipeline fails: its predictor or solver raises an error for valid input."),
    503: _problem("The workers are loading, or one died."),
    504: _problem("The pipeline took too long."),
}
#: What may happen to any request with a body.
_BODY: Responses = {
    400: _problem("The body cannot be read."),
    403: _problem("The request comes from a page of another origin."),
    413: _problem("The body is too large."),
    415: _problem("The body is not JSON."),
}


def _answer(model: Any, words: str, status: int = 200) -> Responses:
    return {status: {"model": model, "description": words}}


def _file(kind: str, words: str) -> Responses:
    return {200: {"content": {kind: {}}, "description": words}}


HEALTH: Responses = _answer(Health, "The state of the workers.")
PIPELINES: Responses = _answer(list[Listed], "All pipelines.")
PIPELINE: Responses = _answer(Described, "The pipeline.") | _UNKNOWN | _WORKERS
STORED: Responses = _answer(Decided, "The context.") | _UNKNOWN | _WRONG | _WORKERS
DECIDED: Responses = _answer(Decided, "The decision.") | _UNKNOWN | _WRONG | _WORKERS | _BODY
#: What can be done with a search that was started.
_FOLLOW = {
    name: {"operationId": name, "parameters": {"name": "$response.body#/id"}}
    for name in ("task", "cancel", "events", "document", "picture")
}
QUEUED: Responses = _answer(Queued, "The search is queued.", 202) | _UNKNOWN | _WRONG | _WORKERS
QUEUED |= _BODY
QUEUED[202]["links"] = _FOLLOW
TASK: Responses = _answer(Task, "The task.") | _UNKNOWN
CANCELLED: Responses = TASK | {403: _BODY[403]}
EVENTS: Responses = _file("text/event-stream", "Events.") | _UNKNOWN
DOCUMENT: Responses = _file("application/json", "The explanation.") | _UNKNOWN
PNG: Responses = _file("image/png", "A picture.") | _UNKNOWN | _WORKERS | _WRONG
