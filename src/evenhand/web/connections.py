"""Connections of the server, of which those that ask nothing keep nobody out."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from evenhand.web.server import HEADERS

CONNECTIONS = 256
REQUEST_SECONDS = 15.0  # for a whole request to arrive; a form has less, and gets an answer


class BoundedConnection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with a clock that runs unless a whole request is being answered.

    A connection whose request does not arrive, or whose client does not read its answer, ends when the time is over.
    When there are too many connections, the one that has waited longest gives way to the new one.
    """

    deadline: asyncio.TimerHandle | None = None
    unsent = 0
    """Bytes of the last answer that were not sent when the clock started."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock, and make room."""
        super().connection_made(transport)
        self.set_clock()
        if len(self.connections) > CONNECTIONS:
            clocks = {
                each: each.deadline.when()
                for each in self.connections
                if isinstance(each, BoundedConnection) and each.deadline is not None
            }
            min(clocks, key=lambda each: clocks[each]).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Stop the clock when the request is whole; a part of it does not start it again."""
        super().data_received(data)
        self.set_clock()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request with the headers of every other answer; not in the middle of one."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the request whose body they are gets no other answer
            self.cycle.message_event.set()
        if self.conn.our_state is h11.IDLE or self.conn.our_state is h11.SEND_RESPONSE:
            headers = [*HEADERS.items(), ("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
            body = msg.encode()
            whole = [*headers, ("content-length", str(len(body)))]
            for event in (h11.Response(status_code=400, headers=whole), h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self.set_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        if self.deadline is not None:
            self.deadline.cancel()
        super().connection_lost(exc)

    def set_clock(self) -> None:
        """Start the clock unless it runs, or stop it while a whole request is answered."""
        answering = self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        if answering and self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
        elif not answering and self.deadline is None:
            self.unsent = self.transport.get_write_buffer_size()
            self.deadline = self.loop.call_later(REQUEST_SECONDS, self.expire)

    def expire(self) -> None:
        """End the connection, unless its client has read something of the last answer in the meantime."""
        self.deadline = None
        if self.transport.get_write_buffer_size() < self.unsent:
            self.set_clock()
        else:
            self.transport.abort()
