"""Quick calls of the live worker, awaited by requests; what goes wrong becomes a status."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import HTTPException

from cfopt.web.limits import Limits
from cfopt.web.pool import Pool, QueueFullError
from cfopt.web.process import CallError, DiedError, FailedError, RefusedError, TooSlowError

#: Seconds between two looks at whether the worker is ready.
_LOOK = 0.05
#: When to come back, in seconds.
SOON = {"Retry-After": "1"}


class Live:
    """The live worker as requests see it.

    Arguments:
        pool: the workers.
        limits: the time limits.
    """

    def __init__(self, pool: Pool, limits: Limits) -> None:
        self._pool, self.limits = pool, limits

    @property
    def stopping(self) -> bool:
        """Whether the server is about to end, so that nothing should be waited for."""
        return self._pool.stopping

    async def ask(
        self, command: str, arguments: dict[str, Any], seconds: float | None = None
    ) -> dict[str, Any]:
        """Its answer to a call.

        Arguments:
            command, arguments: what to pass to `Work.do`.
            seconds: the time that it may take; the limit of quick calls by default.
        """
        limit = self.limits.live_seconds if seconds is None else seconds
        try:
            coming = self._pool.call(command, arguments, limit)
        except QueueFullError as error:
            raise HTTPException(429, "Too many requests at once; try again soon.", SOON) from error
        try:
            patience = self.limits.loading_seconds
            return await asyncio.wait_for(asyncio.wrap_future(coming), patience)
        except TimeoutError as error:
            raise HTTPException(503, self._why_not_ready(), SOON) from error
        except CallError as error:
            raise _status(error) from error

    async def pipeline(self, name: str) -> dict[str, Any]:
        """A pipeline's description, waited for while the worker loads."""
        live = self._pool.live
        until = time.monotonic() + self.limits.loading_seconds
        while not live.pipelines and not self.stopping and time.monotonic() < until:
            await asyncio.sleep(_LOOK)
        for one in live.pipelines:
            if one["name"] == name:
                return one
        if not live.pipelines:
            raise HTTPException(503, self._why_not_ready(), SOON)
        raise HTTPException(404, live.faults.get(name) or f"There is no pipeline {name!r}.")

    def _why_not_ready(self) -> str:
        faults = self._pool.live.faults.values()
        return next(iter(faults), "The worker is loading or busy; try again soon.")


def _status(error: CallError) -> HTTPException:
    if isinstance(error, RefusedError):
        return HTTPException(422, str(error))
    if isinstance(error, FailedError):
        return HTTPException(502, str(error))
    if isinstance(error, TooSlowError):
        return HTTPException(504, f"The pipeline does not respond. {error}")
    if isinstance(error, DiedError):
        return HTTPException(503, f"{error} A new one is starting; try again.", SOON)
    return HTTPException(503, str(error), SOON)
