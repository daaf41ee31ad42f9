"""Connections that ask nothing keep nobody out, and clients that break off print nothing."""

import contextlib
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("uvicorn", reason="the extra [web] is not installed")

from evenhand.errors import UsageError
from evenhand.web import PageLimits, connections, create_app, server
from evenhand.web.application import WebSite
from evenhand.web.explore import TOOLS

PATIENCE = 30.0
HALF_HEAD = b"GET /explore HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_BODY = (
    b"POST /explore/contexts HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 1000\r\n\r\nword="
)


@contextlib.contextmanager
def serving(limits: PageLimits | None = None) -> Iterator[tuple[int, WebSite]]:
    """Serve in a thread, and give the port."""
    import uvicorn

    app = create_app([], limits=limits)
    kept: list[uvicorn.Server] = []
    listening = server.listen("127.0.0.1", 0)

    class Kept(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            kept.append(self)

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # only the main thread may set handlers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn, "Server", Kept)
        thread = threading.Thread(target=server.serve, args=(app, listening), daemon=True)
        thread.start()
        until(lambda: bool(kept) and kept[0].started)
    yield listening.getsockname()[1], app.app.state.site
    kept[0].should_exit = True
    thread.join(PATIENCE)


def until(condition: object) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def connect(port: int, data: bytes = b"") -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    opened.sendall(data)
    return opened


def status(port: int, path: str = "/explore") -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
        return answer.status


def is_closed(opened: socket.socket) -> bool:
    """Return whether the server has ended a connection, whatever it sent before."""
    try:
        return opened.recv(1 << 16) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("data", [b"", HALF_HEAD, HALF_BODY], ids=["silent", "half a head", "half a form"])
def test_many_waiting_connections_keep_nobody_out(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS", 40)
    with serving() as (port, _), contextlib.ExitStack() as held:
        first = held.enter_context(connect(port, data))
        for _ in range(100):
            held.enter_context(connect(port, data))
        assert status(port) == 200
        assert is_closed(first)  # the one that waited longest gave way


@pytest.mark.parametrize("data", [b"", HALF_HEAD], ids=["silent", "half a head"])
def test_a_request_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    with serving() as (port, _), connect(port, data) as opened:
        until(lambda: is_closed(opened))


def test_a_drop_at_a_time_does_not_start_the_clock_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    with serving() as (port, _), connect(port, HALF_HEAD) as opened, pytest.raises(ConnectionError):
        send_slowly(opened)


def send_slowly(opened: socket.socket) -> None:
    for _ in range(int(PATIENCE / 0.02)):
        opened.sendall(b"x")
        time.sleep(0.02)


def test_a_second_half_request_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    with serving() as (port, _), connect(port, b"GET /static/icon.svg HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as opened:
        assert opened.recv(1 << 16).startswith(b"HTTP/1.1 200")
        opened.sendall(HALF_HEAD)
        until(lambda: is_closed(opened))


def test_pages_about_runs_do_not_wait_for_computations(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Semaphore(0), threading.Event()

    def compute(served: object, fields: object) -> dict[str, object]:
        begun.release()
        may_end.wait(PATIENCE)
        raise UsageError("this was the computation")

    slow = replace(TOOLS["contexts"], posts=False, answer=compute)
    monkeypatch.setitem(TOOLS, "contexts", slow)
    with serving(PageLimits(seconds=PATIENCE)) as (port, _), contextlib.ExitStack() as held:
        for _ in range(16):
            held.enter_context(connect(port, b"GET /explore/contexts HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
        assert begun.acquire(timeout=PATIENCE)
        assert status(port, "/runs") == 200
        may_end.set()


def test_a_form_that_breaks_off_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as (port, _):
        connect(port, HALF_BODY).close()
        assert status(port) == 200
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_a_slow_reader_gets_the_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    large = b"x" * 40_000_000
    with serving() as (port, site):
        site.static["icon.svg"] = large, "image/svg+xml"
        with connect(port, b"GET /static/icon.svg HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n") as opened:
            received = 0
            while part := opened.recv(1 << 20):
                received += len(part)
                time.sleep(0.01)
    assert received > len(large)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET /runs HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"POST /runs HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /runs HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"a" * 70_000,
    ],
    ids=["no HTTP", "two hosts", "a body that is none", "a head without an end"],
)
def test_bytes_that_are_no_request_get_one_answer_with_every_header(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as (port, _), connect(port, data) as opened:
        answer = b"".join(iter(lambda: opened.recv(1 << 16), b""))
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert answer.startswith(b"HTTP/1.1 4")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert all(name.encode() in head for name in server.HEADERS)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
