"""The explorer's workers: whatever they do, the server lives, and the next task works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import httpx
import pytest
from tests.patient import PATIENCE, PATIENT, launched
from tests.serving import ENDLESS, Client, fault, serving, write_faulty

from cfopt.errors import SolverError
from cfopt.pipeline import Pipeline
from cfopt.problems import GridShortestPath
from cfopt.web import presenter
from cfopt.web.presenter import Stopped
from cfopt.web.process import Process, Source
from cfopt.web.served import load_served
from cfopt.web.tasks import SearchTask
from cfopt.web.work import Work, sentence

LIMITS = replace(PATIENT, queue=3, grace_seconds=0.3, kept_tasks=12)
HANG, RAISE, EXIT, _, FORK, RUN, LEAVE = range(1, 8)
LIVE_HANG, LIVE_RAISE, LIVE_EXIT, LIVE_FORK, LIVE_LEAVE = range(10, 15)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_faulty(tmp_path_factory.mktemp("faulty"))


@pytest.fixture(scope="module")
def client(config: Path) -> Iterator[Client]:
    with serving(Source(config, trusted=True), LIMITS) as client:
        yield client


@pytest.fixture
def children(config: Path) -> Iterator[Path]:
    """The process ids of what a pipeline started, one a line; none is left after a test."""
    file = config.parent / "children"
    file.write_text("")
    yield file
    for pid in file.read_text().split():
        if _lives(int(pid)):
            os.kill(int(pid), signal.SIGKILL)


def _lives(pid: int) -> bool:
    """Whether a process is there, and has not ended unnoticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def time_is_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Ends the call that a worker has at hand, or the next one, as its limit of time would."""
    watches: SimpleQueue[threading.Timer] = SimpleQueue()

    class Timer(threading.Timer):
        def start(self) -> None:
            if self.function.__func__ is Process._end:  # type: ignore[attr-defined]
                watches.put(self)
            else:
                super().start()

    def end() -> None:
        watch = watches.get(timeout=PATIENCE)
        while watch.finished.is_set():  # its call was answered
            watch = watches.get(timeout=PATIENCE)
        watch.function(*watch.args)

    monkeypatch.setattr(threading, "Timer", Timer)
    return end


@pytest.fixture(autouse=True)
def _next_one_works(client: Client) -> Iterator[None]:
    """After each test the server answers, decides and explains as if nothing had happened."""
    yield
    task = client.explain(**fault(0))
    assert task["status"] == "done"
    assert task["result"]["valid"]
    client.until(lambda: client.health()["status"] == "ok")


def test_a_worker_killed_in_the_middle_of_a_search_is_replaced(client: Client) -> None:
    before = client.searcher()["pid"]
    started = client.start(**fault(HANG))
    client.running(started)
    os.kill(client.searcher()["pid"], signal.SIGKILL)
    task = client.over(started)
    assert task["status"] == "failed"
    assert task["message"].startswith("The worker process died during the search")
    assert client.explain(**fault(0))["status"] == "done"
    assert client.searcher()["pid"] != before


def test_a_worker_killed_while_idle_is_replaced_before_it_is_needed(client: Client) -> None:
    for which in (0, 1):
        worker = client.health()["workers"][which]
        os.kill(worker["pid"], signal.SIGKILL)
        client.until(lambda w=worker, k=which: client.health()["workers"][k]["pid"] != w["pid"])
        client.until(lambda: client.health()["status"] == "ok")


@pytest.mark.long
def test_the_process_that_workers_come_from_may_die_as_well(client: Client) -> None:
    def parent(pid: int) -> int:
        status = Path(f"/proc/{pid}/stat").read_text()
        return int(status.rpartition(")")[2].split()[1])

    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc")
    pid = client.searcher()["pid"]
    origin = parent(pid)
    assert origin != os.getpid()
    os.kill(origin, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    client.until(lambda: client.searcher()["pid"] not in (None, pid))


def test_a_search_that_hangs_is_stopped_at_its_limit(
    client: Client, time_is_up: Callable[[], None]
) -> None:
    events = client.events(client.start(**fault(HANG), seconds=7.5))
    # Silent as the search is, the stream is not.
    running = (data for _, data in events if data["status"] == "running")
    assert next(running)["seconds"] < next(running)["seconds"]
    time_is_up()
    *_, (_, last) = events
    assert last["status"] == "failed"
    assert last["message"] == "The search took longer than 7.5 s and was stopped."


@pytest.mark.parametrize("plausible", [False, True])
def test_a_search_tells_where_it_is_and_stops_by_itself_when_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, plausible: bool
) -> None:
    monkeypatch.setattr(presenter, "_EVERY", 0.0)
    pipelines = load_served(None, trusted=False, pixels=10**6)[0]
    places: list[dict[str, Any]] = []
    work = Work(pipelines, stopped=lambda: len(places) >= 2)
    asked = {"pipeline": "terrain", "context": {"row": 0}, "plausible": plausible}
    asked |= {"question": {"kind": "absolute", "alternative": {"row": 21}}}
    with pytest.raises(Stopped):
        work.do("explain", asked, lambda news: places.append(news) if "image" in news else None)
    assert all(tuple(place["path"][0]) == (0, 0) for place in places)
    assert len({place["image"] for place in places}) > 1


def test_a_search_can_be_watched_and_cancelled(client: Client) -> None:
    started = client.start(**fault(ENDLESS))
    events = client.events(started)
    place = next(data for _, data in events if "values" in data)
    assert place["status"] == "running"
    assert place["values"] == [1, ENDLESS, 2]
    assert client.delete(started["url"]).json()["status"] == "cancelled"
    *_, (_, last) = events
    assert last["status"] == "cancelled"


def test_what_is_cancelled_has_no_result_though_its_worker_had_finished() -> None:
    task = SearchTask({"pipeline": "grid"}, 1.0)
    assert task.start(lambda: None)
    task.cancel()
    task.finish({"result": {"verdict": "Found."}, "explanation": "{}"})
    assert (task.status, task.result) == ("cancelled", None)


@pytest.mark.parametrize("number", [FORK, RUN])
def test_what_a_search_started_is_gone_when_it_is_stopped(
    client: Client, children: Path, number: int
) -> None:
    started = client.start(**fault(number))
    client.until(children.read_text)
    client.delete(started["url"])
    assert client.explain(**fault(0))["status"] == "done"
    client.until(lambda: not any(_lives(int(pid)) for pid in children.read_text().split()))


def test_a_worker_that_dies_is_noticed_though_a_child_holds_its_connection(
    client: Client, children: Path
) -> None:
    task = client.explain(**fault(LEAVE))
    assert task["message"].startswith("The worker process died during the search")
    assert any(_lives(int(pid)) for pid in children.read_text().split())


def test_a_search_that_hangs_can_be_cancelled(client: Client) -> None:
    started = client.start(**fault(HANG))
    client.running(started)
    answer = client.delete(started["url"])
    assert answer.status_code == 200
    assert answer.json()["status"] == "cancelled"
    assert [data["message"] for _, data in client.events(started)] == ["The search was cancelled."]
    for kind in ("json", "png"):
        missing = client.get(f"{started['url']}/result.{kind}")
        assert missing.status_code == 404
        assert missing.json()["detail"] == "The task has no result: it is cancelled."


def test_what_is_stopped_by_the_system_is_killed(client: Client) -> None:
    started = client.start(**fault(ENDLESS))
    client.running(started)
    pid = client.searcher()["pid"]
    os.kill(pid, signal.SIGSTOP)
    client.delete(started["url"])
    assert client.task(started)["status"] == "cancelled"
    client.until(lambda: not _lives(pid))


def test_a_predictor_that_raises_leaves_its_row_without_an_answer(client: Client) -> None:
    before = client.searcher()["pid"]
    task = client.explain(**fault(RAISE))
    assert task["status"] == "done"
    assert task["result"]["status"] == "best effort"
    message = task["result"]["message"]
    assert "the sensor is broken" in message, task
    assert "Traceback" not in message
    assert client.searcher()["pid"] == before


def test_a_predictor_that_ends_its_process_fails_its_task_alone(client: Client) -> None:
    task = client.explain(**fault(EXIT))
    assert task["status"] == "failed"
    assert task["message"].startswith("The worker process died during the search")


@pytest.mark.parametrize(
    ("number", "status", "words"),
    [
        (LIVE_HANG, 504, "The pipeline does not respond. It took longer than"),
        (LIVE_RAISE, 502, "the sensor is broken"),
        (LIVE_EXIT, 503, "The worker process died. A new one is starting; try again."),
        (LIVE_FORK, 504, "The pipeline does not respond. It took longer than"),
        (LIVE_LEAVE, 503, "The worker process died. A new one is starting; try again."),
    ],
)
def test_live_decisions_of_a_faulty_pipeline_are_told(
    client: Client,
    children: Path,
    time_is_up: Callable[[], None],
    number: int,
    status: int,
    words: str,
) -> None:
    decide = {"pipeline": "own", "context": {"values": [1, number, 2]}}
    for path, asked in (("/api/decide", decide), ("/api/explain", fault(number))):
        before = children.read_text()
        with ThreadPoolExecutor(1) as one:
            answering = one.submit(client.post, path, json=asked)
            if number == LIVE_FORK:
                client.until(lambda known=before: children.read_text() != known)
            if status == 504:
                time_is_up()
        answer = answering.result()
        assert answer.status_code == status
        assert words in answer.json()["detail"]
    assert client.get("/api/pipelines/own/contexts/0").status_code == 200


def test_a_solver_that_fails_is_not_taken_for_a_bad_request() -> None:
    class Broken(GridShortestPath):
        def optimise(self, prices: Any) -> Any:
            raise SolverError("the licence has expired")

    pipelines = load_served(None, trusted=False, pixels=10**6)[0]
    grid = pipelines["grid"]
    broken = replace(grid, pipeline=Pipeline(grid.pipeline.predictor, Broken(5, 5)))
    work = Work({"grid": broken}, stopped=lambda: False)
    asked = {"pipeline": "grid", "context": {"row": 0}}
    question = {"question": {"kind": "epsilon", "epsilon": 0.1}}
    for command, arguments in (("decide", asked), ("check", asked | question)):
        with pytest.raises(SolverError, match="the licence has expired") as caught:
            work.do(command, arguments, lambda news: None)
        assert sentence(caught.value).startswith("The pipeline fails: ")


def test_a_full_queue_is_told_and_places_move_up(client: Client) -> None:
    first = client.start(**fault(HANG))
    client.running(first)
    waiting = [client.start(**fault(0)) for _ in range(LIMITS.queue)]
    assert [client.task(one)["place"] for one in waiting] == [1, 2, 3]
    refused = client.post("/api/explain", json=fault(0))
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["detail"].startswith("3 searches are already waiting")
    client.delete(waiting[0]["url"])
    assert [client.task(one)["place"] for one in waiting] == [0, 1, 2]
    waiting.append(client.start(**fault(0)))
    client.delete(first["url"])
    ended = [client.over(one)["status"] for one in waiting]
    assert ended == ["cancelled", "done", "done", "done"]


def test_what_is_done_stays_done(client: Client) -> None:
    started = client.start(**fault(0))
    task = client.over(started)
    assert client.delete(started["url"]).json() == task


def test_old_tasks_are_forgotten(client: Client) -> None:
    started = [client.start(**fault(0))]
    client.over(started[0])
    for _ in range(LIMITS.kept_tasks):
        started.append(client.start(**fault(0)))
        client.over(started[-1])
    gone = client.get(started[0]["url"])
    assert gone.status_code == 404
    assert gone.json()["detail"] == "There is no such task: it has expired, or never existed."
    assert client.task(started[-1])["status"] == "done"


def test_a_task_counts_all_that_it_holds() -> None:
    task = SearchTask({"context": {"image": "x" * 5000}}, 1.0)
    empty = SearchTask({}, 1.0)
    assert task.size - empty.size >= 5000
    for one, words in ((task, "y" * 7000), (empty, "")):
        one.start(lambda: None)
        one.finish({"result": {"verdict": "Found.", "image": words}, "explanation": "{}"})
    assert task.size - empty.size >= 12_000


def test_many_cancel_at_any_moment(client: Client) -> None:
    """Starting and cancelling from several threads leaves no task without an end."""
    ends: list[str] = []

    def one() -> None:
        with Client(str(client.base_url)) as own:
            for _ in range(6):
                answer = own.post("/api/explain", json=fault(0))
                if answer.status_code == 202:
                    own.delete(answer.json()["url"])
                    ends.append(own.over(answer.json())["status"])

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends
    assert set(ends) <= {"done", "cancelled"}


def test_a_pipeline_that_cannot_be_loaded_is_told_and_the_others_work(tmp_path: Path) -> None:
    config = write_faulty(tmp_path)
    with serving(Source(config, trusted=False)) as client:
        own, *others = client.get("/api/pipelines").json()
        assert not own["ready"]
        assert "--trust" in own["fault"]
        assert all(one["ready"] for one in others)
        assert client.get("/api/pipelines/own").json()["detail"] == own["fault"]
        refused = client.post("/api/explain", json=fault(0))
        assert (refused.status_code, refused.json()["detail"]) == (404, own["fault"])
        assert client.get("/api/pipelines/grid/contexts/0").status_code == 200


def test_a_pipeline_that_kills_its_worker_while_it_loads_is_left_out(tmp_path: Path) -> None:
    config = write_faulty(tmp_path)
    (tmp_path / "faulty.py").write_text("import os\nos._exit(1)\n")
    with serving(Source(config, trusted=True)) as client:
        own, *others = client.get("/api/pipelines").json()
        assert own["fault"].startswith("The worker process died, or took too long, while loading")
        assert all(one["ready"] for one in others)
        assert client.get("/api/pipelines/grid/contexts/0").status_code == 200


@pytest.mark.long
def test_the_command_tells_mistakes_and_pipelines_that_cannot_be_loaded(tmp_path: Path) -> None:
    config = write_faulty(tmp_path)
    with launched("--config", str(config), stderr=subprocess.PIPE) as (url, server):
        assert server.stderr is not None
        told = server.stderr.readline()
        assert told.startswith("Your own pipeline cannot be loaded: ")
        assert "--trust" in told
        port = url.rpartition(":")[2]
        mistakes = {
            f"Port {port} of 127.0.0.1 cannot be used": ["--port", port],
            "missing.toml": ["--config", str(tmp_path / "missing.toml")],
        }
        for words, options in mistakes.items():
            command = [sys.executable, "-m", "cfopt", "serve", *options]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 2
            assert words in done.stderr


def _send(server: subprocess.Popen[str], sent: signal.Signals) -> None:
    """End a server; Ctrl-C and service managers reach all of its group."""
    if sent is signal.SIGKILL:
        server.send_signal(sent)
    else:
        os.killpg(server.pid, sent)


def _family(pid: int) -> set[int]:
    """A process and all that come from it."""
    found, before = {pid}, set[int]()
    while found != before:
        before = set(found)
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if int(stat.read_text().rpartition(")")[2].split()[1]) in before:
                    found.add(int(stat.parent.name))
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "sent",
    [signal.SIGTERM, signal.SIGINT, signal.SIGKILL],
)
def test_all_processes_end_with_the_server_however_it_ends(
    config: Path, children: Path, sent: signal.Signals
) -> None:
    words = ("--config", str(config), "--trust")
    with launched(*words, stderr=subprocess.PIPE) as (url, server):
        with Client(url) as client:
            client.until(lambda: client.health()["status"] == "ok")
            started = client.start(**fault(RUN))
            client.until(children.read_text)
            family = _family(server.pid) | {int(pid) for pid in children.read_text().split()}
            assert len(family) >= 6  # the server, tracker, origin, two workers and a solver
            with client.stream("GET", started["events"]) as stream:
                lines = stream.iter_lines()
                assert next(lines) == "event: progress"
                _send(server, sent)
                with suppress(httpx.TransportError):
                    list(lines)
        server.wait(PATIENCE)
        client.until(lambda: not any(map(_lives, family)))
        assert server.stderr is not None
        assert server.stderr.read() == ""


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_quietly_while_it_loads(tmp_path: Path, sent: signal.Signals) -> None:
    words = ("--config", str(write_faulty(tmp_path)), "--trust")
    (tmp_path / "held").touch()
    with launched(*words, stderr=subprocess.PIPE) as (url, server):
        with Client(url) as client:
            client.until(lambda: len(_family(server.pid)) >= 3)
            assert client.health()["status"] == "loading"
            family = _family(server.pid)
            _send(server, sent)
        server.wait(PATIENCE)
        client.until(lambda: not any(map(_lives, family)))
        assert server.stderr is not None
        assert server.stderr.read() == ""
