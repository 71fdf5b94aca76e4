"""The explorer's server under load, and under requests made up from its own description."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.explorer import asked, crowd, fault_of
from benchmarks.made_up_requests import send
from tests.serving import Client, serving

from cfopt.web.process import Source


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(Source()) as client:
        yield client


def test_many_clients_at_once_lose_nothing_and_every_answer_holds(client: Client) -> None:
    told = crowd(str(client.base_url), requests=24, clients=8)
    assert told["faults"] == []
    assert told["answered"] == 24


def test_the_check_of_answers_finds_wrong_ones(client: Client) -> None:
    for k in (0, 1, 2, 3, 4, 5):
        request = asked(k)
        task = client.explain(**request)
        assert fault_of(request, task) == ""
        result = task["result"]
        if result["status"] == "valid":
            result["after"]["values"] = result["before"]["values"]
            assert fault_of(request, task) != ""


@pytest.mark.long
def test_requests_made_up_from_the_description_cause_no_server_error(
    client: Client,
) -> None:
    sent, fault = send(str(client.base_url).rstrip("/"), examples=8, seed=1)
    assert fault == ""
    assert sent > 300
    assert client.health()["status"] == "ok"
