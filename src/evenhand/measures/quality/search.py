"""Answers to analogy questions by exact search over the vocabulary, all questions at once, in blocks.

A score is a sum (3CosAdd) or a ratio (3CosMul) of the cosines of a candidate with the words of the question. Twenty
thousand questions use about a thousand different words, so the cosines of those words with the vocabulary are
computed once, and a question only adds rows of that table. Blocks of candidates keep the table in the cache.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.models.vectors.neighbours import EPSILON

Method = Literal["3cosadd", "3cosmul"]
Table = NDArray[np.float32]
CANDIDATES_AT_ONCE = 2048
SCORES_AT_ONCE = 1 << 20


def answers(unit: Table, asked: Rows, *, method: Method = "3cosadd") -> Rows:
    """The row that best completes each question (a, b, c), given as rows of `unit`; never one of the three.

    Equal scores go to the lower row, so that the answer does not depend on the size of a block.
    """
    used, place = np.unique(asked, return_inverse=True)
    places = place.reshape(asked.shape)
    best = np.full(len(asked), -np.inf, dtype=np.float32)
    found = np.zeros(len(asked), dtype=np.int64)
    for start in range(0, len(unit), CANDIDATES_AT_ONCE):
        candidates = unit[start : start + CANDIDATES_AT_ONCE]
        table = _factors(unit[used] @ candidates.T, method)
        step = max(1, SCORES_AT_ONCE // len(candidates))
        for first in range(0, len(asked), step):
            part = slice(first, first + step)
            scores = _scores(table, places[part], method)
            _exclude(scores, asked[part] - start)
            _keep_better(scores, start, best[part], found[part])
    return found


def _factors(cosines: Table, method: Method) -> Table:
    """What is added, or multiplied, for each word of a question. 3CosMul shifts cosines to [0, 1]."""
    if method == "3cosadd":
        return cosines
    shifted: Table = np.maximum((1 + cosines) / 2, 0)
    return shifted


def _scores(table: Table, places: Rows, method: Method) -> Table:
    """cos(d, b) - cos(d, a) + cos(d, c), or cos(d, b) cos(d, c) / (cos(d, a) + epsilon)."""
    a, b, c = places.T
    scores: Table = table[b]
    if method == "3cosadd":
        scores -= table[a]
        scores += table[c]
    else:
        scores *= table[c]
        scores /= table[a] + np.float32(EPSILON)
    return scores


def _exclude(scores: Table, columns: Rows) -> None:
    """The words of the question are no answers; a column outside this block is left alone."""
    question, which = np.nonzero((columns >= 0) & (columns < scores.shape[1]))
    scores[question, columns[question, which]] = -np.inf


def _keep_better(scores: Table, start: int, best: Table, found: Rows) -> None:
    top = scores.argmax(axis=1)
    value = scores[np.arange(len(scores)), top]
    better = value > best
    best[better], found[better] = value[better], top[better] + start
