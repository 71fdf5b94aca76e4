"""The routes: what the page and other programs can ask of the server."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteError

import cfopt
from cfopt.web import answers, docs
from cfopt.web.headers import Guard
from cfopt.web.limits import Limits
from cfopt.web.pool import Pool, QueueFullError
from cfopt.web.process import CallError, DiedError, FailedError, RefusedError, Source, TooSlowError
from cfopt.web.requests import Decide, Explain
from cfopt.web.tasks import SearchTask, Tasks

STATIC = Path(__file__).parent / "static"
#: How often a stream looks for news, in seconds.
_LOOK = 0.05


def create_app(source: Source, limits: Limits, host: str = "127.0.0.1") -> FastAPI:
    """The whole application; its workers live as long as it does.

    Arguments:
        source: what workers load.
        limits: of everything.
        host: the name or address that clients use.
    """
    pool = Pool(source, limits)
    tasks = Tasks(pool.searches, limits)

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        pool.start()
        try:
            yield
        finally:
            await asyncio.to_thread(pool.stop)

    app = FastAPI(
        title="cfopt explorer",
        version=cfopt.__version__,
        summary="Ask why not: counterfactual explanations of pipelines that predict and optimise.",
        lifespan=living,
        docs_url=None,
        redoc_url=None,
        default_response_class=Plain,
    )
    app.state.pool, app.state.tasks = pool, tasks
    app.add_middleware(Guard, host=host, limits=limits)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StarletteError, _refused)
    _add_pages(app)
    _add_pipelines(app, pool, limits)
    _add_tasks(app, pool, tasks, limits)
    docs.add(app)
    return app


class Plain(JSONResponse):
    """JSON in ASCII: names that are no valid Unicode can be told as well."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


async def _invalid(request: Request, error: Exception) -> Response:
    """What is wrong with a request, in a sentence."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "wanted"))
    said = str(first["msg"]).removeprefix("Value error, ")
    return Plain({"detail": f"{where}: {said}." if where else f"{said}."}, 422)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteError)
    return Plain({"detail": str(error.detail)}, error.status_code, headers=error.headers)


async def _ask(pool: Pool, limits: Limits, command: str, arguments: Any, seconds: float) -> Any:
    """The answer of the live worker; what goes wrong becomes a status."""
    try:
        coming = pool.call(command, arguments, seconds)
    except QueueFullError as error:
        raise HTTPException(429, "Too many requests at once; try again in a moment.") from error
    try:
        return await asyncio.wait_for(asyncio.wrap_future(coming), limits.loading_seconds)
    except TimeoutError as error:
        raise HTTPException(503, "The pipelines are still loading; try again later.") from error
    except CallError as trouble:
        raise HTTPException(*_status(trouble)) from trouble


def _status(trouble: CallError) -> tuple[int, str]:
    if isinstance(trouble, RefusedError | FailedError):
        return 422, str(trouble)
    if isinstance(trouble, TooSlowError):
        return 504, f"The pipeline does not answer. {trouble}"
    if isinstance(trouble, DiedError):
        return 503, f"{trouble} A new one takes its place; try again."
    return 503, str(trouble)


def _add_pages(app: FastAPI) -> None:
    STATIC.mkdir(exist_ok=True)

    @app.get("/", include_in_schema=False)
    @app.get("/t/{task}", include_in_schema=False)
    def page() -> Response:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", _Static(directory=STATIC), name="static")


class _Static(StaticFiles):
    """The page's files, asked for anew each time: a newer version must not mix with an older."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """A file."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _add_pipelines(app: FastAPI, pool: Pool, limits: Limits) -> None:
    def described(name: str) -> dict[str, Any]:
        for one in pool.live.pipelines:
            if one["name"] == name:
                return one
        if not pool.live.loaded.is_set():
            raise HTTPException(503, "The pipelines are still loading; try again in a moment.")
        fault = pool.live.faults.get(name)
        raise HTTPException(404, fault or f"There is no pipeline {name!r}.")

    async def ready(name: str) -> dict[str, Any]:
        """A pipeline's description, waited for while workers load."""
        until = time.monotonic() + limits.loading_seconds
        while not pool.live.pipelines and time.monotonic() < until:
            await asyncio.sleep(_LOOK)
        return described(name)

    @app.get("/api/health", tags=["server"], responses=answers.HEALTH)
    def health() -> Response:
        """Whether the workers are ready, and what they are at."""
        loaded = all(post.loaded.is_set() for post in pool.posts)
        workers = [
            {
                "role": post.role,
                "pid": post.pid,
                "state": post.state,
                "task": getattr(post.job, "id", None),
            }
            for post in pool.posts
        ]
        return Plain(
            {
                "status": "ok" if loaded else "loading",
                "version": cfopt.__version__,
                "queued": len(pool.searches),
                "workers": workers,
                "faults": pool.live.faults,
            }
        )

    @app.get("/api/pipelines", tags=["pipelines"], responses=answers.PIPELINES)
    async def pipelines() -> Response:
        """All pipelines; while the workers load they are not known yet."""
        keys = ("name", "title", "kind", "contexts")
        known = [{key: one[key] for key in keys} | {"ready": True} for one in pool.live.pipelines]
        broken = [
            {"name": name, "title": name, "kind": "", "contexts": 0, "ready": False, "fault": why}
            for name, why in pool.live.faults.items()
        ]
        return Plain(known + broken)

    @app.get("/api/pipelines/{name}", tags=["pipelines"], responses=answers.PIPELINE)
    async def pipeline(name: str) -> Response:
        """What a pipeline reads and decides; waits while the workers load."""
        return Plain(await ready(name) | {"ready": True})

    @app.get("/api/pipelines/{name}/contexts/{row}", tags=["pipelines"], responses=answers.DECIDED)
    async def context(name: str, row: int) -> Response:
        """A stored context, and what is decided there."""
        known = await ready(name)
        if not 0 <= row < known["contexts"]:
            raise HTTPException(404, f"There is no row {row}; there are {known['contexts']}.")
        arguments = {"pipeline": name, "row": row}
        return Plain(await _ask(pool, limits, "context", arguments, limits.live_seconds))

    @app.get("/api/pipelines/{name}/thumbnails", tags=["pipelines"], responses=answers.PNG)
    async def thumbnails(name: str) -> Response:
        """The first 48 maps as one PNG: 48 pixels each, 12 in a row."""
        if (await ready(name))["kind"] == "table":
            raise HTTPException(404, f"{name} has no images.")
        found = await _ask(pool, limits, "thumbnails", {"pipeline": name}, limits.live_seconds)
        return Response(base64.b64decode(found["png"]), media_type="image/png")

    @app.post("/api/decide", tags=["explain"], responses=answers.DECIDED)
    async def decide(asked: Decide) -> Response:
        """What the pipeline decides in a context."""
        await ready(asked.pipeline)
        arguments = asked.model_dump(mode="json")
        return Plain(await _ask(pool, limits, "decide", arguments, limits.live_seconds))


def _add_tasks(app: FastAPI, pool: Pool, tasks: Tasks, limits: Limits) -> None:
    def known(name: str) -> SearchTask:
        try:
            return tasks[name]
        except KeyError as error:
            raise HTTPException(
                404, "There is no such task: it was forgotten, or never there."
            ) from error

    def finished(name: str) -> SearchTask:
        task = known(name)
        if task.result is None:
            raise HTTPException(404, f"The task has no result: it is {task.status}.")
        return task

    @app.post("/api/explain", tags=["explain"], status_code=202, responses=answers.QUEUED)
    async def explain(asked: Explain) -> Response:
        """Start a search: when would it have been otherwise? The answer is a task to follow."""
        if len(pool.searches) >= limits.queue:
            raise HTTPException(429, _full(limits))
        arguments = asked.model_dump(mode="json")
        kept = await _ask(pool, limits, "check", arguments, limits.live_seconds)
        try:
            task = tasks.submit(kept)
        except QueueFullError as error:
            raise HTTPException(429, _full(limits)) from error
        url = f"/api/tasks/{task.id}"
        body = {"id": task.id, "status": "queued", "url": url, "events": f"{url}/events"}
        return Plain(body | {"page": f"/t/{task.id}"}, 202, headers={"Location": url})

    @app.get("/api/tasks/{name}", tags=["tasks"], responses=answers.TASK)
    def task(name: str) -> Response:
        """How a search stands, and its result."""
        return Plain(tasks.view(known(name)))

    @app.delete("/api/tasks/{name}", tags=["tasks"], responses=answers.TASK)
    async def cancel(name: str) -> Response:
        """Cancel a search; one that is over stays as it is."""
        found = known(name)
        tasks.cancel(found)
        return Plain(tasks.view(found))

    @app.get("/api/tasks/{name}/events", tags=["tasks"], responses=answers.EVENTS)
    async def events(name: str) -> Response:
        """A stream of `progress` events while the search runs, then one `end` with the task."""
        found = known(name)
        return StreamingResponse(_stream(tasks, found, limits), media_type="text/event-stream")

    @app.get("/api/tasks/{name}/result.json", tags=["tasks"], responses=answers.DOCUMENT)
    async def document(name: str) -> Response:
        """The whole explanation with its request; `Explanation.from_json` reads it."""
        text = await asyncio.to_thread(finished(name).document)
        return Response(text, media_type="application/json", headers=_download(name, "json"))

    @app.get("/api/tasks/{name}/result.png", tags=["tasks"], responses=answers.PNG)
    async def picture(name: str) -> Response:
        """The explanation as one picture."""
        found = finished(name)
        if found.picture is None:
            arguments = {"pipeline": found.arguments["pipeline"], "explanation": found.explanation}
            answer = await _ask(pool, limits, "draw", arguments, limits.drawing_seconds)
            found.picture = base64.b64decode(answer["png"])
        return Response(found.picture, media_type="image/png", headers=_download(name, "png"))


def _full(limits: Limits) -> str:
    return f"{limits.queue} searches are waiting already; try again when some of them are done."


def _download(name: str, kind: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="explanation-{name}.{kind}"'}


async def _stream(tasks: Tasks, task: SearchTask, limits: Limits) -> AsyncIterator[str]:
    version, last = -1, 0.0
    while not task.over:
        now = time.monotonic()
        if task.version != version or now - last >= limits.beat_seconds:
            moved = task.news if task.version != version else {}
            version, last = task.version, now
            view = tasks.view(task)
            told = {key: view[key] for key in ("status", "place", "seconds", "step", "message")}
            yield _event("progress", told | moved)
        await asyncio.sleep(_LOOK)
    yield _event("end", tasks.view(task))


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n"
