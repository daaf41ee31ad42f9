"""A corpus as a subject: text files, folders, globs and addresses."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from evenhand.corpus.readers.changed import ChangedSource, DocumentChange
from evenhand.corpus.readers.paths import expand
from evenhand.corpus.readers.source import Corpus, ReadArguments
from evenhand.corpus.readers.text import TextOptions
from evenhand.errors import UsageError
from evenhand.models.vectors.cache import content_hash
from evenhand.subjects.subject import SUBJECTS, Address, Change, Subject, TextView, ViewName, Written, files_digest

SMALL = 256 << 20  # bytes: a corpus up to this size is hashed whole, a larger one by names, sizes and times
SUFFIXES = (".jsonl", ".ndjson", ".parquet", ".arrow", ".wet", ".warc", ".xml")


class CorpusChange(Change, DocumentChange, Protocol):
    """A fitted change of documents."""

    def write(self, paths: tuple[str, ...], out: Path, *, fields: Sequence[str], **reading: Any) -> Written:
        """Write the corpus of some paths after the change."""


@SUBJECTS.register("corpus")
class CorpusSubject(Subject):
    """A corpus. It offers `text`."""

    kind = "corpus"
    title = "a corpus"
    opens = "corpus:PATH"
    changeable = ("text",)
    options: ClassVar[tuple[str, ...]] = (
        "documents", "field", "format", "encoding_errors", "skip_bad", "tokenizer", "lower", "window", "decay",
    )  # fmt: skip

    def __init__(self, paths: tuple[str, ...], address: str = "", **options: Any) -> None:
        super().__init__(Path(paths[0]).name if len(paths) == 1 else f"{Path(paths[0]).name} and others", address)
        self.files = tuple(str(path) for path in expand(paths))
        self.paths = paths
        self._reading = {name: value for name, value in options.items() if value is not None}
        self.view("text")  # refuses unknown options

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """Text only."""
        return ("text",)

    def _open_view(self, name: ViewName) -> TextView:
        reading = {name: value for name, value in self._reading.items() if name in ReadArguments.__annotations__}
        counting = {name: value for name, value in self._reading.items() if name not in reading}
        corpus, change = Corpus(list(self.paths), **reading), self._change
        return TextView(self.name, corpus if change is None else ChangedSource(corpus, change), counting)

    @property
    def _change(self) -> CorpusChange | None:
        """All changes as one, which is applied while the text is read."""
        changes = cast("tuple[CorpusChange, ...]", self.changes)
        return reduce(lambda first, second: cast(CorpusChange, second @ first), changes) if changes else None

    def _apply(self, change: Change) -> None:
        pass  # the documents are changed while they are read

    def check_output(self, out: Path, **options: object) -> None:
        """Accept any name: what can be written there depends on the files, which are looked at first."""

    def save(self, out: str | os.PathLike[str], **options: object) -> Written:
        """Write the changed corpus: the same files in the same formats, in constant memory.

        A folder of a stopped run is completed: finished files are kept.
        """
        change, reading = self._change, dict(self._reading)
        if change is None:
            raise UsageError(f"{self.name} was not changed: there is nothing to write", hint="apply a method first")
        fields = tuple(part.strip() for part in str(reading.pop("field", "text")).split(","))
        return change.write(self.paths, Path(out), fields=fields, **reading)

    def _content_digest(self) -> str:
        files = [Path(file) for file in self.files]
        tokenizer = Path(str(self._reading.get("tokenizer", "")))
        reading = repr(sorted(self._reading.items())) + (content_hash(tokenizer) if tokenizer.is_file() else "")
        if all(file.is_file() for file in files) and sum(file.stat().st_size for file in files) <= SMALL:
            return hashlib.sha256(f"{files_digest(iter(files))} {reading}".encode()).hexdigest()
        marks = [(file, *_mark(Path(file))) for file in self.files]
        return hashlib.sha256(f"{marks} {reading}".encode()).hexdigest()

    def describe(self) -> dict[str, object]:
        """Name, files and how they are read."""
        return super().describe() | {"files": len(self.files), "reading": dict(self._reading)}

    def _opened_by(self) -> dict[str, object]:
        return {**asdict(TextOptions()), **super()._opened_by(), **self._reading}

    @classmethod
    def recognise(cls, address: Address) -> str:
        """A file by its suffix."""
        if address.entry_kind == cls.kind:
            return "it is the catalog id of a corpus"
        if suffix := address.named(*SUFFIXES):
            return "" if suffix == ".jsonl" and _has_predictions(address) else f"its name ends in {suffix}"
        return ""

    @classmethod
    def from_address(cls, address: Address, **options: object) -> CorpusSubject:
        """Expand the paths; nothing is read yet."""
        rest = str(address.path) if address.entry_kind else address.rest
        return cls((rest,), address.text, **options)


def _has_predictions(address: Address) -> bool:
    from evenhand.subjects.nli_models import has_predictions

    return has_predictions(address)


def _mark(file: Path) -> tuple[int, int]:
    return (file.stat().st_size, file.stat().st_mtime_ns) if file.is_file() else (0, 0)
