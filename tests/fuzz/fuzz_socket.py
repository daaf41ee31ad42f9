"""Bytes on the socket of `serve`, through the protocol of the server, and what it answers.

A request stands as bytes, with PAUSE where the client stops writing for a moment. The last byte decides how the client
ends: it waits, closes its side, breaks the connection off, or is silent until the time of the server is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_pages

PAUSE = b"|~|"
WAITS, CLOSES, BREAKS, SILENT = range(4)
FAST_TURNS, MOST_TURNS = 200, 10_000  # of the loop for one connection
HEAD = b"GET /runs HTTP/1.1\r\nhost: 127.0.0.1\r\n"
BAD_REQUEST = b"Invalid HTTP request received."
TOKENS = (
    b"\r\n", b"\r\n\r\n", b"\n\n", PAUSE, b"HTTP/1.0", b"HTTP/1.1", b"HTTP/9.9", b"transfer-encoding: chunked\r\n", b"0\r\n\r\n",
    b"content-length: 5\r\n", b"content-length: -1\r\n", b"connection: close\r\n", b"connection: upgrade\r\nupgrade: websocket\r\n",
    b"expect: 100-continue\r\n", b"host: [::1].evil.com\r\n", b"host: localhost\r\n", b"POST /audits ", b"HEAD / ", b"OPTIONS * ",
    b"GET http://evil.example/ ", b"GET //evil.example ", b"\0", b"\xff", b"%00", b"..%2f", b"ffffffffffffffff\r\n",
    b"range: bytes=0-\r\n", b"x: " + b"a" * 300 + b"\r\n",
)  # fmt: skip


class _Errors(logging.Handler):
    """Collects what the server reports as an error, which the user would see as a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        detail = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
        self.found.append(f"{record.getMessage()} {detail[-1500:]}")


class SocketFuzzer:
    """A server on one side of a pair of sockets."""

    def __init__(self) -> None:
        import uvicorn
        from uvicorn.server import ServerState

        from evenhand.web.connections import BoundedConnection

        self.pages = fuzz_pages.server()
        self.config = uvicorn.Config(
            self.pages.app, log_config=None, access_log=False, server_header=False, http=BoundedConnection, ws="none",
            timeout_keep_alive=5, proxy_headers=False, lifespan="off",
        )  # fmt: skip
        self.config.load()
        self.protocol, self.state = BoundedConnection, ServerState()
        self.errors = _Errors()
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).handlers = [self.errors]
            logging.getLogger(name).propagate = False
        self.loop = self.pages.loop
        self.loop.set_exception_handler(lambda loop, context: self.errors.found.append(repr(context)[:1500]))

    def ask(self, data: bytes) -> bytes:
        """Send bytes; return the answer, or raise AssertionError if a promise about answers is broken."""
        for name, value in self.pages.names.items():
            data = data.replace(name, value)
        data, ending = (data[:-1], data[-1] % 4) if data else (b"", WAITS)
        self.pages.watched = True
        try:
            answer = self.loop.run_until_complete(self._talk(data.split(PAUSE)[:12], ending))
        finally:
            self.pages.watched = False
        written = [path for path in self.pages.written if not path.startswith("socket")]
        self.pages.written.clear()
        if written:
            raise AssertionError(f"a request wrote to {written}")
        found, self.errors.found = self.errors.found, []
        if found:
            raise AssertionError(f"the server reports {found[0]}")
        if self.state.connections or self.state.tasks:
            raise AssertionError(
                f"{len(self.state.connections)} connections and {len(self.state.tasks)} tasks are left"
            )
        _check_answers(answer)
        return answer

    async def _talk(self, parts: list[bytes], ending: int) -> bytes:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        protocols: list[Any] = []

        def accept() -> Any:
            protocols.append(self.protocol(self.config, self.state, {}))
            return protocols[-1]

        transport, protocol = await self.loop.connect_accepted_socket(accept, theirs)
        answer = b""
        try:
            for part in parts:
                self._send(ours, part)
                await self._turn(4)
                answer += self._received(ours)
            self._end(ours, ending)
            answer += await self._settled(ours, lambda: self._is_done(transport, protocol, ending))
            if ending == SILENT and protocol.deadline is not None:
                protocol.deadline.cancel()
                protocol.expire()
            if not transport.is_closing():
                transport.abort()
            answer += await self._settled(ours, lambda: not self.state.connections and not self.state.tasks)
        finally:
            ours.close()
        return answer

    def _end(self, ours: socket.socket, ending: int) -> None:
        if ending == BREAKS:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            ours.close()
        elif ending == CLOSES:
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_WR)

    def _is_done(self, transport: asyncio.Transport, protocol: Any, ending: int) -> bool:
        """Return whether nothing more happens unless the client writes."""
        idle = not self.state.tasks and ending != CLOSES
        return transport.is_closing() or idle or (bool(self.state.tasks) and _waits_for_more(protocol))

    async def _settled(self, ours: socket.socket, done: Callable[[], bool]) -> bytes:
        """Return what arrives until something is true."""
        answer = b""
        for turn in range(MOST_TURNS):
            await asyncio.sleep(0 if turn < FAST_TURNS else 0.002)  # what is computed takes a while
            answer += self._received(ours)
            if done():
                break
        return answer

    async def _turn(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    def _send(self, ours: socket.socket, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the server has closed
            ours.send(data)

    def _received(self, ours: socket.socket) -> bytes:
        try:
            return ours.recv(1 << 20)
        except OSError:
            return b""


def _waits_for_more(protocol: Any) -> bool:
    return protocol.cycle is not None and protocol.cycle.more_body and not protocol.cycle.response_complete


def _check_answers(answer: bytes) -> None:
    """Check that what arrived is whole or broken-off answers of ours, each with every header of security."""
    from evenhand.web.server import HEADERS

    for block in _heads(answer):
        first, *lines = block.split(b"\r\n")
        version, _, rest = first.partition(b" ")
        status = int(rest[:3])
        if status == 100:
            continue
        if version != b"HTTP/1.1" or (status >= 500 and status != 503):
            raise AssertionError(f"an answer begins {first!r}")
        headers = {name.lower().decode(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        if missing := set(HEADERS) - set(headers):
            raise AssertionError(f"{first!r} without the headers {missing}")
        if headers.get("location", b"/")[:2] == b"//" or not headers.get("location", b"/").startswith(b"/"):
            raise AssertionError(f"sends the reader to {headers['location']!r}")


def _heads(answer: bytes) -> list[bytes]:
    """Return the head of each answer, by the lengths that they give; a chunked or broken-off body ends the list."""
    heads = []
    while answer.startswith(b"HTTP/"):
        head, found, body = answer.partition(b"\r\n\r\n")
        if not found:
            break
        heads.append(head)
        length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), None)
        answer = body[int(length.partition(b":")[2]) :] if length else body
    return heads


@functools.cache
def server() -> SocketFuzzer:
    """Return the one server of this process."""
    return SocketFuzzer()


def ask(path: Path) -> object:
    """Send the bytes that a file holds."""
    return server().ask(path.read_bytes())


def requests() -> list[bytes]:
    """Return requests that browsers send, and such as no browser sends."""
    form = b"token=TOKEN&subject=s0&concept=gender&method=linear&measure=weat"
    post = b"POST /audits HTTP/1.1\r\nhost: 127.0.0.1\r\norigin: http://127.0.0.1\r\ncontent-type: application/x-www-form-urlencoded\r\n"
    chunk = b"%x\r\n%b\r\n" % (len(form), form)
    made = [
        HEAD + b"\r\n",
        HEAD + b"\r\n" + PAUSE + HEAD + b"connection: close\r\n\r\n",
        post + b"content-length: %d\r\n\r\n" % len(form) + form,
        post + b"content-length: %d\r\n\r\n" % len(form) + form[:20] + PAUSE + form[20:],
        post + b"content-length: 900\r\n\r\n" + form,  # dropped form body
        post + b"transfer-encoding: chunked\r\n\r\n" + chunk + PAUSE + b"0\r\n\r\n",
        post + b"expect: 100-continue\r\ncontent-length: 5\r\n\r\n" + PAUSE + b"token",
        b"GET /runs/RUN1/audit.json HTTP/1.0\r\nhost: localhost\r\n\r\n",
        b"GET /audits/JOB1/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET /runs HTTP/1.1\r\nhost: [::1].evil.com\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: evil.example\r\nx: " + b"a" * 4000 + b"\r\n\r\n",
        HEAD[:30] + PAUSE + HEAD[30:],
        HEAD + b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n\r\n",
        HEAD + b"\r\n\x16\x03\x01\x02\x00\x01",
    ]
    return [data + bytes([number % 4]) for number, data in enumerate(made)]
