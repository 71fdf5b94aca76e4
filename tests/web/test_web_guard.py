"""Who may ask the server: by which name and port, from which pages, and with which token."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.patient import PATIENCE, PATIENT
from tests.serving import ENDLESS, Client, fault, serving, write_faulty

from cfopt.web import pool, tasks
from cfopt.web.address import Address
from cfopt.web.limits import Limits
from cfopt.web.pool import Pool
from cfopt.web.process import DiedError, Source
from cfopt.web.serve import _Server, serve, settings
from cfopt.web.server import create_app

_JSON = {"Content-Type": "application/json"}
_BODY = b'{"pipeline": "grid", "context": {"row": 0}}'
_OTHERS = ["http://evil.example", "null", "http://[", "http://127.0.0.1:1"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    config = write_faulty(tmp_path_factory.mktemp("faulty"))
    with serving(Source(config, trusted=True), replace(PATIENT, workers=2)) as client:
        yield client


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1.evil.example:{port}"}, 421),
        ({"Host": "[::1"}, 421),
        ({"Host": "192.168.0.7:{port}"}, 421),
        # Another server of this machine is another server.
        ({"Host": "localhost:1"}, 421),
        ({"Host": "localhost"}, 421),
        ({"Host": "localhost:{port}"}, 200),
        ({"Host": "[::1]:{port}"}, 200),
        *[({"Origin": origin}, 403) for origin in _OTHERS],
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_only_pages_of_this_server_may_ask(
    client: Client, headers: dict[str, str], status: int
) -> None:
    port = str(client.base_url.port)
    sent = {name: value.replace("{port}", port) for name, value in headers.items()}
    answer = client.post("/api/decide", content=_BODY, headers=_JSON | sent)
    assert answer.status_code == status
    own = {"Origin": str(client.base_url).rstrip("/")}
    assert client.post("/api/decide", content=_BODY, headers=_JSON | own).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_may_link_here_but_not_read(client: Client, site: str) -> None:
    headers = {"Sec-Fetch-Site": site}
    for path in ("/api/health", "/api/pipelines", "/api/tasks/none/events"):
        assert client.get(path, headers=headers).status_code == 403
    for path in ("/", "/docs", "/static/app.js"):
        assert client.get(path, headers=headers).status_code == 200


def test_other_origins_cannot_cancel(client: Client) -> None:
    answer = client.delete("/api/tasks/some", headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


def test_there_is_no_cross_origin_access(client: Client) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/api/explain", headers=headers)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_the_health_of_the_server_names_no_search(client: Client) -> None:
    started = client.start(**fault(ENDLESS))
    client.running(started)
    told = client.get("/api/health")
    assert started["id"] not in told.text
    assert "busy" in [worker["state"] for worker in told.json()["workers"]]
    client.delete(started["url"])


def test_a_search_that_nobody_follows_is_ended(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(tasks, "time", SimpleNamespace(monotonic=lambda: now))
    followed, left = client.start(**fault(ENDLESS)), client.start(**fault(ENDLESS))
    client.running(left)
    client.running(followed)
    took = (data["seconds"] for _, data in client.events(followed))
    for _ in range(2):
        now += 0.6 * PATIENT.unheard_seconds
        assert any(seconds == now for seconds in took)  # since when it has been followed
    # Asked for the health alone, nobody wants to know of the search.
    client.until(lambda: [one["state"] for one in client.health()["workers"]].count("busy") == 1)
    task = client.task(left)
    assert task["status"] == "cancelled"
    assert task["message"] == "The search was ended, since nobody was following it."
    assert client.task(followed)["status"] == "running"
    client.delete(followed["url"])


def test_beyond_this_machine_a_token_is_needed_and_kept_as_a_cookie() -> None:
    address = Address.of("0.0.0.0", 8321)
    assert address.url == f"http://0.0.0.0:8321/?token={address.token}"
    assert len(address.token) > 20
    assert "in place of 0.0.0.0 in it." in address.elsewhere
    assert Address.of("192.168.0.7", 8321).elsewhere == ""
    assert address.token != Address.of("0.0.0.0", 8321).token
    for local in ("127.0.0.1", "localhost", "::1", "127.0.0.5"):
        assert Address.of(local, 8321).token == ""
    app = create_app(Source(), Limits(), address)

    async def asked() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        given = {"transport": transport, "base_url": "http://192.168.0.7:8321"}
        bearer = {"Authorization": f"Bearer {address.token}"}
        async with httpx.AsyncClient(**given) as stranger, httpx.AsyncClient(**given) as guest:
            return [
                await stranger.get("/"),
                await stranger.get("/api/health"),
                await stranger.get("/api/health", headers={"Authorization": "Bearer x"}),
                await stranger.get("/?token=x"),
                await stranger.get("/", headers={"Cookie": "a=\x7f; ==;"}),
                await stranger.get("/api/health", headers=bearer),
                await guest.get(f"/?token={address.token}"),
                await guest.get("/api/health"),
            ]

    answers = asyncio.run(asked())
    assert [one.status_code for one in answers] == [401] * 5 + [200] * 3
    assert "open the address that it printed" in answers[0].json()["detail"]
    cookie = answers[6].headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert not any("set-cookie" in one.headers for one in answers[:6])


class _Dying:
    """A worker that ends when it is told to."""

    made = 0

    def __init__(self, source: Source, grace: float) -> None:
        type(self).made += 1
        self.alive, self.pid = True, 1

    def load(self, seconds: float) -> tuple[list[dict[str, Any]], dict[str, str]]:
        return [], {}

    def begin(self) -> Any:
        return lambda: None

    def call(self, *given: Any) -> dict[str, Any]:
        self.alive = False
        raise DiedError("It died.")

    def kill(self) -> None:
        self.alive = False

    close = kill


def test_a_worker_that_a_signal_ended_with_the_server_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "Process", _Dying)
    monkeypatch.setattr(_Dying, "made", 0)
    monkeypatch.setattr(pool, "_MOMENT", PATIENCE)
    limits, address = Limits(), Address("127.0.0.1", 1)
    crew = Pool(Source(), limits)
    server = _Server(settings(create_app(Source(), limits, address), limits), crew, address)
    crew.start()
    for worker in crew.workers:
        worker.loaded.wait(PATIENCE)
    # The signal has reached the worker, and then the server.
    call = crew.call("decide", {}, 1.0)
    with pytest.raises(DiedError):
        call.result(PATIENCE)
    server.handle_exit(15, None)
    for worker in crew.workers:
        worker.join(PATIENCE)
        assert not worker.is_alive()
    assert _Dying.made == 2


@pytest.mark.parametrize(
    ("host", "warned", "shown"),
    [
        ("127.0.0.1", "", r"http://127\.0\.0\.1:\d+ "),
        (
            "0.0.0.0",
            "Warning: other machines can reach this server",
            r"http://0\.0\.0\.0:\d+/\?token=[\w-]{20,} ",
        ),
    ],
)
def test_beyond_this_machine_the_command_warns_and_prints_a_token(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    host: str,
    warned: str,
    shown: str,
) -> None:
    async def over(server: _Server) -> None:
        """Once it listens, it ends."""

    monkeypatch.setattr(pool, "Process", _Dying)
    monkeypatch.setattr(_Server, "main_loop", over)
    serve(Source(), Limits(), host, 0)
    said = capsys.readouterr()
    assert re.search(f"The explorer is at {shown}", said.out)
    assert said.err.startswith(warned)
    assert bool(said.err) == bool(warned)
