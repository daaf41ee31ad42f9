"""Windows of texts that are longer than a causal model reads, and the tokens of a row that predict others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.shared_beginnings import TokenTree


class TextWindow(NamedTuple):
    """A stretch of a text and what stands before it; tokens at `places` are scored: `place + start` in the text."""

    text: int
    ids: Rows
    start: int
    places: Rows

    @property
    def read(self) -> Rows:
        """The tokens that the model must read: those before the last one that is scored."""
        return self.ids[: self.places[-1]]


def predictors(tree: TokenTree, windows: Sequence[TextWindow]) -> Rows:
    """Return the places of the tokens of a tree from which tokens are predicted, in their order."""
    return np.unique(np.concatenate([path[windows[number].places - 1] for number, path in tree.paths.items()]))


def windows_of(text: int, ids: Rows, width: int, step: int, asked: Rows, *, before: int) -> list[TextWindow]:
    """Split a text behind some tokens into overlapping windows; each token that is asked for is scored in one."""
    windows, scored = [], max(1, before)
    for low in range(0, len(ids), step):
        part = ids[low : low + width]
        if low + len(part) <= scored:
            break
        places = asked[(asked + before >= scored) & (asked + before < low + len(part))] + before - low
        if len(places):
            windows.append(TextWindow(text, part, low - before, places))
        scored = low + len(part)
    return windows
