"""Marks of tokenised text: tokens that stand for other words, or for none, and are no words to score."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.corpus.tokenise import Tokeniser
from evenhand.errors import UsageError

MARKS = ("<unk>", "<eos>", "N")  # of Penn Treebank and WikiText: a rare word, the end of a line, a number
IN_BRACKETS = r"^<[^<>]+>$"
LETTER_OR_DIGIT = r"[\p{L}\p{M}\p{N}]"


def marks_dropped(given: str | None, tokeniser: Tokeniser) -> bool:
    """Whether marks go unscored: unless said, where the text comes tokenised.

    The tokeniser `words` makes words of everything, and what the tokens of a function mean only its author knows.
    """
    if given not in (None, "drop", "keep"):
        raise UsageError(f"unknown marks {given!r}", hint="use drop or keep")
    return tokeniser.name == "whitespace" if given is None else given == "drop"


def are_marks(words: Any, *, lower: bool) -> NDArray[np.bool_]:
    """Which words of a Series are marks: those in `MARKS`, others like <num>, and what has no letter or digit."""
    named = words.is_in([mark.lower() if lower else mark for mark in MARKS])
    found = named | words.str.contains(IN_BRACKETS) | ~words.str.contains(LETTER_OR_DIGIT)
    return np.asarray(found.to_numpy(), dtype=bool)
