"""Words, matrices and files for the tests of vectors."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evenhand import Vectors
from evenhand.errors import EvenhandWarning

COMPRESSIONS = ["", ".gz", ".zst", ".xz", ".bz2"]
# Tokens that a careless reader takes for a missing value, a quote, a comment, a number or a line end.
AWKWARD = [
    "the",
    "nan",
    "null",
    "NA",
    "None",
    '"',
    '""',
    "'",
    "#",
    "1e5",
    "-1",
    "3.14",
    "inf",
    "\u00a0",
    "a\u00a0b",
    "\u2028",
    "x\u2029y",
    "\u0085",
    "\x0b",
    "\x0c",
    "\x1c",
    "\ufeffthe",
    "c\r",
    "\rc",
    "d\re",
    "\\",
    "\\n",
    ",",
    "\t",
    "naïve",
    "女",
    "женщина",
    "امرأة",
    "स्त्री",
    "👩🏽‍⚕️",
    "e\u0301",
    "é",
    "\u200b",
]

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n\0 \t\r")
PLAIN_WORDS = st.one_of(st.sampled_from(AWKWARD[:12] + AWKWARD[22:]), st.text(CHARACTERS, min_size=1, max_size=6))


@st.composite
def vectors(draw: Any, words: st.SearchStrategy[str] = PLAIN_WORDS, *, most: int = 8) -> Vectors:
    listed = draw(st.lists(words, min_size=1, max_size=most, unique=True))
    dim = draw(st.integers(1, 5))
    return Vectors(listed, draw(arrays(np.float32, (len(listed), dim), elements=FLOATS)))


def same_bits(one: Vectors, other: Vectors) -> bool:
    return one.words == other.words and one.matrix.tobytes() == other.matrix.tobytes()


def quiet_load(path: Path, **options: Any) -> Vectors:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenhandWarning)
        return Vectors.load(path, **options)
