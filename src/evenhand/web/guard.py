"""Who may ask: the checks on every request before it reaches a page, and the headers of every answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.web.limits import PageLimits

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
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
ErrorPage = Callable[[int, str], Response]


class RequestGuard:
    """An ASGI application around the pages.

    It refuses requests to another host name (DNS rebinding), requests that change something from another site, and
    requests that another site's page embeds; it refuses large bodies and queries; and it adds headers to each answer.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], limits: PageLimits, error_page: ErrorPage) -> None:
        self.app, self.limits, self.error_page = app, limits, error_page
        self.hosts = frozenset(host_name(host) for host in hosts)

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
    """Return the name in a Host header or an address, without port, brackets and final dot.

    >>> host_name("LocalHost:8000"), host_name("[::1]:80"), host_name("::1")
    ('localhost', '::1', '::1')
    """
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name = host if host.count(":") > 1 else host.partition(":")[0]
    return name.removesuffix(".")
