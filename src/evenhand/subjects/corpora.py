"""A corpus as a subject: text files, folders, globs and addresses."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

from evenhand.corpus.readers.changed import DocumentChange
from evenhand.corpus.readers.paths import expand
from evenhand.corpus.readers.text import TextOptions
from evenhand.errors import UsageError
from evenhand.models.vectors.cache import content_hash
from evenhand.subjects.subject import SUBJECTS, Address, Subject, TextView, ViewName, files_digest

SMALL = 256 << 20  # bytes: a corpus up to this size is hashed whole, a larger one by names, sizes and times
SUFFIXES = (".jsonl", ".ndjson", ".parquet", ".arrow", ".wet", ".warc", ".xml")


@SUBJECTS.register("corpus")
class CorpusSubject(Subject):
    """A corpus. It offers `text`."""

    kind = "corpus"
    title = "a corpus"
    options: ClassVar[tuple[str, ...]] = (
        "documents", "field", "format", "encoding_errors", "skip_bad", "tokenizer", "lower", "window", "decay",
    )  # fmt: skip

    def __init__(self, paths: tuple[str, ...], address: str = "", **options: Any) -> None:
        super().__init__(Path(paths[0]).name if len(paths) == 1 else f"{Path(paths[0]).name} and others", address)
        self.files = tuple(str(path) for path in expand(paths))
        self.paths = paths
        self.changes: tuple[DocumentChange, ...] = ()
        self._reading = {name: value for name, value in options.items() if value is not None}
        self.view("text").source()  # refuses unknown options

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """Text only."""
        return ("text",)

    def _open_view(self, name: ViewName) -> TextView:
        change = reduce(lambda first, second: second @ first, self.changes) if self.changes else None
        return TextView(self.name, self.paths, self._reading, change=change)

    def changed(self, change: DocumentChange) -> CorpusSubject:
        """Return the corpus after a change of its documents, which is applied while the text is read."""
        if not hasattr(change, "versions"):
            raise UsageError(
                f"{self.name} is a corpus, and {type(change).__name__} does not change text",
                hint="use a method that does, such as cda",
            )
        after = copy.copy(self)
        vars(after).pop("digest", None)
        after._views, after.changes = {}, (*self.changes, change)
        return after

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the same address; a changed corpus has none."""
        if self.changes:
            raise UsageError(f"{self.name} was changed and is only in memory", hint="write it: `evenhand debias`")
        return super().__reduce__()

    def _content_digest(self) -> str:
        files = [Path(file) for file in self.files]
        tokenizer = Path(str(self._reading.get("tokenizer", "")))
        reading = repr(sorted(self._reading.items())) + (content_hash(tokenizer) if tokenizer.is_file() else "")
        reading += "".join(f" {change.digest}" for change in self.changes)
        if all(file.is_file() for file in files) and sum(file.stat().st_size for file in files) <= SMALL:
            return hashlib.sha256(f"{files_digest(iter(files))} {reading}".encode()).hexdigest()
        marks = [(file, *_mark(Path(file))) for file in self.files]
        return hashlib.sha256(f"{marks} {reading}".encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Name, files and how they are read."""
        plain = super().describe()
        opening = {**asdict(TextOptions()), **plain["opening"], **self._reading}
        return plain | {"files": len(self.files), "reading": dict(self._reading), "opening": opening}

    @classmethod
    def recognise(cls, address: Address) -> str:
        """A file by its suffix."""
        if address.entry_kind == cls.kind:
            return "it is the catalog id of a corpus"
        if suffix := address.named(*SUFFIXES):
            return "" if suffix == ".jsonl" and _has_predictions(address) else f"its name ends in {suffix}"
        return ""

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> CorpusSubject:
        """Expand the paths; nothing is read yet."""
        rest = str(address.path) if address.entry_kind else address.rest
        return cls((rest,), address.text, **options)


def _has_predictions(address: Address) -> bool:
    from evenhand.subjects.nli_models import has_predictions

    return has_predictions(address)


def _mark(file: Path) -> tuple[int, int]:
    return (file.stat().st_size, file.stat().st_mtime_ns) if file.is_file() else (0, 0)
