"""A server for all tests of a process that need no other one, and a browser for each file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.browsing import Server, Visit, browsing, command_serving, find_browser


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with command_serving() as running:
        yield running


# Not for the session: Playwright leaves an event loop running, which other tests start themselves.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing(str(find_browser())) as opened:
        yield opened


@pytest.fixture
def visit(server: Server, browser: Any) -> Iterator[Callable[..., Visit]]:
    """Opens pages in windows of their own, which are closed in the end."""
    opened: list[Visit] = []

    def start(**settings: Any) -> Visit:
        opened.append(Visit(browser, server, **settings))
        return opened[-1]

    yield start
    for one in opened:
        one.close()
