"""The routes of searches: start, follow, cancel, and download."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import StreamingResponse

from cfopt.web import answers
from cfopt.web.answers import BODY, WORKERS, Plain
from cfopt.web.limits import Limits
from cfopt.web.lookup import finished, known, origin
from cfopt.web.pool import QueueFullError
from cfopt.web.quick_calls import SOON, Live
from cfopt.web.requests import Explain
from cfopt.web.tasks import SearchTask, Tasks, continued

#: How often a stream looks for news, in seconds.
_LOOK = 0.05


def task_routes(tasks: Tasks, live: Live) -> APIRouter:
    """Routes of searches.

    Arguments:
        tasks: all that are remembered.
        live: the worker that checks requests and draws results.
    """
    router = APIRouter(prefix="/api", default_response_class=Plain)

    queued = answers.data(answers.Queued, "The search is queued.", 404, 422, *WORKERS, *BODY)
    queued["responses"][202] = {"links": answers.FOLLOW}

    @router.post("/explain", tags=["explain"], status_code=202, **queued)
    async def explain(asked: Explain, response: Response) -> Any:
        """Start a search: when would it have been otherwise? The answer is a task to follow.

        A search ends when nobody has followed its events or asked for it for some seconds.
        """
        if tasks.full:
            raise _full(live.limits)
        await live.pipeline(asked.pipeline)
        start = origin(tasks, asked)
        kept = await live.ask("check", continued(asked.model_dump(mode="json"), start))
        try:
            task = tasks.submit(kept, start)
        except QueueFullError as error:
            raise _full(live.limits) from error
        url = f"/api/tasks/{task.id}"
        response.headers["Location"] = url
        body = {"id": task.id, "status": "queued", "url": url, "events": f"{url}/events"}
        return body | {"page": f"/t/{task.id}"}

    @router.get("/tasks/{name}", tags=["tasks"], **answers.data(answers.Task, "The task.", 404))
    async def task(name: str) -> Any:
        """How a search stands, and its result; one that nobody asks for or follows is ended."""
        found = known(tasks, name)
        found.hear()
        return tasks.view(found)

    @router.delete(
        "/tasks/{name}", tags=["tasks"], **answers.data(answers.Task, "The task.", 403, 404)
    )
    async def cancel(name: str) -> Any:
        """Cancel a search; one that is over stays as it is."""
        found = known(tasks, name)
        tasks.cancel(found)
        return tasks.view(found)

    @router.get(
        "/tasks/{name}/events", tags=["tasks"], **answers.file("text/event-stream", "Events.", 404)
    )
    async def events(name: str) -> Response:
        """A stream of `progress` events while the search runs, then one `end` with the task."""
        stream = _stream(tasks, known(tasks, name), live)
        return StreamingResponse(stream, media_type="text/event-stream")

    @router.get(
        "/tasks/{name}/result.json",
        tags=["tasks"],
        **answers.file("application/json", "The explanation.", 404),
    )
    async def document(name: str) -> Response:
        """The whole explanation with its request; `Explanation.from_json` reads it."""
        text = await asyncio.to_thread(finished(tasks, name).document)
        return Response(text, media_type="application/json", headers=_download(name, "json"))

    @router.get(
        "/tasks/{name}/result.png",
        tags=["tasks"],
        **answers.file("image/png", "A picture.", 404, 422, *WORKERS),
    )
    async def picture(name: str) -> Response:
        """The explanation as one picture."""
        found = finished(tasks, name)
        if found.picture is None:
            arguments = {"pipeline": found.request["pipeline"], "explanation": found.explanation}
            drawn = await live.ask("draw", arguments, live.limits.drawing_seconds)
            found.picture = base64.b64decode(drawn["png"])
        return Response(found.picture, media_type="image/png", headers=_download(name, "png"))

    return router


def _full(limits: Limits) -> HTTPException:
    words = f"{limits.queue} searches are already waiting; try again when some of them are done."
    return HTTPException(429, words, SOON)


def _download(name: str, kind: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="explanation-{name}.{kind}"'}


async def _stream(tasks: Tasks, task: SearchTask, live: Live) -> AsyncIterator[str]:
    """News when there are any, and otherwise a sign of life; it ends with the server."""
    version, moves, last = -1, 0, 0.0
    while not task.over and not live.stopping:
        now = time.monotonic()
        task.hear()
        if task.version != version or now - last >= live.limits.beat_seconds:
            moved = task.place if task.moves != moves else {}
            version, moves, last = task.version, task.moves, now
            view = tasks.view(task)
            news = {key: view[key] for key in ("status", "place", "seconds", "step", "message")}
            yield _event("progress", news | moved)
        await asyncio.sleep(_LOOK)
    if task.over:
        yield _event("end", tasks.view(task))


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n"
