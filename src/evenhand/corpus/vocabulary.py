"""Words and their numbers, given out in the order in which words are first seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from evenhand.arrays import Rows


class Vocabulary:
    """Word to number through a polars categorical: measured at half the time of a Python dict or less.

    `known` words have the numbers 0, 1, ... The table is private to this object and is freed with it.
    """

    def __init__(self, known: Iterable[str]) -> None:
        import polars as pl

        self._categories: Any = pl.Categories.random()
        self._dtype: Any = pl.Categorical(self._categories)
        # polars forgets the numbers when no Series with them is left, so one is kept.
        self._anchor: Any = pl.Series(list(known), dtype=self._dtype)

    def ids(self, words: Any) -> Rows:
        """The numbers of a Series of words, empty ones dropped; a new word gets the next number."""
        kept = words.filter(words != "")  # drops nulls too: an exploded empty list is one
        return np.asarray(kept.cast(self._dtype).to_physical().to_numpy(), dtype=np.intp)

    @property
    def words(self) -> Any:
        """All words as a Series, in the order of their numbers."""
        return self._categories.to_series()
