"""A corpus as word numbers in a temporary file: read and tokenised once, gone through many times."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.count import Plan, Progress, word_numbers
from evenhand.corpus.counting.text_stream import END
from evenhand.corpus.counting.tokenise import Tokeniser
from evenhand.corpus.counting.vocabulary import Vocabulary
from evenhand.corpus.readers import Account
from evenhand.corpus.readers.source import Source
from evenhand.errors import DegenerateError, UsageError
from evenhand.files import told_as_output

BLOCK = 1 << 20  # words
NUMBER = np.dtype(np.uint32)


@dataclass(frozen=True, eq=False)
class Spool:
    """Words by frequency, how often each occurs, and the text as their numbers; `len(words)` closes a document.

    Words below `min_count` are gone from `words` and from the text; `tokens` still counts them.
    """

    words: tuple[str, ...]
    occurrences: NDArray[np.int64]
    tokens: int
    documents: int
    account: Account
    _file: Path
    _rank: Rows

    @property
    def kept(self) -> int:
        """Words of the text that are left."""
        return int(self.occurrences.sum())

    def blocks(self) -> Iterator[Rows]:
        """The text from the start, a block at a time."""
        with self._file.open("rb") as file:
            while len(raw := np.fromfile(file, dtype=NUMBER, count=BLOCK)):
                ranks = self._rank[raw]
                yield ranks[ranks >= 0]

    def stretches(self, longest: int) -> Iterator[Rows]:
        """Each document, or its parts of at most `longest` words where it is longer."""
        rest = np.empty(0, dtype=np.intp)
        for block in self.blocks():
            numbers = np.concatenate([rest, block])
            *whole, rest = np.split(numbers, np.flatnonzero(numbers == len(self.words)) + 1)
            for one in whole:
                yield from _parts(one[:-1], longest)
            room = len(rest) - len(rest) % longest
            yield from _parts(rest[:room], longest)
            rest = rest[room:]
        yield from _parts(rest, longest)


@contextmanager
def spooled(source: Source, tokeniser: Tokeniser, *, min_count: int = 1, progress: Progress = None) -> Iterator[Spool]:
    """Tokenise a corpus into a temporary file of four bytes a word, which is gone when the block ends."""
    if min_count < 1:
        raise UsageError(f"min_count starts at 1, got {min_count}")
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        path = Path(folder) / "numbers"
        account = Account(source.skip_bad)
        plan = Plan({}, None, None, tokeniser)
        vocabulary = Vocabulary((END,))
        shards = source.shards()
        with told_as_output(path), path.open("wb") as out:
            for number, shard in enumerate(shards):
                if progress:
                    progress(number, len(shards), "reading")
                for ids in word_numbers(source, shard, plan, vocabulary, account):
                    out.write(ids.astype(NUMBER).tobytes())
        yield _counted(path, vocabulary, account, min_count)


def _counted(path: Path, vocabulary: Vocabulary, account: Account, min_count: int) -> Spool:
    words = vocabulary.words
    seen = np.zeros(len(words), dtype=np.int64)
    with path.open("rb") as file:
        while len(raw := np.fromfile(file, dtype=NUMBER, count=BLOCK)):
            seen += np.bincount(raw, minlength=len(seen))
    order = np.argsort(-seen[1:], kind="stable") + 1
    order = order[seen[order] >= min_count]
    if not len(order):
        raise DegenerateError(
            f"no word of the text occurs {min_count} times ({int(seen[1:].sum()):,} words read)",
            hint="lower min_count, or give more text",
        )
    rank = np.full(len(words), -1, dtype=np.intp)
    rank[order] = np.arange(len(order))
    rank[0] = len(order)
    kept = tuple(words.gather(order).to_list())
    return Spool(kept, seen[order], int(seen[1:].sum()), int(seen[0]), account, path, rank)


def _parts(numbers: Rows, longest: int) -> Iterator[Rows]:
    for start in range(0, len(numbers), longest):
        yield numbers[start : start + longest]
