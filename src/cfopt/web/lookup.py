"""Tasks as requests name them; what is not there becomes a status."""

from __future__ import annotations

from fastapi import HTTPException

from cfopt.web.requests import Decide, Explain
from cfopt.web.tasks import SearchTask, Tasks


def known(tasks: Tasks, name: str) -> SearchTask:
    """A task, or 404."""
    try:
        return tasks[name]
    except KeyError as error:
        words = "There is no such task: it has expired, or never existed."
        raise HTTPException(404, words) from error


def finished(tasks: Tasks, name: str) -> SearchTask:
    """A task that has a result, or 404."""
    task = known(tasks, name)
    if task.result is None:
        raise HTTPException(404, f"The task has no result: it is {task.status}.")
    return task


def origin(tasks: Tasks, asked: Decide | Explain) -> SearchTask | None:
    """The task whose answer is the context of a request; None if it is given in another way."""
    if asked.context.task is None:
        return None
    task = finished(tasks, asked.context.task)
    theirs = task.request["pipeline"]
    if theirs != asked.pipeline:
        words = f"The context is an answer of {theirs!r}; ask {theirs!r}, or pass another context."
        raise HTTPException(422, words)
    return task
