"""A corpus as a change of its documents leaves it: changed while it is read, never stored."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evenhand.corpus.readers.source import Shard, TextSource
from evenhand.corpus.readers.stream import END, ReadLog

HELD = 1 << 20  # characters of a document that are read at a time


class StreamChange(Protocol):
    """A function from a stream of documents, each closed by `END`, to another."""

    @property
    def keeps_original(self) -> bool:
        """Whether the original of a document stays beside its changed form."""

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

    Each version is a pass over the original, so that a document of any size needs little memory. A document that a
    change leaves as it is does not come twice.
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
            yield from self._version(steps, shard, log if number == 0 else ReadLog(skip_bad=log.skip_bad))

    def _version(self, steps: Sequence[StreamChange], shard: Shard, log: ReadLog) -> Iterator[str]:
        if not steps:
            return self.original.fragments(shard, log)
        changed = steps[-1].stream(self._version(steps[:-1], shard, log))
        if not steps[-1].keeps_original:
            return changed
        return _differing(self._version(steps[:-1], shard, ReadLog(skip_bad=log.skip_bad)), changed)

    def to_dict(self) -> dict[str, object]:
        """Return the options for the record."""
        return {**self.original.to_dict(), "change": self.change.digest, "versions": len(self.change.versions())}


def _differing(before: Iterable[str], after: Iterable[str]) -> Iterator[str]:
    """Yield the documents of the second stream that differ from those of the first.

    The beginning of a long document waits in a temporary file until it differs.
    """
    left, right = _Documents(before), _Documents(after)
    while right.begin() and left.begin():
        if left.ended and right.ended:
            if left.text != right.text:
                yield right.text + END
            continue
        with tempfile.SpooledTemporaryFile(HELD, "w+", encoding="utf-8", errors="surrogatepass", newline="") as held:
            while (same := _same_so_far(left, right)) and not (left.ended and right.ended):
                held.write(_read_both(left, right))
            if same:
                continue
            held.seek(0)
            while text := held.read(HELD):
                yield text
        yield right.text
        while right.more():
            yield right.text
        yield END


def _same_so_far(left: _Documents, right: _Documents) -> bool:
    size = min(len(left.text), len(right.text))
    longer = (left.ended and len(right.text) > size) or (right.ended and len(left.text) > size)
    return not longer and left.text[:size] == right.text[:size]


def _read_both(left: _Documents, right: _Documents) -> str:
    """Drop what both documents begin with, return it, and read on where nothing is left."""
    text = left.text[: min(len(left.text), len(right.text))]
    for side in (left, right):
        side.text = side.text[len(text) :]
        if not side.text and not side.ended:
            side.more()
    return text


class _Documents:
    """The documents of a stream one by one: `text` is what is in memory, `ended` whether that reaches the end."""

    def __init__(self, fragments: Iterable[str]) -> None:
        self._fragments = iter(fragments)
        self._parts: deque[str] = deque()  # of a fragment; an end mark follows all but the last
        self.text, self.ended = "", True

    def begin(self) -> bool:
        """Go to the next document; return False at the end of the stream."""
        while self.more():
            pass
        return self._take()

    def more(self) -> bool:
        """Read on inside the document; return False at its end."""
        return not self.ended and self._take()

    def _take(self) -> bool:
        held: list[str] = []
        size = 0
        while size < HELD:
            if not self._parts:
                fragment = next(self._fragments, None)
                if fragment is None:
                    self.text, self.ended = "".join(held), True
                    return bool(self.text)
                self._parts.extend(fragment.split(END))
            part = self._parts.popleft()
            held.append(part)
            size += len(part)
            if self._parts:
                self.text, self.ended = "".join(held), True
                return True
        self.text, self.ended = "".join(held), False
        return True
