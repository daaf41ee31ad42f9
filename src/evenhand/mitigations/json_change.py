"""`JsonChange`: the base class of changes that are stored as JSON, with a checksum of their content."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from evenhand.errors import FormatError
from evenhand.files import existing, write_text
from evenhand.subjects.subject import AnySubject

C = TypeVar("C", bound="JsonChange")


class JsonChange(ABC):
    """A frozen change that is stored as JSON. Two changes are equal if they have the same content.

    A subclass is a frozen dataclass with a field `report`. Its `load` calls `_read`.
    """

    acts_on: ClassVar[str]
    title: ClassVar[str]
    """What it is, for messages: "a system prompt"."""
    format: ClassVar[int] = 1
    """Number of the format of its files; increased when an older file can no longer be read."""

    report: Mapping[str, object]

    @abstractmethod
    def content(self) -> list[object]:
        """Return everything that decides what the change does, as plain data; the digest is taken of it."""

    @abstractmethod
    def stored(self) -> dict[str, object]:
        """Return what a file keeps of the change, beside the format, the digest and the report."""

    @classmethod
    @abstractmethod
    def load(cls, path: str | os.PathLike[str]) -> JsonChange:
        """Read what `save` wrote; raise `FormatError` if the file is damaged or something else."""

    def __call__(self, subject: AnySubject, /) -> AnySubject:
        """Return the changed subject."""
        return subject.changed(self)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, the same in every process; the report is not included."""
        return hashlib.sha256(json.dumps(self.content(), sort_keys=True).encode()).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the change and its report as JSON; the file is complete or absent."""
        about = {"format": self.format, "sha256": self.digest, **self.stored(), "report": dict(self.report)}
        write_text(Path(path), json.dumps(about, ensure_ascii=False, indent=1) + "\n")
        return Path(path)

    @classmethod
    def _read(cls, path: str | os.PathLike[str], build: Callable[[Mapping[str, Any]], C]) -> C:
        """Return the change that a function builds from a file of `save`.

        Raises:
            FormatError: If the file is something else, of another format, or damaged.
        """
        try:
            about = json.loads(existing(Path(path)).read_text(encoding="utf-8"))
            if about["format"] != cls.format:
                raise FormatError(
                    f"{path}: {cls.title} of format {about['format']!r}; this version reads {cls.format}",
                    hint="its rules were others: fit and save it again",
                )
            change = build(about)
            matches = change.digest == about["sha256"]
        except FormatError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise FormatError(f"{path}: not {cls.title} ({error!r})", hint="write it with `save`") from error
        if not matches:
            raise FormatError(f"{path}: the content does not match its checksum", hint="fit and save it again")
        return change

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, JsonChange) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)
