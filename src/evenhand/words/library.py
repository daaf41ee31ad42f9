"""One word file as a shelf of records, each built when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from evenhand.errors import UnknownNameError, UsageError, unknown_name
from evenhand.words.builders import BUILDERS, build_source
from evenhand.words.document import Document, TomlTable, read_document
from evenhand.words.source import Source
from evenhand.words.wordset import Pairs, WordSet

KINDS = tuple(kind for kind in BUILDERS if kind != "source")
Elsewhere = Callable[[str, str], Any]

# What is being built right now, so that a list that includes itself is an error and not an endless recursion. A context
# variable, not an attribute: two threads may build the same record at the same time.
_BUILDING: ContextVar[tuple[tuple[Path, str, str], ...]] = ContextVar("building", default=())


def nowhere(kind: str, name: str) -> Any:
    """The answer for an id that is in no other file."""
    raise unknown_name(kind, name, ())


class Library:
    """The records of one word file; `elsewhere(kind, id)` finds the lists it includes from other files."""

    def __init__(self, document: Document, elsewhere: Elsewhere = nowhere) -> None:
        self.document = document
        self._elsewhere = elsewhere
        self._built: dict[tuple[str, str], Any] = {}
        top = TomlTable(document, (), document.data)
        top.only(*BUILDERS, "probe")
        self.probe_ids = tuple(top.child("probe").table)  # `words.probes` builds them
        self._tables = {kind: top.child(kind) for kind in BUILDERS}

    def ids(self, kind: str) -> tuple[str, ...]:
        """The ids of one kind, in the order of the file."""
        return tuple(self._tables[kind].table)

    def get(self, kind: str, name: str) -> Any:
        """A record of this file."""
        if name not in self._tables[kind]:
            raise unknown_name(f"{kind} in {self.document.path}", name, self.ids(kind))
        if (kind, name) not in self._built:
            self._built[kind, name] = self._build(kind, name)
        return self._built[kind, name]

    def all(self) -> dict[tuple[str, str], Any]:
        """Every record of this file, so that every error in it comes to light."""
        return {(kind, name): self.get(kind, name) for kind in BUILDERS for name in self.ids(kind)}

    def source_of(self, entry: TomlTable) -> Source | None:
        """The source that an entry holds or names (here or elsewhere), or the only one of this file."""
        if isinstance(entry.table.get("source"), dict):
            return build_source(entry.child("source"), self)
        name = entry.text("source") if "source" in entry else _only(self.ids("source"))
        with entry.at("source"):
            try:
                found: Source | None = self._anywhere("source", name) if name else None
            except UnknownNameError as error:
                raise UnknownNameError(
                    error.message, hint=f'describe it in this file: [source.{name}] with title = "..."; or {error.hint}'
                ) from None
            return found

    def words(self, reference: str) -> WordSet:
        """The word set of that id, here or elsewhere; `id/first` and `id/second` are the sides of a pair list."""
        name, _, side = reference.partition("/")
        if not side:
            found: WordSet = self._anywhere("wordset", name)
            return found
        if side not in ("first", "second"):
            raise UsageError(f"'@{reference}' is not a list", hint=f"use '@{name}/first' or '@{name}/second'")
        pairs = self.pairs(name)
        return WordSet(name, pairs.first if side == "first" else pairs.second, pairs.source, note=pairs.note)

    def pairs(self, reference: str) -> Pairs:
        """The pair list of that id, here or elsewhere."""
        found: Pairs = self._anywhere("pairs", reference)
        return found

    def _anywhere(self, kind: str, name: str) -> Any:
        return self.get(kind, name) if name in self._tables[kind] else self._elsewhere(kind, name)

    def _build(self, kind: str, name: str) -> Any:
        entry = self._tables[kind].child(name)
        mark = (self.document.path, kind, name)
        if mark in _BUILDING.get():
            raise entry.error("", "the list includes itself", hint="break the circle of @ references")
        token = _BUILDING.set((*_BUILDING.get(), mark))
        try:
            return BUILDERS[kind](entry, self)
        finally:
            _BUILDING.reset(token)


def load_file(path: str | Path, elsewhere: Elsewhere = nowhere) -> Library:
    """Read a TOML or JSON word file and check every record in it."""
    library = Library(read_document(Path(path)), elsewhere)
    if not any(kind in KINDS for kind, _ in library.all()):
        raise library.document.error((), "holds no record", hint=f"add a table [{KINDS[0]}.my-list] with words")
    return library


def _only(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else ""
