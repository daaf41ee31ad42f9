"""The counts of a part of a corpus, and their sum over the parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.corpus.parts import Parts, merged_parts
from evenhand.corpus.readers.account import Account
from evenhand.corpus.sums import Sums
from evenhand.corpus.vocabulary import Vocabulary


@dataclass(frozen=True)
class Counts:
    """Words with how often they occur and their company: (words,) and (groups, words). Word 0 closes documents.

    `shard_hits` has the number of group words in each part that was counted by itself.
    """

    words: Any
    occurrences: NDArray[np.int64]
    company: NDArray[Any]
    documents: int
    empty_documents: int
    account: Account
    by_part: Parts | None = None
    shard_hits: tuple[int, ...] = ()


def added(parts: Iterable[Counts]) -> Counts | None:
    """All counts together, added in the order in which they come; words keep the order of their first appearance.

    A part costs what it holds itself, however much is there already.
    """
    total: _Total | None = None
    for part in parts:
        total = total or _Total(part)
        total.add(part)
    return total.counts() if total else None


class _Total:
    def __init__(self, first: Counts) -> None:
        self._vocabulary = Vocabulary(())
        self._occurrences = Sums(1, 1, np.int64)
        self._company = Sums(1, len(first.company), first.company.dtype.type)
        self._account = Account(first.account.skip_bad)
        self._by_part: Parts | None = None
        self._documents = self._empty = 0
        self._hits: tuple[int, ...] = ()

    def add(self, part: Counts) -> None:
        place = self._vocabulary.ids(part.words)
        words = int(place.max()) + 1
        for sums in (self._occurrences, self._company):
            sums.make_room(words)
        self._occurrences.values[0, 0, place] += part.occurrences
        self._company.values[0][:, place] += part.company
        self._account.add(part.account)
        self._by_part = merged_parts(self._by_part, part.by_part, place)
        self._documents += part.documents
        self._empty += part.empty_documents
        self._hits += part.shard_hits

    def counts(self) -> Counts:
        words = self._vocabulary.words
        size = len(words)
        return Counts(
            words,
            self._occurrences.values[0, 0, :size],
            self._company.values[0, :, :size],
            self._documents,
            self._empty,
            self._account,
            self._by_part.widened(size) if self._by_part else None,
            self._hits,
        )
