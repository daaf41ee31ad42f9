"""Caches, and downloads from a server on this machine."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from fault_scenario import add, command, write_vectors

BODY = bytes(range(256)) * 2000
EARLIER = bytes(range(255, -1, -1)) * 1000  # the first part of an earlier version
PART = 150_000  # bytes that the server sends before it breaks off, where it does


def serve() -> int:
    """Start a web server in a process of its own; return its id."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    os.environ["FAULT_SERVER"] = f"http://127.0.0.1:{server.server_port}"
    pid = os.fork()
    if pid == 0:
        server.serve_forever()
    server.server_close()
    return pid


class _Handler(BaseHTTPRequestHandler):
    """Answers with the same bytes, also from the middle on; below /broken/ a transfer breaks off."""

    def do_GET(self) -> None:
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if self.headers.get("If-Range", '"v1"') != '"v1"':
            start = 0
        if start >= len(BODY):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("ETag", '"v1"')
        self.send_header("Content-Length", str(len(BODY) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        self.end_headers()
        stop = start + PART if self.path.startswith("/broken/") else len(BODY)
        with contextlib.suppress(OSError):
            self.wfile.write(BODY[start:stop])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


def _entry(path: str, *, hashed: bool = True) -> object:
    from evenhand.data import CatalogEntry, File
    from evenhand.data.catalog import parse

    file = File("set.txt", hashlib.sha256(BODY).hexdigest(), len(BODY)) if hashed else File("set.txt")
    facts = {"title": "A set", "kind": "corpus", "licence": "CC0-1.0", "citation": "nobody"}
    return CatalogEntry(id="a-set", files=(file,), sources=(parse(os.environ["FAULT_SERVER"] + path),), **facts)


def _fetch(path: str, *, tries: int = 1, hashed: bool = True) -> Callable[[Path], int]:
    call = command("fetch", "a-set")

    def run(folder: Path) -> int:
        from evenhand import data

        os.environ["no_proxy"] = "*"
        os.environ.pop("EVENHAND_OFFLINE", None)
        data.get = lambda name: _entry(path, hashed=hashed)  # type: ignore[assignment, return-value]
        code = 1
        for _ in range(tries):
            code = call(folder)
            if code not in (1, 4):
                break
        return code

    return run


def _read_fetched(folder: Path) -> object:
    from evenhand.data.fetch import obtain

    os.environ["EVENHAND_CACHE"] = str(folder / "cache")
    path = obtain(_entry("/set.txt", hashed=False), offline=True).copy.path
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _earlier_part(folder: Path) -> None:
    place = folder / "cache" / "data" / "a-set"
    place.mkdir(parents=True)
    (place / "set.txt.partial").write_bytes(EARLIER)
    (place / "set.txt.partial.tag").write_text('"v0"')


FETCHED = {"kept": False, "keeps_in_cache": True, "shares": True}
add("fetch", lambda folder: None, _fetch("/set.txt"), _read_fetched, **FETCHED)
add("fetch-broken-off", lambda folder: None, _fetch("/broken/set.txt", tries=9), _read_fetched, **FETCHED)
# Without a hash, only the tag of the server keeps the parts of two versions apart.
add("fetch-new-version", _earlier_part, _fetch("/set.txt", hashed=False), _read_fetched, **FETCHED)


def _big(folder: Path) -> None:
    write_vectors(folder / "big.txt", 1, tuple(f"w{n}" for n in range(1000)))
    (folder / "big.txt.gz").write_bytes(gzip.compress((folder / "big.txt").read_bytes(), 1, mtime=0))
    (folder / "big.txt").unlink()
    os.utime(folder / "big.txt.gz", (1, 1))  # an old file: its hash is stored


def _read_cached(folder: Path) -> object:
    from evenhand import Vectors
    from evenhand.models.vectors import cache

    os.environ["EVENHAND_CACHE"] = str(folder / "cache")
    found = Vectors.load(folder / "big.txt.gz")
    cache.settle()
    return [len(found), float(np.asarray(found.matrix, np.float64).sum())]


add(
    "vector-cache", _big, command("measure", "direct-bias", "big.txt.gz"), _read_cached, ignores_errors=True, repeats=True, shares=True
)  # fmt: skip
