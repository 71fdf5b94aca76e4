"""The application: the page, its routes, and errors in a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteError

import cfopt
from cfopt.drawing import palette
from cfopt.web import docs
from cfopt.web.address import Address
from cfopt.web.answers import Plain
from cfopt.web.headers import HEADERS, Guard
from cfopt.web.limits import Limits
from cfopt.web.pipeline_routes import pipeline_routes
from cfopt.web.pool import Pool
from cfopt.web.process import Source
from cfopt.web.quick_calls import Live
from cfopt.web.task_routes import task_routes
from cfopt.web.tasks import Tasks

STATIC = Path(__file__).parent / "static"
#: Requested again each time: a newer version of one file must not mix with an older one of another.
_FRESH = {"Cache-Control": "no-cache"}
#: Seconds between two looks for searches that nobody follows.
_LOOK = 0.5
#: Parts of a place in a request that are not names of its fields.
_UNNAMED = ("body", "path", "query", "wanted", "decision", "cell", "named")


def create_app(source: Source, limits: Limits, address: Address) -> FastAPI:
    """The whole application; its workers live as long as it does.

    This process loads no model and runs none of the user's code: it survives whatever they do.

    Arguments:
        source: what workers load.
        limits: all limits of the server.
        address: where clients find it, and what opens it.
    """
    pool = Pool(source, limits)
    live, tasks = Live(pool, limits), Tasks(pool.searches, limits)

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        pool.start()
        watch = asyncio.create_task(_forsake(tasks))
        try:
            yield
        finally:
            watch.cancel()
            await asyncio.to_thread(pool.stop)

    app = FastAPI(
        title="cfopt explorer",
        version=cfopt.__version__,
        summary="Ask why not: counterfactual explanations of pipelines that predict and optimise.",
        lifespan=living,
        docs_url=None,
        redoc_url=None,
        default_response_class=Plain,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.pool = pool
    app.add_middleware(Guard, address=address, limits=limits)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StarletteError, _refused)
    app.add_exception_handler(Exception, _failed)
    app.include_router(pipeline_routes(pool, live, tasks))
    app.include_router(task_routes(tasks, live))
    docs.add(app)

    @app.get("/", include_in_schema=False)
    @app.get("/t/{task}", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(STATIC / "index.html", headers=_FRESH)

    @app.get("/static/pictures.css", include_in_schema=False)
    async def colours() -> Response:
        return Response(palette.css(), media_type="text/css", headers=_FRESH)

    app.mount("/static", _Static(directory=STATIC), name="static")
    return app


async def _forsake(tasks: Tasks) -> None:
    """End searches that nobody follows any more, as long as the server runs."""
    while True:
        await asyncio.sleep(_LOOK)
        tasks.give_up_unheard()


class _Static(StaticFiles):
    """The page's own files."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """A file."""
        response = super().file_response(*args, **kwargs)
        response.headers.update(_FRESH)
        return response


async def _invalid(request: Request, error: Exception) -> Response:
    """What is wrong with a request, in a sentence."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    parts = [str(part) for part in first["loc"]]
    where = ".".join(part for k, part in enumerate(parts) if k and part not in _UNNAMED)
    said = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return Plain({"detail": f"{where}: {said}." if where else f"{said}."}, 422)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteError)
    return Plain({"detail": str(error.detail)}, error.status_code, headers=error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of the server itself; uvicorn logs it. This answer does not pass the guard."""
    words = "The server failed to answer this request."
    return Plain({"detail": words}, 500, headers=HEADERS | {"Cache-Control": "no-store"})
