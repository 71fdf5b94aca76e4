"""The routes of pipelines: which there are, and what they decide."""

from __future__ import annotations

import base64
from typing import Any

from fastapi import APIRouter, HTTPException, Response

import cfopt
from cfopt.web import answers
from cfopt.web.answers import BODY, WORKERS, Plain
from cfopt.web.catalogue import OWN, SHIPPED
from cfopt.web.lookup import origin
from cfopt.web.pool import Pool
from cfopt.web.quick_calls import Live
from cfopt.web.requests import Decide
from cfopt.web.tasks import Tasks, continued

#: Stored maps do not change while a server runs.
_CACHED = {"Cache-Control": "private, max-age=600"}


def pipeline_routes(pool: Pool, live: Live, tasks: Tasks) -> APIRouter:
    """Routes that the live worker answers.

    Arguments:
        pool: the workers.
        live: the worker that is asked.
        tasks: the tasks whose answers may be contexts.
    """
    router = APIRouter(prefix="/api", default_response_class=Plain)

    @router.get(
        "/health", tags=["server"], **answers.data(answers.Health, "The state of the workers.")
    )
    async def health() -> Any:
        """Whether the workers are ready, and what they are doing."""
        loaded = all(worker.loaded.is_set() for worker in pool.workers)
        workers = [
            {"role": worker.role, "pid": worker.pid, "state": worker.state}
            for worker in pool.workers
        ]
        return {
            "status": "ok" if loaded else "loading",
            "version": cfopt.__version__,
            "queued": len(pool.searches),
            "workers": workers,
            "faults": pool.live.faults,
        }

    @router.get(
        "/pipelines", tags=["pipelines"], **answers.data(list[answers.Listed], "All pipelines.")
    )
    async def pipelines() -> Any:
        """All pipelines; while the workers load, none is ready."""
        keys = ("name", "title", "kind", "contexts")
        known = {
            one["name"]: {key: one[key] for key in keys} | {"ready": True}
            for one in pool.live.pipelines
        }
        names = [OWN, *SHIPPED] if pool.own else list(SHIPPED)
        return [known.get(name) or _unready(name, pool.live.faults) for name in names]

    @router.get(
        "/pipelines/{name}",
        tags=["pipelines"],
        **answers.data(answers.Described, "The pipeline.", 404, *WORKERS),
    )
    async def pipeline(name: str) -> Any:
        """What a pipeline reads and decides; waits while the workers load."""
        return await live.pipeline(name) | {"ready": True}

    @router.get(
        "/pipelines/{name}/contexts/{row}",
        tags=["pipelines"],
        **answers.data(answers.Decided, "The context.", 404, 422, *WORKERS),
    )
    async def context(name: str, row: int) -> Any:
        """A stored context, and what is decided there."""
        known = await live.pipeline(name)
        if not 0 <= row < known["contexts"]:
            raise HTTPException(404, f"There is no row {row}; there are {known['contexts']}.")
        return await live.ask("context", {"pipeline": name, "row": row})

    @router.get(
        "/pipelines/{name}/thumbnails",
        tags=["pipelines"],
        **answers.file("image/png", "A picture.", 404, 422, *WORKERS),
    )
    async def thumbnails(name: str) -> Response:
        """The first 48 maps as one PNG: 48 pixels each, 12 in a row."""
        if (await live.pipeline(name))["kind"] == "table":
            raise HTTPException(404, f"{name} has no images.")
        found = await live.ask("thumbnails", {"pipeline": name})
        return Response(base64.b64decode(found["png"]), media_type="image/png", headers=_CACHED)

    @router.post(
        "/decide",
        tags=["explain"],
        **answers.data(answers.Decided, "The decision.", 404, 422, *WORKERS, *BODY),
    )
    async def decide(asked: Decide) -> Any:
        """What the pipeline decides in a context."""
        await live.pipeline(asked.pipeline)
        arguments = continued(asked.model_dump(mode="json"), origin(tasks, asked))
        return await live.ask("decide", arguments)

    return router


def _unready(name: str, faults: dict[str, str]) -> dict[str, object]:
    """A pipeline that is not there yet, or cannot be loaded."""
    known = SHIPPED.get(name)
    return {
        "name": name,
        "title": known.title if known else "Your own",
        "kind": known.kind if known else "",
        "contexts": 0,
        "ready": False,
        "fault": faults.get(name),
    }
