"""Parts explained by the workers of a Dask cluster, here or elsewhere.

Configuration, input and folder need to be at the same paths for all workers. Each keeps the parts
that it has explained; only numbers and names travel.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cfopt import clock
from cfopt.errors import CfoptError, InputError, StorageError, in_words
from cfopt.extras import require
from cfopt.fleet.engine import Engine, Lethal, Listener
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.part import keep_part
from cfopt.fleet.processes import Processes
from cfopt.fleet.work import Recipe
from cfopt.fleet.worker import LOOK, Patience, find_lethal
from cfopt.storage.digests import digest_json

#: Seconds to wait for a scheduler, and between two looks at whether something is done.
_PATIENCE, _LOOK = 15, 0.02
#: How many parts each thread of a cluster is given ahead.
_AHEAD = 3
#: What a worker has loaded; one part at a time, as models and solvers are not made for threads.
_LOADED: dict[tuple[Recipe, str], RunFolder] = {}
_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def _watched(patience: Patience) -> Iterator[None]:
    """Within, this process ends itself where it hangs: Dask gives its part to another."""
    done, heard = threading.Event(), [math.inf]  # rows are read first, which may take long

    def beat() -> None:
        heard[0] = patience.now()

    def watch() -> None:
        while not done.wait(LOOK):
            if patience.is_over(heard[0]):
                os._exit(1)

    clock.heard_by(beat)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _task(
    recipe: Recipe, path: str, part: int, settings: str, patience: Patience
) -> tuple[int, str, str]:
    """What a worker does: its part, and how it ended, in a word and a sentence."""
    import torch

    with _ONE_AT_A_TIME:
        torch.set_num_threads(1)
        try:
            key = (recipe, path)
            if key not in _LOADED:
                _LOADED.clear()
                _LOADED[key] = RunFolder(Path(path), recipe.open())
            folder = _LOADED[key]
            if digest_json(folder.work.settings) != settings:
                return part, "other", "A worker found other files or versions than this process."
            with _watched(patience):
                keep_part(folder, part)
            return part, "ended", ""
        except (StorageError, OSError) as error:
            return part, "full", str(error)
        except InputError as error:
            return part, "other", str(error)
        # Any: the part's own fault is reported.
        except Exception as error:
            return part, "failed", in_words(error)


@dataclass(frozen=True)
class Dask(Engine):
    """The workers of a Dask cluster.

    Dask gives a part of a lost worker to another; a worker that is in a call that does not end ends
    itself. A part that ended several of them is explained here, by a process of its own, in which
    the rows that do it are found.

    Arguments:
        recipe: what workers need to know to do the work.
        address: the scheduler's address; None for a cluster on this machine.
        workers: the size of a cluster on this machine; None for one process a core.
        patience: for how long a worker may be in one call.
    """

    recipe: Recipe
    address: str | None
    workers: int | None
    patience: Patience

    def explain(self, folder: RunFolder, parts: Mapping[int, Lethal], listener: Listener) -> None:
        """Explain parts and keep them."""
        require("--engine dask", "dask")
        lethal = {part: dict(rows) for part, rows in parts.items() if rows}
        plain = [part for part in parts if part not in lethal]
        with self._client() as client:
            killers = self._submit(client, folder, plain, listener)
        for part in killers:
            rows = folder.work.parts[part]
            lethal[part] = find_lethal(self.recipe, folder.path, rows, self.patience)
            folder.note(part, "tried", lethal=lethal[part])
        if lethal:
            Processes(self.recipe, 1, self.patience).explain(folder, lethal, listener)

    def _submit(
        self, client: Any, folder: RunFolder, parts: list[int], listener: Listener
    ) -> list[int]:
        """Have the parts explained; those that ended their workers are returned."""
        from distributed import KilledWorker

        settings, waiting = digest_json(folder.work.settings), deque(parts)
        running: dict[Any, int] = {}
        killers: list[int] = []
        while waiting or running:
            for part in self._next(client, waiting, len(running)):
                listener.started(part)
                given = (self.recipe, str(folder.path), part, settings, self.patience)
                future = client.submit(_task, *given, pure=False)
                running[future] = part
            while not (done := [future for future in running if future.done()]):
                time.sleep(_LOOK)
                if client.status != "running":
                    raise _gone(self.address)
            for future in done:
                part = running.pop(future)
                try:
                    ended = future.result()
                except KilledWorker:
                    killers.append(part)
                # A lost connection, or what a lost scheduler makes of its tasks.
                except (OSError, TimeoutError, CancelledError) as error:
                    raise _gone(self.address) from error
                # Any: it is Dask's own, as tasks report theirs.
                except Exception as error:
                    listener.failed(part, in_words(error))
                else:
                    _hear(folder, listener, *ended)
        return killers

    def _next(self, client: Any, waiting: deque[int], running: int) -> list[int]:
        """As many parts as keep all workers busy."""
        try:
            threads = sum(client.nthreads().values()) or 1
        except OSError as error:
            raise _gone(self.address) from error
        count = max(0, _AHEAD * threads - running)
        return [waiting.popleft() for _ in range(min(count, len(waiting)))]

    @contextmanager
    def _client(self) -> Iterator[Any]:
        import dask
        import distributed

        connect: Any = distributed.Client
        local: Any = distributed.LocalCluster

        quiet = {
            "distributed.comm.timeouts.connect": _PATIENCE,
            "distributed.comm.retry.count": 0,
            "distributed.admin.tick.limit": "1h",
            # It would interrupt the search a hundred times a second.
            "distributed.worker.profile.enabled": False,
            # Without the low threshold from which Dask has memory given back, again and again.
            "distributed.nanny.pre-spawn-environ": dict.fromkeys(
                ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
            ),
        }
        with dask.config.set(quiet):
            if self.address is not None:
                try:
                    client = connect(self.address, timeout=_PATIENCE, set_as_default=False)
                except (OSError, TimeoutError, ValueError) as error:
                    raise InputError(
                        f"There is no Dask scheduler at {self.address}: {error}. Start one with "
                        "`dask scheduler`, or leave --scheduler out."
                    ) from error
                with client:
                    yield client
                return
            count = self.workers or len(os.sched_getaffinity(0))
            with (
                local(
                    n_workers=count,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs="ERROR",
                ) as cluster,
                connect(cluster, set_as_default=False) as client,
            ):
                yield client


def _hear(folder: RunFolder, listener: Listener, part: int, ended: str, said: str) -> None:
    """Pass on how a part has ended."""
    if ended == "full":
        raise StorageError(said)
    if ended == "other":
        raise InputError(said)
    if ended == "failed":
        listener.failed(part, said)
    else:
        listener.counted(part, len(folder.work.parts[part]))


def _gone(address: str | None) -> CfoptError:
    where = f" at {address}" if address is not None else ""
    return CfoptError(
        f"The Dask scheduler{where} is gone. Finished parts are kept; the same command resumes."
    )
