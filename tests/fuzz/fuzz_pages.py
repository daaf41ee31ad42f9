"""The handlers of the page under fuzzing: a request as text goes to the ASGI application in this process.

A request is its first line (method and address), headers, an empty line and the body, as on the wire. Names in capitals
stand for what only a running server knows: TOKEN for the token of its forms, RUN1 and RUN2 for runs, JOB1 for an audit.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlencode

import fuzz_seeds
import numpy as np

import evenhand as eh

HOST = "host: 127.0.0.1\n"
FORM = f"{HOST}origin: http://127.0.0.1\nsec-fetch-site: same-origin\ncontent-type: application/x-www-form-urlencoded\n"
WORDS = "she he woman man her his girl boy nurse doctor cook pilot teacher engineer career family home office math art"
TAG = re.compile(
    rb"<(!doctype html|/?[a-z][a-z0-9]*)((?:\s+[a-zA-Z][a-zA-Z0-9:-]*(?:=\"[^\"<>]*\")?)*)\s*/?>", re.IGNORECASE
)
ATTRIBUTE = re.compile(rb"\s([a-zA-Z][a-zA-Z0-9:-]*)(?==|[\s/]|$)")
QUOTED = re.compile(rb'"[^"]*"')
CHANNELS = {"x": "quantitative", "y": "nominal", "color": "nominal"}
SWITCHES = {
    b"checked",
    b"selected",
    b"disabled",
    b"required",
    b"hidden",
    b"open",
    b"multiple",
    b"autofocus",
    b"defer",
    b"data-live",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod"}
METHOD = re.compile(rb"[A-Z]{1,12}")


class _Answered:
    """A likelihood and an inference model that answer at once."""

    name = "toy"

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> object:
        from evenhand.models.lm.likelihood import TextScores

        lengths = np.array([len(text.split()) for text in texts])
        return TextScores(-2.0 * lengths, lengths)

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> object:
        from evenhand.models.nli.protocol import Probabilities

        return Probabilities(np.tile([0.5, 0.25, 0.25], (len(premises), 1)))


class PageFuzzer:
    """A server with a small subject and two runs, without a socket, and the checks on each of its answers."""

    def __init__(self) -> None:
        from evenhand.models.nli import NLIEnsemble
        from evenhand.subjects.subject import Subject
        from evenhand.web import create_app
        from evenhand.web.audits import AuditJob, AuditRequest

        vectors = eh.Vectors.default().restrict(WORDS.split())

        class Toy(Subject):
            kind, title = "toy", "a toy"
            offers = ("vectors", "inference", "likelihood")

            def _open_view(self, name: str) -> Any:
                if name == "inference":
                    return NLIEnsemble((_Answered(),))
                return vectors if name == "vectors" else _Answered()

            def _content_digest(self) -> str:
                return "0" * 64

        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-pages-"))
        home = self.folder / "runs"
        for name in ("one", "two"):
            fuzz_seeds._audit().save(home / name)
        self.app = create_app([Toy("toy <b>", "toy.txt")], [home])
        self.site = self.app.app.state.site

        def start(request: AuditRequest) -> AuditJob:
            if request.folder.parent != home or not re.fullmatch(r"[A-Za-z0-9.-]+", request.folder.name):
                raise AssertionError(f"an audit would be saved in {request.folder}")
            return job

        job = AuditJob("0123456789abcdef", AuditRequest("toy", {}, "toy", "gender", (), (), home / "x"), state="done")
        self.site.audits._jobs[job.id] = job
        self.site.audits.start = start
        runs = [run.id for run in self.site.runs.listing()]
        known = (self.site.token, *runs, job.id)
        self.names = dict(zip((b"TOKEN", b"RUN1", b"RUN2", b"JOB1"), map(str.encode, known), strict=True))
        self.loop = asyncio.new_event_loop()
        self.tags, self.attributes = _known_markup()
        self.watched = False
        self.written: list[str] = []
        sys.addaudithook(self._note_writing)

    def _note_writing(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watched:
            return
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, str | bytes) and ((flags or 0) & WRITING or set(str(mode or "")) & set("wax+")):
                self.written.append(os.fsdecode(path))
        elif event in CHANGES or event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect"):
            self.written.append(f"{event} {arguments!r}"[:200])

    def ask(self, data: bytes) -> int:
        """Send a request; return the status, or raise AssertionError if a promise about answers is broken."""
        for name, value in self.names.items():
            data = data.replace(name, value)
        scope, body = _request(data)
        sent: list[dict[str, Any]] = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        self.watched = True
        try:
            self.loop.run_until_complete(self.app(scope, receive, send))
        finally:
            self.watched = False
        return self._check(scope, sent)

    def _check(self, scope: dict[str, Any], sent: list[dict[str, Any]]) -> int:
        from evenhand.web.server import HEADERS

        if self.written:
            raise AssertionError(f"a request wrote to {self.written}")
        if [message["type"] for message in sent].count("http.response.start") != 1:
            raise AssertionError(f"not one answer: {[message['type'] for message in sent]}")
        status, headers = sent[0]["status"], {name.decode(): value for name, value in sent[0]["headers"]}
        if status >= 500 and status != 503:
            raise AssertionError(f"status {status}")
        if missing := set(HEADERS) - set(headers):
            raise AssertionError(f"without the headers {missing}")
        if bad := [name for name, value in headers.items() if re.search(rb"[\r\n\0]", value)]:
            raise AssertionError(f"line breaks in {bad}")
        if not re.match(rb"/(?!/)", headers.get("location", b"/")):
            raise AssertionError(f"sends the reader to {headers['location']!r}")
        content = b"".join(message.get("body", b"") for message in sent[1:])
        if b"html" in headers.get("content-type", b"") and not scope["path"].endswith("/report"):
            self._check_markup(content)
        return int(status)

    def _check_markup(self, content: bytes) -> None:
        """Check that every tag and attribute is one of the templates."""
        content.decode()
        place = content.find(b"<")
        while place >= 0:
            tag = TAG.match(content, place)
            if tag is None or tag[1].strip(b"/").lower() not in self.tags:
                raise AssertionError(f"foreign markup: {content[place : place + 80]!r}")
            names = {name.lower() for name in ATTRIBUTE.findall(QUOTED.sub(b"", tag[2]) + b" ")}
            if foreign := names - self.attributes:
                raise AssertionError(f"foreign attributes {foreign}: {content[place : place + 80]!r}")
            place = content.find(b"<", tag.end())


def _request(data: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, address = first.partition(b" ")
    path, _, query = address.partition(b"?")
    headers = [line.partition(b":") for line in lines]
    scope = {
        "type": "http", "http_version": "1.1", "asgi": {"version": "3.0"}, "scheme": "http", "root_path": "",
        "method": method.decode() if METHOD.fullmatch(method) else "GET", "raw_path": path,
        "path": "/" + unquote(path.decode("latin-1")).lstrip("/"), "query_string": query,
        "headers": [(name.strip().lower(), value.strip()) for name, _, value in headers],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    return scope, body


def _known_markup() -> tuple[set[bytes], set[bytes]]:
    """Return the tags and attributes of the templates, and of a chart that shows nothing of a request."""
    import evenhand.report
    import evenhand.web
    from evenhand.report.charts import svg

    folders = [Path(str(module.__file__)).parent for module in (evenhand.web, evenhand.report)]
    text = b"".join(path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.html")))
    point = {
        "mark": {"type": "point", "tooltip": True},
        "encoding": {c: {"field": c, "type": t} for c, t in CHANNELS.items()},
    }
    rule = {"mark": "rule", "encoding": {"x": {"datum": 0}}}
    text += svg({"data": {"values": [{"x": 1, "y": "a", "color": "b"}]}, "layer": [point, rule]}).encode()
    tags = {tag.lower() for tag in re.findall(rb"<([a-zA-Z][a-zA-Z0-9]*)", text)} | {b"!doctype html", b"svg"}
    attributes = {name.lower() for name in re.findall(rb"\s([a-zA-Z][a-zA-Z0-9:-]*)=", text)} | SWITCHES
    if handlers := {name for name in attributes if name.startswith(b"on")}:
        raise AssertionError(f"the templates have {handlers}")
    return tags, attributes


class RunPages:
    """A server whose only run is a record that the fuzzer wrote; it is asked for every page about it."""

    _of: ClassVar[dict[Path, RunPages]] = {}

    def __init__(self, folder: Path) -> None:
        from evenhand.web import create_app

        self.app, self.loop = create_app([], [folder, server().folder / "runs" / "one"]), asyncio.new_event_loop()
        self.site = self.app.app.state.site

    @classmethod
    def of(cls, folder: Path) -> RunPages:
        """Return the server of a folder; one in a process."""
        if folder not in cls._of:
            cls._of[folder] = cls(folder)
        return cls._of[folder]

    def ask(self) -> list[int]:
        """Ask for every page about the run; return the statuses, or raise AssertionError for an error of the server."""
        from evenhand.web.runs import RunLibrary

        self.site.runs = RunLibrary(self.site.runs.folders, self.site.limits)  # nothing is kept from the last record
        runs = [run.id for run in self.site.runs.listing()]
        pages = [*(f"/runs/{run}" for run in runs[:1]), "/runs", f"/compare?run={'&run='.join(runs)}"]
        return [self._status(f"GET {page}\n{HOST}\n".encode()) for page in pages]

    def _status(self, data: bytes) -> int:
        scope, _ = _request(data)
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        self.loop.run_until_complete(self.app(scope, receive, send))
        status = int(sent[0]["status"])
        if status >= 500 and status != 503:
            raise AssertionError(f"status {status} for {data[:60]!r}")
        server()._check_markup(b"".join(message.get("body", b"") for message in sent[1:]))
        return status


@functools.cache
def server() -> PageFuzzer:
    """Return the one server of this process."""
    return PageFuzzer()


def ask(path: Path) -> object:
    """Send the request that a file holds."""
    return server().ask(path.read_bytes())


def _get(address: str, **fields: object) -> bytes:
    return f"GET {address}{'?' if fields else ''}{urlencode(fields, doseq=True)}\n{HOST}\n".encode()


def _post(address: str, **fields: object) -> bytes:
    return f"POST {address}\n{FORM}\n{urlencode({'token': 'TOKEN', **fields}, doseq=True)}".encode()


CHOICES = {"subject": "s0", "concept": "gender", "method": "linear"}


def explore_requests() -> list[bytes]:
    """Return the forms of the explore pages, filled in."""
    sets = {"x": "nurse cook", "y": "doctor pilot", "a": "she woman", "b": "he man"}
    names = {f"{id}_name": f"set {id}" for id in sets}
    return [
        _get("/explore/axis", **CHOICES, words="nurse doctor, cook"),
        _get("/explore"),
        _get("/explore/neighbours", **{**CHOICES, "method": "none"}, word="nurse", count=3),
        _get("/explore/association", **CHOICES, **sets, **names),
        _get("/explore/association", query="weat-6"),
        _get("/explore/inference", **CHOICES, premise="The {} slept.", hypotheses="A\nB {}", fillers="nurse, cook"),
        _get("/explore/blanks", subject="s0", sentence="The nurse said {} came.", fillers="she, he"),
        _post("/explore/contexts", source="pasted", concept="gender", word="nurse", text="She is a nurse. He is.\n\nA"),
        _get("/explore/axis", words='"><script>alert(1)</script>\u202e<b onload=x>{{ 7*7 }}'),
    ]


def run_requests() -> list[bytes]:
    """Return the addresses of the pages about runs."""
    return [
        _get("/runs", page=1), _get("/"), _get("/runs/RUN1"), _get("/runs/RUN2/audit.json"),
        _get("/compare", run=["RUN1", "RUN2"]), _get("/static/page.css"), _get("/runs/RUN1/charts/0/0.svg"),
        _get("/runs/%2e%2e%2f%2e%2e%2fetc/report"), _get("/static/..%2f..%2f__init__.py"),
    ]  # fmt: skip


def audit_requests() -> list[bytes]:
    """Return the forms that start, follow and stop an audit."""
    return [
        _post("/audits", subject="s0", concept="gender", method=["linear", "hard"], measure=["weat", "direct-bias"]),
        _get("/audits/new"), _get("/audits/JOB1"), _get("/audits/JOB1/events"), _post("/audits/JOB1/cancel"),
    ]  # fmt: skip


def guarded_requests() -> list[bytes]:
    """Return requests whose headers decide."""
    return [
        f"GET /explore\n{HOST}sec-fetch-site: cross-site\nsec-fetch-mode: navigate\nsec-fetch-dest: document\n\n".encode(),
        b"GET /runs\nhost: localhost:8000\ncontent-length: 0\n\n",
        b"GET /runs\nhost: [::1]:80\n\n",
        f"POST /audits\n{FORM}content-length: 11\n\ntoken=TOKEN".encode(),
        b"GET /runs\nhost: evil.example\n\n",
    ]


def _tokens() -> Iterator[bytes]:
    yield from (b"&%s=" % name for name in (b"subject", b"concept", b"method", b"words", b"word", b"count", b"query"))
    yield from (b"&%s=" % name for name in (b"x", b"y", b"a", b"b", b"premise", b"hypotheses", b"fillers", b"text"))
    yield from (b"&%s=" % name for name in (b"sentence", b"source", b"run", b"page", b"token", b"measure", b"x_name"))
    yield from (
        b"%3Cscript%3E",
        b"%22%3E%3C",
        b"%00",
        b"%0A",
        b"%FF",
        b"%ED%A0%80",
        b"%E2%80%AE",
        b"..%2f",
        b"{}",
        b"{{",
    )
    yield from (b"TOKEN", b"RUN1", b"RUN2", b"JOB1", b"religion", b"hard", b"none", b"s0", b"pasted", b"GET ", b"POST ")
    yield from (b"/explore/", b"/runs/", b"/audits/", b"/compare?", b"\nhost: ", b"\norigin: ", b"\ncontent-length: ")


TOKENS = tuple(_tokens())
