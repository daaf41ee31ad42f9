"""The server: who may ask (the checks on every request, the headers of every answer), and the socket it listens on."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from evenhand.errors import OutputError, require

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from evenhand.web.forms import PageLimits


LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.%]+)\]|(?P<name>[^\[\]:@/?#\s]+))(?::[0-9]{0,5})?")
SAFE_METHODS = frozenset({"GET", "HEAD"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
ErrorPage: TypeAlias = "Callable[[int, str], Response]"


class RequestGuard:
    """An ASGI application around the pages.

    It refuses requests to another host name (DNS rebinding), requests that change something from another site, and
    requests that another site's page embeds; it refuses large bodies and queries; and it adds headers to each answer.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], limits: PageLimits, error_page: ErrorPage) -> None:
        self.app, self.limits, self.error_page = app, limits, error_page
        self.hosts = frozenset(host_name(host) for host in hosts) - {""}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message.get("headers", ())}
                added = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in given]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        if refusal := self.refusal(scope):
            await self.error_page(*refusal)(scope, receive, send_with_headers)
        else:
            await self.app(scope, receive, send_with_headers)

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and reason if a request is refused."""
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == "host"]
        if len(hosts) != 1 or host_name(hosts[0]) not in self.hosts:
            return 421, "This server does not answer to this host name. Use the address that `evenhand serve` printed."
        fields = dict(headers)
        if problem := _site_problem(scope["method"], fields, hosts[0]):
            return 403, problem
        length = fields.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length[:18]) > self.limits.body:
            return 413, f"The form is larger than {self.limits.body:,} bytes."
        if len(scope.get("query_string", b"")) > self.limits.query:
            return 414, f"The address is longer than {self.limits.query:,} characters."
        return None


def _site_problem(method: str, fields: dict[str, str], host: str) -> str:
    """Return why a request from another site is refused; a link from there to a page is allowed."""
    site = fields.get("sec-fetch-site", "")
    if method not in SAFE_METHODS:
        if site not in ("", "same-origin"):
            return "This form was sent from another site."
        origin = fields.get("origin")
        if origin is not None and _origin_host(origin) != host.lower():
            return "This form was sent from another site."
        return ""
    is_link = fields.get("sec-fetch-mode") == "navigate" and fields.get("sec-fetch-dest", "document") == "document"
    if site in ("cross-site", "same-site") and not is_link:
        return "Pages of another site may link to this page, but not embed it or read it."
    return ""


def _origin_host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def host_name(host: str) -> str:
    """Return the name in a Host header or an address, without port, brackets and final dot; empty for anything else.

    >>> host_name("LocalHost:8000"), host_name("[::1]:80"), host_name("::1"), host_name("[::1].evil.example")
    ('localhost', '::1', '::1', '')
    """
    host = host.strip().lower()
    if "[" not in host and host.count(":") > 1:  # an address of IPv6 as `--host` may have it
        return host
    match = HOST.fullmatch(host)
    return (match["address"] or match["name"].removesuffix(".")) if match else ""


GRACE = 2  # seconds that open answers have when the server stops


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host name."""
    return host_name(host) in LOOPBACK


def is_wildcard(host: str) -> bool:
    """Return whether an address means all interfaces; a browser never opens a page under it."""
    return host_name(host) in ("0.0.0.0", "::")


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 chooses a free one."""
    family = socket.AF_INET6 if ":" in host_name(host) else socket.AF_INET
    try:
        return socket.create_server((host_name(host), port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputError(f"cannot listen on {host} port {port}: {reason}", hint="choose another port, or 0") from None


def has_desktop() -> bool:
    """Return whether a browser can be opened in a window; elsewhere one might take over the terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def address_of(listening: socket.socket, host: str) -> str:
    """Return the address to open."""
    name = host_name(host)
    shown = "127.0.0.1" if is_wildcard(name) else name
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}/"


def serve(app: ASGIApp, listening: socket.socket, *, browser: str = "") -> None:
    """Answer requests until Ctrl-C.

    Args:
        app: the application.
        listening: the socket.
        browser: an address to open in the reader's browser; empty for none.
    """
    uvicorn = require("uvicorn", extra="web")
    from evenhand.web.connections import BoundedConnection

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, http=BoundedConnection, timeout_keep_alive=5,
        timeout_graceful_shutdown=GRACE, ws="none", proxy_headers=False,
    )  # fmt: skip
    if browser:
        threading.Timer(0.5, webbrowser.open, (browser,)).start()
    uvicorn.Server(config).run(sockets=[listening])
