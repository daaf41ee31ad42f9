"""How well trained vectors reconstruct the counts they were trained on, and whether contexts are multiples of words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.corpus import Cooccurrence
from evenhand.errors import DegenerateError
from evenhand.interop.sgns import SGNS

PAIRS = 200_000


@dataclass(frozen=True)
class Reconstruction:
    """`slope` and `correlation` of <w, c> on what SGNS should reconstruct; 1 and 1 without error.

    `lambda_` is the best multiple in C = lambda W, which the theory of Ethayarajh et al. supposes, and `proportional`
    the cosine of the two matrices: 1 if the supposition holds, 0 if it is worthless.
    """

    slope: float
    intercept: float
    correlation: float
    pairs: int
    lambda_: float
    proportional: float


def reconstruction(model: SGNS, counts: Cooccurrence, *, pairs: int = PAIRS, seed: int = 0) -> Reconstruction:
    """Compare <w, c> with PMI(w, c) + log p(c) / q(c) - log k over pairs of words that meet, drawn at random.

    q, the distribution of negatives, is p^ns_exponent, normalised: with exponent 1 the middle term is gone and the
    formula is that of Levy & Goldberg 2014.
    """
    rows, columns, wanted = _observed(model, counts, pairs, seed)
    words, contexts = (side.matrix.astype(np.float64) for side in (model.words, model.contexts))
    dots = np.einsum("ij,ij->i", words[rows], contexts[columns])
    slope, intercept = np.polyfit(wanted, dots, 1)
    together, own, other = (float((a * b).sum()) for a, b in ((words, contexts), (words, words), (contexts, contexts)))
    if not (own > 0 and other > 0):
        raise DegenerateError("the vectors are all zero", hint="train them first")
    correlation = np.corrcoef(wanted, dots)[0, 1]
    return Reconstruction(
        float(slope),
        float(intercept),
        float(correlation),
        len(dots),
        together / own,
        together / float(np.sqrt(own * other)),
    )


def _observed(model: SGNS, counts: Cooccurrence, pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of words, of contexts, and the value wanted; words that only one side has are left out."""
    place = np.array([model.words.index.get(word, -1) for word in counts.words], dtype=np.intp)
    table = counts.matrix.tocoo()
    known = np.flatnonzero((place[table.row] >= 0) & (place[table.col] >= 0))
    if not len(known):
        raise DegenerateError("the vectors have no pair of words that meet in the counts", hint="use the same text")
    drawn = np.random.default_rng(seed).permutation(known)[:pairs]
    word, context = table.row[drawn], table.col[drawn]
    total = counts.marginals.sum()
    pmi = np.log(table.data[drawn]) + np.log(total) - np.log(counts.marginals[word]) - np.log(counts.marginals[context])
    often = counts.occurrences.astype(np.float64)
    negatives = often ** float(model.params.get("ns_exponent", 1.0))
    shift = np.log(often[context] / often.sum()) - np.log(negatives[context] / negatives.sum())
    return place[word], place[context], pmi + shift - np.log(float(model.params.get("negative", 1)))
