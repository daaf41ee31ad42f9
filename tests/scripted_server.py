"""A small OpenAI-compatible server that answers as a test tells it to, on loopback."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = dict[str, Any]


@dataclass
class Reply:
    """What the server sends: a status, a body (JSON, or bytes as they are), headers, and how long it waits first."""

    body: JSON | bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0
    close: bool = False  # close the connection without an answer
    hang_up: bool = False  # close it after the answer, without a word


@dataclass
class Asked:
    """One request that the server received."""

    method: str
    path: str
    headers: dict[str, str]
    body: JSON


class ScriptedServer:
    """Answers each request by the function of its path; unknown paths are 404."""

    def __init__(self, routes: dict[str, Callable[[Asked], Reply]]) -> None:
        self.routes, self.asked = routes, list[Asked]()
        self.most_at_once = self._now = self.connections = 0
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with server._lock:
                    server.connections += 1

            def log_message(self, *args: object) -> None:
                pass

            def _answer(self) -> None:
                size = int(self.headers.get("content-length", 0))
                body = json.loads(self.rfile.read(size)) if size else {}
                asked = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                with server._lock:
                    server.asked.append(asked)
                    server._now += 1
                    server.most_at_once = max(server.most_at_once, server._now)
                try:
                    route = server.routes.get(asked.path)
                    reply = route(asked) if route else Reply({"error": {"message": "no such route"}}, 404)
                    time.sleep(reply.wait)
                finally:
                    with server._lock:
                        server._now -= 1
                if reply.close:
                    self.close_connection = True
                    return
                content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in {"content-length": str(len(content)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
                self.close_connection = self.close_connection or reply.hang_up

            do_GET = do_POST = _answer  # noqa: N815 (the names that http.server calls)

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *args: object) -> None:
                """A client that went away is part of some tests."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def posts(self, path: str = "") -> list[Asked]:
        """Return the POST requests, of one path if it is given."""
        return [asked for asked in self.asked if asked.method == "POST" and asked.path.endswith(path)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(routes: dict[str, Callable[[Asked], Reply]]) -> Iterator[ScriptedServer]:
    server = ScriptedServer(routes)
    try:
        yield server
    finally:
        server.close()


def models(*names: str, **more: Any) -> Callable[[Asked], Reply]:
    return lambda asked: Reply({"data": [{"id": name, **more} for name in names]})


def chat_reply(text: str, tokens: dict[str, float] | None = None) -> Reply:
    """An answer, with the probabilities of its first token if they are given."""
    choice: JSON = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    if tokens is not None:
        entries = [{"token": token, "logprob": math.log(p)} for token, p in tokens.items()]
        choice["logprobs"] = {"content": [{**entries[0], "top_logprobs": entries}]}
    return Reply({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})


def echo_reply(asked: Asked, score: Callable[[list[str], int], float]) -> Reply:
    """An answer in the form of vLLM: the prompt's words with their log-probabilities, and one more word."""
    words = asked.body["prompt"].split(" ")
    tokens = [word if not i else f" {word}" for i, word in enumerate(words)]
    logs = [None, *(score(tokens, i) for i in range(1, len(tokens)))]
    written = {"tokens": [*tokens, " end"], "token_logprobs": [*logs, -1.0]}
    return Reply({"choices": [{"text": asked.body["prompt"] + " end", "logprobs": written}], "usage": {}})
