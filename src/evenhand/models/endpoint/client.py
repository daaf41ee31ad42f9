"""`Client`: bounded parallel requests to one server, repeated where that helps, and answers kept as they arrive.

The promises: a key is sent to the server that was named and to no other, and stands in no record, message or process
list; an answer that arrived is never asked for again, also after the process is killed; a failure is one sentence.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from evenhand.errors import FormatError, InputMissingError, OutputError, UsageError, require
from evenhand.files import write_text
from evenhand.models.endpoint.connection import (
    MOST_BYTES,
    BrokenConnectionError,
    Connection,
    Connector,
    NoConnectionError,
)
from evenhand.progress import tell

if TYPE_CHECKING:
    from tenacity import Retrying


CONCURRENCY = 8  # requests under way at a time
TIMEOUT = 120.0  # seconds without a byte of an answer
ATTEMPTS = 6
LONGEST_WAIT = 60.0  # seconds between two attempts, also where the server asks for more
GRACE = 10.0  # seconds that answers under way are waited for when another request failed for good
REPEATED = (408, 409, 425, 429, 500, 502, 503, 504, 529)
SERVER_TEXT = 300  # characters of the server's own message that an error shows
JSON = dict[str, Any]
T = TypeVar("T")


class EndpointError(InputMissingError):
    """The server cannot be reached, refuses a request, or gives an answer that is not understood."""


class RequestRefusedError(EndpointError):
    """The server answers with an error that asking again does not change.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status


@dataclass(frozen=True)
class Request:
    """A request of JSON. Two equal requests have one answer, so `number` tells samples of one prompt apart."""

    route: str
    body: JSON
    number: int = 0

    def key(self, model: str) -> str:
        """Return the key under which the answer of a model is kept: a hash of everything that decides it."""
        parts = [model, self.route, self.body, self.number]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass
class Traffic:
    """What was asked and answered so far."""

    asked: int = 0
    kept: int = 0
    prompt_tokens: int = 0
    written_tokens: int = 0
    repeated: int = 0
    started: float = field(default_factory=time.monotonic)

    def count(self, answer: JSON) -> None:
        """Add an answer that the server gave now."""
        self.asked += 1
        usage = answer.get("usage")
        usage = usage if isinstance(usage, Mapping) else {}
        self.prompt_tokens += _whole(usage.get("prompt_tokens", answer.get("tokens_evaluated")))
        self.written_tokens += _whole(usage.get("completion_tokens", answer.get("tokens_predicted")))

    def to_dict(self) -> dict[str, int]:
        """Return plain data for a record."""
        return {
            "requests": self.asked, "answers_reused": self.kept, "repeated": self.repeated,
            "prompt_tokens": self.prompt_tokens, "written_tokens": self.written_tokens,
        }  # fmt: skip

    def __str__(self) -> str:
        seconds = max(time.monotonic() - self.started, 1e-9)
        read, written = f"{self.prompt_tokens:,} tokens read", f"{self.written_tokens:,} written"
        return f"requests ({read}, {written}, {self.asked / seconds:.1f} a second)"


class Client:
    """Asks one server.

    Args:
        base: address of the API, usually ending in /v1.
        key_env: name of the environment variable that holds the key; empty for none.
        concurrency: requests under way at a time.
        timeout: seconds without a byte before a request is given up and repeated.
        attempts: how often a request is sent at most.
    """

    def __init__(
        self,
        base: str,
        *,
        key_env: str = "",
        concurrency: int = CONCURRENCY,
        timeout: float = TIMEOUT,
        attempts: int = ATTEMPTS,
    ) -> None:
        require("httpx", extra="endpoint")
        require("tenacity", extra="endpoint")
        self.base = check_base(base)
        if concurrency < 1 or not timeout > 0 or attempts < 1:
            raise UsageError(
                f"concurrency and attempts must be at least 1 and timeout above 0, got {concurrency}, {attempts} and "
                f"{timeout}"
            )
        self._key_env, self._key = key_env, _read_key(key_env)
        self._concurrency, self._timeout, self._attempts = concurrency, timeout, attempts
        self._idle: list[Connection] = []
        weakref.finalize(self, _close, self._idle)
        self.traffic = Traffic()

    @property
    def root(self) -> str:
        """The address of the server without the path of the API, for routes that are not part of it."""
        return self.base.removesuffix("/v1")

    def get(self, route: str) -> JSON:
        """Return the answer to one GET request."""
        with self._connection() as connection:
            return self._ask(connection, "GET", route, None, self._attempting())

    def post(self, route: str, body: JSON) -> JSON:
        """Return the answer to one POST request; it is not kept."""
        with self._connection() as connection:
            answer = self._ask(connection, "POST", route, body, self._attempting())
        self.traffic.count(answer)
        return answer

    def post_all(
        self,
        requests: Sequence[Request],
        *,
        model: str,
        read: Callable[[Request, JSON], T],
        store: AnswerStore | None = None,
    ) -> list[T]:
        """Return what `read` finds in the answer to each request, in their order.

        Answers are kept as they arrive; those that an earlier run kept are not asked for. The first request that fails
        for good ends the call, after those under way are answered and kept, if that takes no longer than `GRACE`.

        Args:
            requests: the requests; equal ones are sent once.
            model: what decides the answers beside the requests: the fingerprint of the model.
            read: takes what is needed from the answer to a request, and raises an error where it is not there. It runs
                before an answer is kept, so a malformed one is never reused.
            store: where answers are kept; None keeps them for this call only.
        """
        keys = [request.key(model) for request in requests]
        contents: dict[str, T] = {}
        waiting: dict[str, Request] = {}
        for key, request in zip(keys, requests, strict=True):
            if key in contents or key in waiting:
                continue
            kept = None if store is None else store.get(key)
            if kept is None:
                waiting[key] = request
            else:
                contents[key] = read(request, kept)
                self.traffic.kept += 1
        done = len(contents)
        lock = threading.Lock()

        def arrived(key: str, answer: JSON) -> None:
            nonlocal done
            content = read(waiting[key], answer)
            with lock:
                contents[key] = content
                if store is not None:
                    store.put(key, answer)
                done += 1
                self.traffic.count(answer)

        if waiting:
            self._ask_all(waiting, arrived, lambda: tell(done, len(set(keys)), str(self.traffic)))
        return [contents[key] for key in keys]

    def _ask_all(
        self, waiting: Mapping[str, Request], arrived: Callable[[str, JSON], None], watch: Callable[[], None]
    ) -> None:
        """Ask everything that waits, a bounded number at a time.

        Each thread has a connection of its own; a pool that they share would be searched for every request. They are
        daemons, so that Ctrl-C does not wait for a silent server.
        `watch` is called in this thread every second, and a listener may raise to stop the work.
        """
        order, lock, stop = iter(waiting.items()), threading.Lock(), threading.Event()
        failures: list[BaseException] = []

        attempting = self._attempting(stop)

        def work() -> None:
            try:
                with self._connection() as connection:
                    while not stop.is_set():
                        with lock:
                            key, request = next(order, ("", None))
                        if request is None:
                            return
                        arrived(key, self._ask(connection, "POST", request.route, request.body, attempting))
            except BaseException as error:
                failures.append(error)
                stop.set()

        count = min(self._concurrency, len(waiting))
        threads = [threading.Thread(target=work, name="endpoint", daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            _wait_for(threads, stop, watch)
        finally:
            stop.set()
        if failures:
            raise failures[0]

    def _attempting(self, stop: threading.Event | None = None) -> Retrying:
        """Return what sends a request again where the failure may pass, until it is asked to stop."""
        from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, stop_when_event_set

        given_up = stop or threading.Event()

        def wait(state: RetryCallState) -> float:
            failure = state.outcome.exception() if state.outcome else None
            asked = failure.seconds if isinstance(failure, _TryAgainError) else None
            usual = min(LONGEST_WAIT, 0.5 * 2 ** (state.attempt_number - 1))
            return usual if asked is None else min(LONGEST_WAIT, asked)

        def count(state: RetryCallState) -> None:
            self.traffic.repeated += 1

        def sleep(seconds: float) -> None:
            given_up.wait(seconds)

        return Retrying(
            retry=retry_if_exception_type((_TryAgainError, TimeoutError, BrokenConnectionError)), wait=wait,
            stop=stop_after_attempt(self._attempts) | stop_when_event_set(given_up), sleep=sleep, before_sleep=count,
            reraise=True,
        )  # fmt: skip

    def _ask(self, connection: Connection, method: str, route: str, body: JSON | None, attempting: Retrying) -> JSON:
        """Send one request, and again where the failure may pass."""
        content = None if body is None else json.dumps(body).encode()
        try:
            return attempting(self._send, connection, method, route, content)
        except _TryAgainError as error:
            raise EndpointError(
                f"{self.base} answered {error.status} {self._attempts} times: {error.text}",
                hint="run the same command again later; answers that arrived are kept",
            ) from None
        except TimeoutError:
            raise EndpointError(
                f"{self.base} sent nothing for {self._timeout:g} seconds, {self._attempts} times",
                hint="is the server overloaded? allow more seconds (timeout) or fewer requests at a time (concurrency)",
            ) from None
        except (NoConnectionError, BrokenConnectionError) as error:
            raise self._unreachable(error) from None

    def _send(self, connection: Connection, method: str, route: str, body: bytes | None) -> JSON:
        url = f"{self.root}{route[1:]}" if route.startswith("!") else f"{self.base}{route}"
        status, headers, content = connection.exchange(method, url, body)
        if len(content) > MOST_BYTES:
            raise EndpointError(f"{self.base} sends an answer of more than {MOST_BYTES >> 20} MB to {route}")
        if status in REPEATED:
            raise _TryAgainError(status, self._text(content), _seconds(headers.get("retry-after", "")))
        if 300 <= status < 400:
            target = urlsplit(headers.get("location", ""))
            where = f"{target.scheme}://{target.hostname}" if target.hostname else "another address"
            raise EndpointError(
                f"{self.base} redirects to {where}, which is not followed: the key belongs to the address you named",
                hint="open the address that the server redirects to, if you trust it",
            )
        if status >= 400:
            raise self._refused(status, self._text(content))
        return _parsed(content, self.base, route)

    def _refused(self, status: int, text: str) -> RequestRefusedError:
        hint = ""
        if status in (401, 403):
            sent = f"the key in {self._key_env} was sent" if self._key else "no key was sent"
            hint = f"{sent}; name the environment variable that holds a valid key (key_env)"
        elif status == 404:
            hint = "check the address, which usually ends in /v1, and the name of the model behind #"
        return RequestRefusedError(f"{self.base} answered {status}: {text}", hint=hint, status=status)

    def _unreachable(self, error: Exception) -> EndpointError:
        reason = self._hidden(str(error) or type(error).__name__)
        if "CERTIFICATE" in reason.upper() or "SSL" in reason.upper():
            return EndpointError(
                f"{self.base} cannot be reached safely: {reason}",
                hint="set SSL_CERT_FILE to the certificates of your organisation",
            )
        return EndpointError(
            f"{self.base} cannot be reached: {reason}", hint="is the server running, and is the address right?"
        )

    def _text(self, content: bytes) -> str:
        """Return the server's own message, shortened and without the key."""
        text = content[:10_000].decode("utf-8", errors="replace")
        message = re.search(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"', text)
        return self._hidden((message[1] if message else text).strip()[:SERVER_TEXT] or "no reason given")

    def _hidden(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Lend a connection that stays open for the next request."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connector.connect()
        try:
            yield connection
        finally:
            self._idle.append(connection)

    @cached_property
    def _connector(self) -> Connector:
        return Connector(self.base, {"Authorization": f"Bearer {self._key}"} if self._key else {}, self._timeout)


def _wait_for(threads: Sequence[threading.Thread], stop: threading.Event, watch: Callable[[], None]) -> None:
    """Wait until threads end, or for `GRACE` after they were asked to stop; call `watch` every second until then."""
    asked = math.inf
    for thread in threads:
        while thread.is_alive() and time.monotonic() - asked < GRACE:
            thread.join(timeout=1.0)
            if stop.is_set():
                asked = min(asked, time.monotonic())
            elif thread.is_alive():
                watch()


def _close(connections: list[Connection]) -> None:
    while connections:
        connections.pop().close()


class _TryAgainError(Exception):
    """An answer that may be another one later."""

    def __init__(self, status: int, text: str, seconds: float | None) -> None:
        super().__init__(text)
        self.status, self.text, self.seconds = status, text, seconds


def check_base(base: str) -> str:
    """Return the address of an API without a slash at its end; raise if it is none or contains a secret."""
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{base!r} is not the address of a server", hint="such as http://127.0.0.1:8000/v1")
    if "@" in parts.netloc or parts.query:
        raise UsageError(
            "the address of the server contains a user, a password or a query, which could be a secret",
            hint="put the key into an environment variable and name the variable (key_env)",
        )
    return base.rstrip("/")


def _read_key(name: str) -> str:
    if not name:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        raise UsageError(f"the environment variable {name!r} is not set", hint="it should hold the key of the server")
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"the environment variable {name!r} does not hold a key: it has characters that no key has")
    return key


def _parsed(content: bytes, base: str, route: str) -> JSON:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise EndpointError(
            f"{base} answers {route} with something that is not JSON", hint="is this the address of an API?"
        ) from None
    if not isinstance(answer, dict):
        raise EndpointError(f"{base} answers {route} with JSON of an unexpected form: {type(answer).__name__}")
    return answer


def _seconds(text: str) -> float | None:
    """Return the seconds of a Retry-After header; a date is not read, and the usual wait applies."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def malformed(base: str, what: str) -> FormatError:
    """Return the error for an answer that lacks what every server of this kind gives."""
    return FormatError(f"{base} gave an answer without {what}", hint="is this an OpenAI-compatible server?")


ANSWER_FILE = "answers.jsonl"
MODEL_FILE = "models.json"  # the fingerprints of the models that were asked in a folder, oldest first
_folder: ContextVar[Path | None] = ContextVar("answers", default=None)


@contextmanager
def keeping_answers(folder: Path | None) -> Iterator[None]:
    """Keep what servers answer meanwhile, in this thread; None keeps nothing."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def current_store() -> AnswerStore | None:
    """Return where answers are kept now; None where they are not."""
    folder = _folder.get()
    return None if folder is None else AnswerStore.at(folder)


class AnswerStore:
    """A file with a line for each answer: key, answer, and the digest of both.

    Lines are appended in one write each, so several processes may share the file, and a killed one leaves at most a
    torn last line. A line that is torn, damaged or edited is passed over, and its answer is asked for again.
    """

    _open: ClassVar[dict[Path, AnswerStore]] = {}

    def __init__(self, folder: Path) -> None:
        self.file = folder / ANSWER_FILE
        self._answers: dict[str, JSON] = {}
        self.damaged = 0
        self._read()

    @classmethod
    def at(cls, folder: Path) -> AnswerStore:
        """Return the store of a folder; it is read once in a process."""
        where = folder.absolute()
        if where not in cls._open or not where.exists():
            cls._open[where] = cls(where)
        return cls._open[where]

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> JSON | None:
        """Return the answer to a request, or None."""
        return self._answers.get(key)

    def put(self, key: str, answer: JSON) -> None:
        """Keep an answer."""
        content = json.dumps(answer, ensure_ascii=False)
        line = json.dumps([key, content, _digest(key, content)], ensure_ascii=False) + "\n"
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                data = line.encode("utf-8", errors="surrogatepass")
                if os.write(handle, data) != len(data):
                    raise OSError("the disk is full")
            finally:
                os.close(handle)
        except OSError as error:
            raise OutputError(f"{self.file}: the answer could not be kept: {error.strerror or error}") from error
        self._answers[key] = answer

    def _read(self) -> None:
        if not self.file.is_file():
            return
        with self.file.open("rb") as lines:
            ended = True
            for line in lines:
                ended = line.endswith(b"\n")
                try:
                    key, content, digest = json.loads(line)
                    if digest == _digest(key, content):
                        self._answers[key] = json.loads(content)
                        continue
                except (ValueError, TypeError, RecursionError):
                    pass
                self.damaged += 1
        if not ended:  # the next line must not be glued to a torn one
            with self.file.open("ab") as file:
                file.write(b"\n")


def note_model(folder: Path, identity: str, fingerprint: str) -> str:
    """Remember which model was asked in a folder; return a sentence if it was another one before.

    Args:
        folder: where answers are kept.
        identity: address and name of the model.
        fingerprint: hash of its answers to fixed prompts.
    """
    file = folder / MODEL_FILE
    try:
        seen = json.loads(file.read_text(encoding="utf-8"))
        before = [(str(print_), str(date)) for print_, date in seen.get(identity, ())]
    except (OSError, ValueError, TypeError, AttributeError):
        seen, before = {}, []
    if not before or before[-1][0] != fingerprint:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        known = {str(key): value for key, value in seen.items()} | {identity: [*before, (fingerprint, now)]}
        write_text(file, json.dumps(known, indent=1) + "\n")
        before.append((fingerprint, now))
    if len(before) == 1:
        return ""
    (old, _), (new, since) = before[-2:]
    return (
        f"the model behind {identity} is not the one that was asked before in this folder: its answers to fixed "
        f"prompts changed (fingerprint {old[:12]}, and {new[:12]} since {since}). Nothing that the earlier model "
        "answered is used; every cell of it is asked anew"
    )


def _digest(key: str, content: str) -> str:
    return hashlib.sha256(f"{key}\0{content}".encode("utf-8", errors="surrogatepass")).hexdigest()
