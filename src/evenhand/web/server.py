"""Start the server on a socket of its own and say where it is."""

from __future__ import annotations

import os
import socket
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING

from evenhand.errors import OutputError, require
from evenhand.web.guard import LOOPBACK, host_name

if TYPE_CHECKING:
    from starlette.types import ASGIApp

CONCURRENT = 64  # connections
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
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, limit_concurrency=CONCURRENT,
        timeout_keep_alive=5, timeout_graceful_shutdown=GRACE, ws="none", proxy_headers=False,
    )  # fmt: skip
    if browser:
        threading.Timer(0.5, webbrowser.open, (browser,)).start()
    uvicorn.Server(config).run(sockets=[listening])
