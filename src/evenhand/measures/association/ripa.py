"""RIPA: the inner product of a word with the direction that separates pairs of words (Ethayarajh et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, row_norms
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.association.located_query import LocatedSet, locate_set
from evenhand.measures.fields import MIN_SHARE, Item, ListCoverage, MeasurementFields
from evenhand.measures.intervals import mean_interval
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import bootstrap, resamples
from evenhand.subspaces.lookup import SAME_WORD, differences
from evenhand.words import Concept, Pairs, WordSet, as_concept, as_wordset

Relation = Literal["pc", "mean-of-pairs"]
DRAWS, FEWER_DRAWS, MANY_PAIRS = 1_000, 200, 40  # each draw factorises a matrix of pairs x pairs
INFO = Info(
    id="ripa",
    title="Relational Inner Product Association",
    takes="words",
    better="zero",
    formula="beta(w; b) = <w, b>,  b = first (uncentred) principal direction of x - y over the pairs, unit length",
    reading="Mean |beta| over the words. Each word's beta is signed: above 0 is towards the named pole.",
    limits=(
        "It has no significance test by design, and a long vector (a frequent word) has a large value: compare with "
        "the cosine in the items. It sees the one direction of its pairs only."
    ),
    cites=("ethayarajh2019",),
    queries=("bolukbasi2016-professions",),
)


@measure(INFO)
def ripa(
    vectors: Vectors,
    words: WordSet | str | Iterable[str],
    *,
    concept: Concept | str = "gender",
    relation: Relation = "pc",
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean |beta| of words along the direction of a concept's pairs.

    Vectors are not normalised (paper section 5). For a concept with three groups or more the direction is the first
    principal direction of all its pairs; without pairs there is no value.

    Args:
        vectors: the vectors to measure.
        words: a list of words, its id or its file.
        concept: the concept whose pairs give the direction.
        relation: "pc" is the definition for several pairs; "mean-of-pairs" averages <w, x - y> / |x - y| over the
            pairs, as the paper's experiments do.
        min_share: smallest share of the words, and of the pairs, that the vocabulary must have.
        reference: vectors before mitigation.
        seed: seed of both bootstraps.

    Returns:
        The mean |beta|, with beta and cosine of each word in `items`. `interval` resamples the words: how the mean
        depends on which words were chosen. `details["interval_over_pairs"]` and the interval of each item resample
        the pairs: how it depends on which pairs define the concept.

    What it does not tell you: whether an association is spurious. The paper gives no test, since that depends on how
    often the words occur together in the corpus.
    """
    if relation not in get_args(Relation):
        raise UsageError(f"unknown relation {relation!r}", hint="use pc or mean-of-pairs")
    wordset, about = as_wordset(words), as_concept(concept)
    located = locate_set(vectors, wordset)
    params = {"relation": relation, "concept": about.name, "case": vectors.case, "min_share": min_share}
    fields = MeasurementFields("ripa", vectors, wordset.name, params, seed, about.positive, reference=reference)
    if not len(about.pairs):
        return fields.undefined(f"concept {about.name!r} has no pairs of words, which RIPA needs", located.coverage)
    complete = sum(all(vectors.find(word) is not None for word in pair) for pair in about.pairs)
    pairs_list = ListCoverage(about.pairs.name, complete, len(about.pairs), "pair")
    if reason := fields.problem([located.as_list(), pairs_list], min_share):
        return fields.undefined(reason, located.coverage)
    try:
        contrasts, used = pair_differences(vectors, about.pairs)
    except (DegenerateError, VocabularyError) as error:
        return fields.undefined(error.message, located.coverage)
    beta = associations(located.rows, contrasts, relation)
    draws = bootstrap_associations(located.rows, contrasts, relation, seed) if len(contrasts) > 2 else None
    over_pairs = None if draws is None else bootstrap.interval(np.abs(draws).mean(axis=1))
    return fields.measurement(
        float(np.abs(beta).mean()),
        len(beta),
        located.coverage,
        interval=mean_interval(np.abs(beta), seed=seed),
        reading=f"on average words are {np.abs(beta).mean():.3f} away from the middle of the {about.name} axis",
        items=_items(located, beta, draws),
        details={
            "signed_mean": float(beta.mean()),
            "pairs": len(contrasts),
            "pairs_lost": [list(pair) for pair in about.pairs if pair not in used],
            "interval_over_pairs": list(over_pairs) if over_pairs else None,
            "pair_draws": 0 if draws is None else len(draws),
            **({"repeated": list(located.repeated)} if located.repeated else {}),
        },
    )


def _items(located: LocatedSet, beta: Vector64, draws: Matrix64 | None) -> tuple[Item, ...]:
    lengths = row_norms(located.rows)
    cosines = np.divide(beta, lengths, out=np.zeros_like(beta), where=lengths > 0)
    items = [
        {"word": word, "value": float(value), "cosine": float(cosine)}
        for word, value, cosine in zip(located.words, beta, cosines, strict=True)
    ]
    if draws is None:
        return tuple(items)
    tails = (1 - bootstrap.LEVEL) / 2
    bounds = np.quantile(draws, [tails, 1 - tails], axis=0).T
    return tuple(
        {**item, "interval": [float(low), float(high)]} for item, (low, high) in zip(items, bounds, strict=True)
    )


def pair_differences(vectors: Vectors, pairs: Pairs) -> tuple[Matrix64, tuple[tuple[str, str], ...]]:
    """Return first minus second of every complete pair, and those pairs, without pairs of two equal vectors."""
    located = differences(vectors, pairs)
    longest = np.array([max(row_norms(vectors.take(pair)[0])) for pair in located.used])
    distinct = row_norms(located.rows) > SAME_WORD * longest
    if not distinct.any():
        raise DegenerateError(f"{pairs.name}: no pair of words differs by more than noise")
    return located.rows[distinct], tuple(pair for pair, keep in zip(located.used, distinct, strict=True) if keep)


def relations(contrasts: Matrix64, relation: Relation, draws: Rows) -> Matrix64:
    """Return for each draw of pairs the weights that make its relation vector from the differences: (draws, pairs).

    The relation vector is the weighted sum of the rows of `contrasts`. For "mean-of-pairs" it is the mean of the unit
    differences, so that its inner product with a word is the mean of the single RIPAs. For "pc" it is the first right
    singular vector of the drawn rows, computed in the small space of pairs: with counts c and G = D D', u the leading
    eigenvector of sqrt(c) G sqrt(c) with eigenvalue s^2, it is D' (sqrt(c) u) / s.
    """
    counts = np.stack([(draws == pair).sum(axis=1) for pair in range(len(contrasts))], axis=1).astype(np.float64)
    if relation == "mean-of-pairs":
        return np.asarray(counts / counts.sum(axis=1, keepdims=True) / row_norms(contrasts))
    gram, roots = contrasts @ contrasts.T, np.sqrt(counts)
    squares, vectors = np.linalg.eigh(roots[:, :, None] * gram * roots[:, None, :])
    weights = roots * vectors[:, :, -1] / np.sqrt(squares[:, -1:])
    # towards the first pole: the sum of the drawn differences has a positive component along it
    agreement = np.einsum("dp,pq,dq->d", counts, gram, weights)
    return np.asarray(weights * np.where(agreement < 0, -1.0, 1.0)[:, None])


def bootstrap_associations(rows: Matrix64, contrasts: Matrix64, relation: Relation, seed: int) -> Matrix64:
    """Return RIPA of each word for each bootstrap draw of pairs: (draws, words)."""
    count = DRAWS if len(contrasts) <= MANY_PAIRS else FEWER_DRAWS
    weights = relations(contrasts, relation, resamples(len(contrasts), count, seed=seed))
    return np.asarray(weights @ (contrasts @ rows.T))


def associations(rows: Matrix64, contrasts: Matrix64, relation: Relation) -> Vector64:
    """Return RIPA of each word."""
    weights = relations(contrasts, relation, np.arange(len(contrasts))[None])
    return np.asarray(rows @ (weights @ contrasts)[0])
