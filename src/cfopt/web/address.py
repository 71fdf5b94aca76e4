"""Where a server is: the names and the port that it answers to, and the token that opens it."""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Addresses that stand for all addresses of a machine.
_ALL = ("0.0.0.0", "::")
#: The port that a name without one means.
_HTTP = 80
#: The cookie of a browser that has opened the printed address; of each port its own.
_COOKIE = "cfopt-{port}"


@dataclass(frozen=True)
class Address:
    """Where clients find a server.

    Arguments:
        host: the name or address that the server was asked to use.
        port: the port on which it listens.
        token: what a client must know; "" on a server that only this machine can reach.
    """

    host: str
    port: int
    token: str = ""

    @classmethod
    def of(cls, host: str, port: int) -> Address:
        """An address with a new token, unless it is on this machine alone."""
        token = "" if _on_this_machine(host.lower()) else secrets.token_urlsafe(16)
        return cls(host.lower(), port, token)

    @property
    def url(self) -> str:
        """What to open in a browser, with the token."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{self.port}" + (f"/?token={self.token}" if self.token else "")

    @property
    def elsewhere(self) -> str:
        """How to reach it from another machine, where the printed address does not say so."""
        if self.host not in _ALL:
            return ""
        return f" From another machine, write this one's address in place of {self.host} in it."

    def answers_to(self, host: str) -> bool:
        """Whether a Host header names this server, its port included."""
        name, port = split_host(host)
        if port != self.port:
            return False
        if name in _LOOPBACK or name == self.host:
            return True
        # Bound to all addresses: any of them, but no name, since a name can be made to point here.
        try:
            return self.host in _ALL and bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def opened_by(self, headers: Headers, query: bytes) -> bool:
        """Whether a request has the token: as a cookie, as `Authorization: Bearer`, or new."""
        if not self.token:
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            cookies = SimpleCookie()
        kept = cookies.get(_COOKIE.format(port=self.port))
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = [kept.value if kept else "", bearer if scheme.lower() == "bearer" else ""]
        return any(map(self._right, given)) or self.brings_token(query)

    def brings_token(self, query: bytes) -> bool:
        """Whether a query has the token, so that it is to be kept as a cookie."""
        given = parse_qs(query.decode("latin-1")).get("token", [""])[0]
        return bool(self.token) and self._right(given)

    def cookie(self) -> str:
        """What a browser that brought the token is to keep."""
        name = _COOKIE.format(port=self.port)
        return f"{name}={self.token}; Path=/; HttpOnly; SameSite=Lax"

    def _right(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())


def _on_this_machine(host: str) -> bool:
    try:
        return host in _LOOPBACK or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may lead anywhere
        return False


def split_host(host: str) -> tuple[str, int | None]:
    """The name in a Host header, in lower case, and its port; ("", None) where it is neither."""
    try:
        parsed = urlsplit(f"//{host}")
        return parsed.hostname or "", _HTTP if parsed.port is None else parsed.port
    except ValueError:
        return "", None
