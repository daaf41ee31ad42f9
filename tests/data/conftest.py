"""A web server on this machine whose every answer the test decides, and data folders of the test's own."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evenhand.data import CatalogEntry, File
from evenhand.data.catalog import parse

Answer = Callable[[BaseHTTPRequestHandler], None]


class Web:
    """Routes by path; `seen` keeps path and headers of each request, `release` frees the hanging answers."""

    def __init__(self) -> None:
        self.routes: dict[str, Answer] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.release = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.seen.append((self.path, dict(self.headers)))
                web.routes.get(self.path, lambda handler: handler.send_error(404))(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}{path}"

    def serve(self, path: str, body: bytes, *, length: int | None = None, **headers: str) -> None:
        self.routes[path] = lambda handler: send(handler, body, length=length, **headers)

    def redirect(self, path: str, to: str) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", to)
            handler.end_headers()

        self.routes[path] = answer

    def serve_ranges(self, path: str, body: bytes, *, tag: str = '"v1"') -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            asked = handler.headers.get("Range", "")
            if not asked or handler.headers.get("If-Range") != tag:
                send(handler, body, ETag=tag)
                return
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                handler.send_error(416)
                return
            where = f"bytes {start}-{len(body) - 1}/{len(body)}"
            send(handler, body[start:], status=206, **{"ETag": tag, "Content-Range": where})

        self.routes[path] = answer


def send(
    handler: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, length: int | None = None, **headers: str
) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    for key, value in headers.items():
        handler.send_header(key.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.release.set()
    made.server.shutdown()
    made.server.server_close()
    thread.join()


DATA_FOLDER = os.environ.get("EVENHAND_DATA", "")


@pytest.fixture
def data_folder() -> Path:
    if not DATA_FOLDER:
        pytest.skip("EVENHAND_DATA is not set: no real data at hand")
    return Path(DATA_FOLDER)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("EVENHAND_DATA", "EVENHAND_OFFLINE", "EVENHAND_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def file_of(name: str, content: bytes) -> File:
    return File(name, hashlib.sha256(content).hexdigest(), len(content))


def entry_of(*files: File, sources: tuple[str, ...] = (), **more: str | bool) -> CatalogEntry:
    facts = {"title": "A set", "kind": "corpus", "licence": "CC0-1.0", "citation": "nobody"}
    return CatalogEntry(id="a-set", files=files, sources=tuple(map(parse, sources)), **{**facts, **more})  # type: ignore[arg-type]


@pytest.fixture
def make_file() -> Callable[[str, bytes], File]:
    return file_of


@pytest.fixture
def make_entry() -> Callable[..., CatalogEntry]:
    return entry_of
