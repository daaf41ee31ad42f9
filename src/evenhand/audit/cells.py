"""The cells of an audit: each is stored under a key made of everything that decides its value."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand import data, version, words
from evenhand.audit.plan import NEUTRAL, VOCABULARY, Question, method_of, split_chain
from evenhand.audit.schema import (
    DIGEST,
    UNREADABLE,
    CellEntry,
    FittedStageEntry,
    content_digest,
    read_json,
    require_valid,
)
from evenhand.errors import counted
from evenhand.files import require_inside, write_text
from evenhand.measures import Measurement
from evenhand.models.vectors.cache import content_hash, identity_of
from evenhand.subjects.judges import judge_sources
from evenhand.words import Concept, Query, WordSet
from evenhand.words.probes import Probe, probe
from evenhand.words.wordset import digest_of

CELLS, STAGES = "cells", "stages"
ROW_ONLY = ("subject", "stage", "label", "variant", "options", "only_query")  # what a result adds to its measurement


def resolve_query(question: Question, concept: Concept) -> Query | Probe | WordSet | words.Pairs | words.Table | str:
    """Return what a measure is asked: the record behind the id of a question, or the id itself."""
    takes = question.info.takes
    if takes == "query":
        return question.info.query(question.query, concept)
    if takes == "probe":
        return probe(question.query)
    if takes == "pairs":
        return words.pairs(question.query)
    if takes == "table":
        return words.table(question.query)
    if takes == "words" and question.query == NEUTRAL:
        return concept.neutral
    if takes == "words" and question.query != VOCABULARY:
        return words.wordset(question.query)
    return question.query


def query_digest(question: Question, concept: Concept) -> str:
    """Hash the content of what is asked: words, files, and the data sets that the measure reads."""
    record = resolve_query(question, concept)
    named = [record] if isinstance(record, str) else []
    named += [str(value) for value in question.options.values() if isinstance(value, str | Path)]
    named += judge_sources(str(question.options.get("judge", "")))
    files = [file for name in dict.fromkeys([*named, *question.info.data]) for file in _files_of(name)]
    asked = record if isinstance(record, str) else record.digest
    return digest_of([asked, *((file.name, _hash_of(file, **identity_of(file))) for file in files)]) if files else asked


def _files_of(name: str) -> list[Path]:
    """Return the files of a data set, of a path, or none for a name of another kind."""
    known = name in data.catalog()
    location = data.locate(name) if known else Path(name)
    try:
        if location is not None and location.is_file():
            return [location]
        if location is None or not location.is_dir() or not (known or "/" in name):
            return []  # an id such as "words" is no folder of the same name
    except OSError:  # a text that is too long for a path
        return []
    return sorted(file for file in location.rglob("*") if file.is_file())


@functools.lru_cache(maxsize=4096)
def _hash_of(file: Path, **identity: int) -> str:
    """Return the hash of a file; it is read again when its size, times or inode differ."""
    return content_hash(file)


def change_key(subject_digest: str, chain: str, concept: Concept, seed: int) -> str:
    """Key of a stage: the subject, the methods with their parameters and definitions, the concept and the seed."""
    steps: list[object] = []
    for step in split_chain(chain) if chain else ():
        method = method_of(step)
        params = method.params()
        read = [file for value in params.values() if isinstance(value, str) for file in _files_of(value)]
        content = [(file.name, _hash_of(file, **identity_of(file))) for file in read]
        steps.append([method.id, method.definition, params, *([content] if content else [])])
    return _key(["stage", version.__version__, subject_digest, steps, concept.digest if steps else "", seed])


def cell_key(stage_key: str, question: Question, concept: Concept, seed: int) -> str:
    """Key of a cell: its stage, the measure and its definition, what is asked, the options, concept and seed."""
    info = question.info
    asked = [info.id, info.definition, question.query, query_digest(question, concept), dict(question.options)]
    return _key(["cell", stage_key, asked, concept.digest, seed])


def _key(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Cell:
    """The measurements of one question on one stage, and the warnings that computing them raised."""

    measurements: tuple[Measurement, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"measurements": [m.to_dict() for m in self.measurements], "warnings": list(self.warnings)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Cell:
        """Read the output of `to_dict`."""
        measurements = tuple(Measurement.from_dict(item) for item in record["measurements"])
        return cls(measurements, tuple(record["warnings"]))


class CellStore:
    """A folder with one file per finished cell. Without a folder, cells are kept in memory.

    A file is written aside and renamed, so that a killed run leaves whole cells only. It holds the digest of its key
    and content. A file that is damaged, edited or of another key counts as missing.

    Attributes:
        damaged: kind and key of the files that were refused.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.damaged: set[tuple[str, str]] = set()
        self._memory: dict[tuple[str, str], dict[str, Any]] = {}

    def cell(self, key: str) -> Cell | None:
        """Return a finished cell, or None."""
        record = self._read(CELLS, key)
        if record is None:
            return None
        try:
            return Cell.from_dict(record)
        except UNREADABLE:
            self.damaged.add((CELLS, key))
            return None

    def put_cell(self, key: str, cell: Cell) -> None:
        """Store a finished cell."""
        self._write(CELLS, key, cell.to_dict())

    def stage(self, key: str) -> dict[str, Any] | None:
        """Return the report of a fitted stage, or None."""
        return self._read(STAGES, key)

    def put_stage(self, key: str, report: Mapping[str, object]) -> None:
        """Store the report of a fitted stage."""
        self._write(STAGES, key, report)

    def finished(self) -> str:
        """Return how many cells are stored, for messages."""
        folder = self.folder / CELLS if self.folder else None
        count = sum(1 for _ in folder.glob("*.json")) if folder and folder.is_dir() else len(self._memory)
        return counted(count, "finished cell")

    def damage(self) -> str:
        """Return a sentence about the files that were refused; empty if there were none."""
        found = [
            counted(sum(1 for of, _ in self.damaged if of == kind), name)
            for kind, name in ((CELLS, "stored cell"), (STAGES, "stored stage"))
            if any(of == kind for of, _ in self.damaged)
        ]
        were, are = ("was", "is") if len(self.damaged) == 1 else ("were", "are")
        return f"{' and '.join(found)} {were} damaged or edited and {are} computed again" if found else ""

    def _read(self, kind: str, key: str) -> dict[str, Any] | None:
        if self.folder is None:
            return self._memory.get((kind, key))
        try:
            text = (self.folder / kind / f"{key}.json").read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            self.damaged.add((kind, key))
            return None
        try:
            stored = read_json(text)
            content: dict[str, Any] = stored["content"]
            if stored[DIGEST] != content_digest([kind, key, content]):
                raise ValueError("the content does not have its digest")
            require_valid(content, CellEntry if kind == CELLS else FittedStageEntry)
        except UNREADABLE:
            self.damaged.add((kind, key))
            return None
        return content

    def _write(self, kind: str, key: str, record: Mapping[str, Any]) -> None:
        if self.folder is None:
            self._memory[kind, key] = dict(record)
            return
        stored = {DIGEST: content_digest([kind, key, record]), "content": record}
        write_text(require_inside(self.folder / kind / f"{key}.json", self.folder), json.dumps(stored) + "\n")
