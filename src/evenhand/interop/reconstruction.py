"""Measure how well SGNS vectors reconstruct their counts, and whether contexts are multiples of words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.corpus import Cooccurrence
from evenhand.errors import DegenerateError
from evenhand.interop.sgns import SGNS

PAIRS = 200_000


@dataclass(frozen=True)
class Reconstruction:
    """`slope` and `correlation` of <w, c> on the values that SGNS should reconstruct; both 1 without error.

    `lambda_` is the best factor in C = lambda W, which the theory of Ethayarajh et al. assumes, and `proportional` the
    cosine of the two matrices: 1 if the assumption holds exactly.
    """

    slope: float
    intercept: float
    correlation: float
    pairs: int
    lambda_: float
    proportional: float


def reconstruction(model: SGNS, counts: Cooccurrence, *, pairs: int = PAIRS, seed: int = 0) -> Reconstruction:
    """Compare <w, c> with PMI(w, c) + log p(c) / q(c) - log k over a random sample of co-occurring pairs.

    q, the distribution of negatives, is p^ns_exponent, normalised: with exponent 1 the middle term vanishes and the
    formula is that of Levy & Goldberg 2014.
    """
    rows, columns, expected = _expected_products(model, counts, pairs, seed)
    words, contexts = (side.matrix.astype(np.float64) for side in (model.words, model.contexts))
    dots = np.einsum("ij,ij->i", words[rows], contexts[columns])
    slope, intercept = np.polyfit(expected, dots, 1)
    product, own, other = (float((a * b).sum()) for a, b in ((words, contexts), (words, words), (contexts, contexts)))
    if not (own > 0 and other > 0):
        raise DegenerateError("the vectors are all zero", hint="train them first")
    correlation = np.corrcoef(expected, dots)[0, 1]
    return Reconstruction(
        float(slope),
        float(intercept),
        float(correlation),
        len(dots),
        product / own,
        product / float(np.sqrt(own * other)),
    )


def _expected_products(model: SGNS, counts: Cooccurrence, pairs: int, seed: int) -> tuple[Rows, Rows, Vector64]:
    """Return rows of words, rows of contexts and expected products, for words that both sides have."""
    rows = np.array([model.words.index.get(word, -1) for word in counts.words], dtype=np.intp)
    table = counts.matrix.tocoo()
    usable = np.flatnonzero((rows[table.row] >= 0) & (rows[table.col] >= 0))
    if not len(usable):
        raise DegenerateError("no pair of words of the vectors co-occurs in the counts", hint="use the same text")
    drawn = np.random.default_rng(seed).permutation(usable)[:pairs]
    word, context = table.row[drawn], table.col[drawn]
    total = counts.marginals.sum()
    pmi = np.log(table.data[drawn]) + np.log(total) - np.log(counts.marginals[word]) - np.log(counts.marginals[context])
    occurrences = counts.occurrences.astype(np.float64)
    negatives = occurrences ** float(model.params.get("ns_exponent", 1.0))
    shift = np.log(occurrences[context] / occurrences.sum()) - np.log(negatives[context] / negatives.sum())
    return rows[word], rows[context], pmi + shift - np.log(float(model.params.get("negative", 1)))
