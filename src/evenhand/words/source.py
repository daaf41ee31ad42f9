"""The source of a word list: publication and licence."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from evenhand.errors import UsageError


@dataclass(frozen=True)
class Source:
    """The publication, data set or person that a word list comes from."""

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
            raise UsageError("a source needs a title", hint="name the publication or person")
        if not 0 <= self.year <= 9999:
            raise UsageError(f"source {self.title!r}: the year must have at most four digits, or be 0 if unknown")

    @property
    def reference(self) -> str:
        """The reference as one line: authors (year), title, where."""
        who = f"{self.authors} ({self.year})" if self.authors and self.year else self.authors or str(self.year or "")
        return ". ".join(part.rstrip(".") for part in (who, self.title, self.where) if part) + "."

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value}


class Cited:
    """Mixin for records with a source, a citation and a digest of their content."""

    source: Source | None

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        raise NotImplementedError

    @property
    def citation(self) -> str:
        """BibTeX entry of the source; empty if there is none."""
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


def source_dict(source: Source | None) -> dict[str, object]:
    """Return the source as an entry of a record's plain data."""
    return {"source": source.to_dict()} if source else {}
