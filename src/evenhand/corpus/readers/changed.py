"""A corpus as a change of its documents leaves it: changed while it is read, never stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.source import Shard, TextSource


class StreamChange(Protocol):
    """A function from a stream of documents, each closed by `END`, to another."""

    def stream(self, fragments: Iterable[str], /) -> Iterator[str]:
        """Yield the changed stream."""


class DocumentChange(Protocol):
    """A fitted change of documents, such as counterfactual augmentation."""

    @property
    def digest(self) -> str:
        """Hash of everything that decides what the change does."""

    def versions(self) -> Sequence[Sequence[StreamChange]]:
        """Return the changes that make each document of the changed corpus; an empty sequence is the original."""

    def __matmul__(self, first: Any) -> DocumentChange:
        """Return both changes as one; the other is applied first."""


@dataclass(frozen=True)
class ChangedSource:
    """A corpus in which every version of a change takes the place of the documents.

    Each version is one pass over the original, so that a document of any size needs little memory.
    """

    original: TextSource
    change: DocumentChange

    @property
    def name(self) -> str:
        """The name of the original."""
        return self.original.name

    @property
    def size(self) -> int | None:
        """Stored bytes of the original, once for each version."""
        size = self.original.size
        return None if size is None else size * len(self.change.versions())

    @property
    def skip_bad(self) -> bool:
        """True if bad input is skipped and counted."""
        return self.original.skip_bad

    def shards(self) -> list[Shard]:
        """Return the shards of the original."""
        return self.original.shards()

    def fragments(self, shard: Shard, log: ReadLog) -> Iterator[str]:
        """Yield the text of a shard in each version, each document closed by `END`."""
        for number, steps in enumerate(self.change.versions()):
            # What cannot be read is counted once, not once for each version.
            fragments = self.original.fragments(shard, log if number == 0 else ReadLog(skip_bad=log.skip_bad))
            for step in steps:
                fragments = step.stream(fragments)
            yield from fragments

    def to_dict(self) -> dict[str, object]:
        """Return the options for the record."""
        return {**self.original.to_dict(), "change": self.change.digest, "versions": len(self.change.versions())}
