"""Words as rows of character ids, as ELMo reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import UsageError

SENTENCE_START, SENTENCE_END = "<S>", "</S>"
# Ids 0 to 255 are bytes. All ids are stored plus 1, because 0 is the padding of sentences.
START_OF_SENTENCE, END_OF_SENTENCE, START_OF_WORD, END_OF_WORD, PADDING = range(256, 261)

CharacterIds = NDArray[np.int16]


def character_ids(words: Sequence[str], longest: int = 50) -> CharacterIds:
    """Return a (words, longest) array of ids.

    A word is its UTF-8 bytes between two marks, cut to `longest - 2` bytes; case matters. `<S>` and `</S>` are the
    boundaries of sentences.

    >>> character_ids(["he"], 6).tolist()
    [[259, 105, 102, 260, 261, 261]]
    """
    rows = np.full((len(words), longest), PADDING, dtype=np.int16)
    for row, word in zip(rows, words, strict=True):
        if not word:
            raise UsageError("a word is empty", hint="leave empty words out of the sentences")
        inner = BOUNDARIES.get(word)
        if inner is None:
            inner = list(word.encode("utf-8", "ignore")[: longest - 2])  # a lone surrogate has no bytes
        row[: len(inner) + 2] = [START_OF_WORD, *inner, END_OF_WORD]
    return rows + np.int16(1)


BOUNDARIES = {SENTENCE_START: [START_OF_SENTENCE], SENTENCE_END: [END_OF_SENTENCE]}
