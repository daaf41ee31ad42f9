"""Where a list comes from, and on what terms."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from evenhand.errors import UsageError


@dataclass(frozen=True)
class Source:
    """The publication, data set or person that a list of words comes from."""

    title: str
    authors: str = ""
    year: int = 0
    where: str = ""
    url: str = ""
    licence: str = ""
    note: str = ""
    bibtex: str = ""

    def __post_init__(self) -> None:
        if not self.title.strip():
            raise UsageError("a source needs a title", hint="say which publication or person the words come from")
        if not 0 <= self.year <= 9999:
            raise UsageError(f"source {self.title!r}: the year must have four digits, or be 0 when unknown")

    @property
    def reference(self) -> str:
        """One line for a reader: authors (year), title, where."""
        who = f"{self.authors} ({self.year})" if self.authors and self.year else self.authors or str(self.year or "")
        return ". ".join(part.rstrip(".") for part in (who, self.title, self.where) if part) + "."

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the empty fields."""
        return {name: value for name, value in asdict(self).items() if value}


class Cited:
    """What every record of this package has: a source, its citation, and a digest of its content."""

    source: Source | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        raise NotImplementedError

    @property
    def citation(self) -> str:
        """BibTeX of the source; empty when the words are the caller's own."""
        return self.source.bibtex if self.source else ""

    @property
    def digest(self) -> str:
        """Hash of the content; sources and notes do not count."""
        return digest_of(self.to_dict())


def digest_of(content: object) -> str:
    """Return the hash of plain data, leaving out sources and notes at every level."""
    text = json.dumps(_without_notes(content), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_notes(content: object) -> object:
    if isinstance(content, dict):
        return {key: _without_notes(value) for key, value in content.items() if key not in ("source", "note", "limits")}
    if isinstance(content, list | tuple):
        return [_without_notes(value) for value in content]
    return content


def source_dict(source: Source | None) -> dict[str, Any]:
    """The source as the one entry it adds to a record's plain data."""
    return {"source": source.to_dict()} if source else {}
