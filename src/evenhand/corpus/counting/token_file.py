"""A corpus as token ids in a temporary file: tokenised once, read many times."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.count import CountingPlan, token_ids
from evenhand.corpus.counting.text_stream import END
from evenhand.corpus.counting.tokenise import Tokeniser
from evenhand.corpus.counting.vocabulary import Vocabulary
from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.source import TextSource
from evenhand.errors import DegenerateError, UsageError
from evenhand.files import output_errors
from evenhand.progress import Progress

BLOCK = 1 << 20  # tokens
TOKEN_ID = np.dtype(np.uint32)


@dataclass(frozen=True, eq=False)
class TokenFile:
    """Words by frequency, their occurrences, and the text as their ids; the id `len(words)` closes a document.

    Words below `min_count` are removed from `words` and from the text; `tokens` still counts them.
    """

    words: tuple[str, ...]
    occurrences: NDArray[np.int64]
    tokens: int
    documents: int
    read_log: ReadLog
    _file: Path
    _rank: Rows

    @property
    def frequent_tokens(self) -> int:
        """Number of tokens of the text that are not removed."""
        return int(self.occurrences.sum())

    def blocks(self) -> Iterator[Rows]:
        """Yield the text from the start, a block at a time."""
        with self._file.open("rb") as file:
            while len(raw := np.fromfile(file, dtype=TOKEN_ID, count=BLOCK)):
                ranks = self._rank[raw]
                yield ranks[ranks >= 0]

    def stretches(self, longest: int) -> Iterator[Rows]:
        """Yield each document, in parts of at most `longest` words if it is longer."""
        rest = np.empty(0, dtype=np.intp)
        for block in self.blocks():
            ids = np.concatenate([rest, block])
            *documents, rest = np.split(ids, np.flatnonzero(ids == len(self.words)) + 1)
            for document in documents:
                yield from _parts(document[:-1], longest)
            room = len(rest) - len(rest) % longest
            yield from _parts(rest[:room], longest)
            rest = rest[room:]
        yield from _parts(rest, longest)


@contextmanager
def tokenise_to_file(
    source: TextSource, tokeniser: Tokeniser, *, min_count: int = 1, progress: Progress | None = None
) -> Iterator[TokenFile]:
    """Tokenise a corpus into a temporary file of four bytes per word, which is deleted at the end of the block."""
    if min_count < 1:
        raise UsageError(f"min_count must be at least 1, got {min_count}")
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        path = Path(folder) / "token-ids"
        read_log = ReadLog(source.skip_bad)
        plan = CountingPlan({}, None, None, tokeniser)
        vocabulary = Vocabulary((END,))
        shards = source.shards()
        with output_errors(path), path.open("wb") as out:
            for number, shard in enumerate(shards):
                if progress:
                    progress(number, len(shards), "reading")
                for ids in token_ids(source, shard, plan, vocabulary, read_log):
                    out.write(ids.astype(TOKEN_ID).tobytes())
        yield _rank_words(path, vocabulary, read_log, min_count)


def _rank_words(path: Path, vocabulary: Vocabulary, read_log: ReadLog, min_count: int) -> TokenFile:
    words = vocabulary.words
    seen = np.zeros(len(words), dtype=np.int64)
    with path.open("rb") as file:
        while len(raw := np.fromfile(file, dtype=TOKEN_ID, count=BLOCK)):
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
    frequent = tuple(words.gather(order).to_list())
    return TokenFile(frequent, seen[order], int(seen[1:].sum()), int(seen[0]), read_log, path, rank)


def _parts(ids: Rows, longest: int) -> Iterator[Rows]:
    for start in range(0, len(ids), longest):
        yield ids[start : start + longest]
