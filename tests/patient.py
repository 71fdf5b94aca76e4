"""`cfopt serve` for tests: nothing ends because the machine is slow, and searches can be held."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cfopt.web import limits, process, worker

ROOT = Path(__file__).parent.parent
#: The longest that anything is waited for; a slow machine is slow, not broken.
PATIENCE = 300.0
PATIENT = limits.Limits(
    search_seconds=PATIENCE,
    live_seconds=PATIENCE,
    drawing_seconds=PATIENCE,
    loading_seconds=PATIENCE,
    unheard_seconds=PATIENCE,
)
#: Names the file that holds searches in images: once one has shown a place it waits, as long as the
#: file is there and the search is wanted.
_HELD = "CFOPT_TESTS_HELD"


@contextmanager
def launched(
    *options: str, held: str = os.devnull, stderr: int | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command in a session of its own, and its address; nothing of it is left.

    Arguments:
        options: more words of the command.
        held: the file that holds searches.
        stderr: where its errors go.
    """
    code = "from tests.patient import serve; serve()"
    words = [sys.executable, "-c", code, "serve", "--port", "0", *options]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", _HELD: held}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": stderr, "env": environment}
    with subprocess.Popen(words, text=True, start_new_session=True, **pipes) as server:
        assert server.stdout is not None
        try:
            said = server.stdout.readline()
            assert said.startswith("The explorer is at "), "cfopt serve ended"
            yield said.split()[4], server
        finally:
            server.terminate()


def serve() -> None:
    """The command with patient limits, and with workers that can be held."""
    from cfopt.cli import app

    process.worker = sys.modules[__name__]
    limits.Limits = lambda workers, **_: replace(PATIENT, workers=workers)  # type: ignore[assignment,misc]
    app()


def main(connection: Connection, *given: Any) -> None:
    """A worker whose searches can be held."""
    from cfopt.web import work

    class Work(work.Work):
        def do(self, command: str, arguments: dict[str, Any], tell: Any) -> dict[str, Any]:
            def told(news: dict[str, Any]) -> None:
                tell(news)
                while "image" in news and held.is_file() and not self._stopped():
                    time.sleep(0.01)

            return super().do(command, arguments, told)

    held = Path(os.environ[_HELD])
    work.Work = Work  # type: ignore[misc]
    worker.main(connection, *given)
