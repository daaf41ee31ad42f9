"""The words a measurement shows: all of a list, the strongest of a vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenhand.arrays import Vector64

MOST = 400  # every list we ship stays whole; a vocabulary of tens of thousands would only fill the record


def word_items(words: Sequence[str], values: Vector64, **columns: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
    """One item a word in the order given; of more than `MOST` words, those whose value is largest in size."""
    chosen = np.arange(len(words))
    if len(words) > MOST:
        chosen = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST])
    return tuple(
        {"word": words[row], "value": float(values[row])} | {name: column[row] for name, column in columns.items()}
        for row in chosen.tolist()
    )
