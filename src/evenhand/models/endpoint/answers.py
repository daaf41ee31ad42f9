"""Answers of a server, kept in a file as they arrive, so a killed run asks and pays for nothing twice."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar

from evenhand.errors import OutputError

FILE = "answers.jsonl"
_folder: ContextVar[Path | None] = ContextVar("answers", default=None)


def request_key(model: str, route: str, body: dict[str, Any], number: int) -> str:
    """Return the key of a request: everything that decides its answer."""
    return hashlib.sha256(json.dumps([model, route, body, number], sort_keys=True).encode()).hexdigest()


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
        self.file = folder / FILE
        self._answers: dict[str, Any] = {}
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

    def get(self, key: str) -> Any:
        """Return the answer to a request, or None."""
        return self._answers.get(key)

    def put(self, key: str, answer: Any) -> None:
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


def _digest(key: str, content: str) -> str:
    return hashlib.sha256(f"{key}\0{content}".encode("utf-8", errors="surrogatepass")).hexdigest()
