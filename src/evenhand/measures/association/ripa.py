"""RIPA: the inner product of a word with the direction that separates pairs of words (Ethayarajh et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import numpy as np

from evenhand.arrays import Matrix64, Vector64, row_norms
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.association.located_query import LocatedSet, locate_set
from evenhand.measures.association.pair_intervals import PairIntervals, Relation, pair_intervals, relation_weights
from evenhand.measures.fields import MIN_SHARE, Item, ListCoverage, MeasurementFields
from evenhand.measures.intervals import mean_interval
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.subspaces.lookup import SAME_WORD, differences
from evenhand.words import Concept, Pairs, WordSet, as_concept, as_wordset

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
    definition=2,
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
        seed: seed of the bootstrap over words and of the halvings of pairs.

    Returns:
        The mean |beta|, with beta and cosine of each word in `items`. `interval` resamples the words: how the mean
        depends on which words were chosen. How it depends on which pairs define the concept is estimated for a
        population of pairs (see `pair_intervals`): `details["population_mean"]` with `interval_over_pairs`, which is
        approximate, and `population` with `interval` of each item. These estimates are corrected for the error of the
        direction, so that they differ from the values of the given pairs; they need five pairs that agree.

    What it does not tell you: whether an association is spurious. The paper gives no test, since that depends on how
    often the words occur together in the corpus.
    """
    if relation not in get_args(Relation):
        raise UsageError(f"unknown relation {relation!r}", hint="use pc or mean-of-pairs")
    wordset, concept = as_wordset(words), as_concept(concept)
    located = locate_set(vectors, wordset)
    params = {"relation": relation, "concept": concept.name, "case": vectors.case, "min_share": min_share}
    fields = MeasurementFields("ripa", vectors, wordset.name, params, seed, concept.positive, reference=reference)
    if not len(concept.pairs):
        return fields.undefined(f"concept {concept.name!r} has no pairs of words, which RIPA needs", located.coverage)
    lists = (located.as_list(), ListCoverage.of_pairs(vectors, concept.pairs))
    if reason := fields.problem(lists, min_share):
        return fields.undefined(reason, located.coverage)
    try:
        contrasts, used = pair_differences(vectors, concept.pairs)
    except (DegenerateError, VocabularyError) as error:
        return fields.undefined(error.message, located.coverage)
    beta = associations(located.rows, contrasts, relation)
    population = pair_intervals(located.rows, contrasts, relation, seed=seed)
    return fields.measurement(
        float(np.abs(beta).mean()),
        len(beta),
        located.coverage,
        interval=mean_interval(np.abs(beta), seed=seed),
        reading=f"on average words are {np.abs(beta).mean():.3f} away from the middle of the {concept.name} axis",
        items=_items(located, beta, population),
        details={
            "signed_mean": float(beta.mean()),
            "pairs": len(contrasts),
            "pairs_lost": [list(pair) for pair in concept.pairs if pair not in used],
            "population_mean": population.mean if population else None,
            "interval_over_pairs": list(population.interval) if population and population.interval else None,
            "pair_agreement": population.agreement if population else None,
            **({"repeated": list(located.repeated)} if located.repeated else {}),
        },
    )


def _items(located: LocatedSet, beta: Vector64, population: PairIntervals | None) -> tuple[Item, ...]:
    lengths = row_norms(located.rows)
    cosines = np.divide(beta, lengths, out=np.zeros_like(beta), where=lengths > 0)
    items = [
        {"word": word, "value": float(value), "cosine": float(cosine)}
        for word, value, cosine in zip(located.words, beta, cosines, strict=True)
    ]
    if population is None:
        return tuple(items)
    return tuple(
        {**item, "population": float(corrected), "interval": [float(low), float(high)]}
        for item, corrected, (low, high) in zip(items, population.beta, population.bounds.T, strict=True)
    )


def pair_differences(vectors: Vectors, pairs: Pairs) -> tuple[Matrix64, tuple[tuple[str, str], ...]]:
    """Return first minus second of every complete pair, and those pairs, without pairs of two equal vectors."""
    located = differences(vectors, pairs)
    longest = np.array([max(row_norms(vectors.take(pair)[0])) for pair in located.used])
    distinct = row_norms(located.rows) > SAME_WORD * longest
    if not distinct.any():
        raise DegenerateError(f"{pairs.name}: no pair of words differs by more than noise")
    return located.rows[distinct], tuple(pair for pair, keep in zip(located.used, distinct, strict=True) if keep)


def associations(rows: Matrix64, contrasts: Matrix64, relation: Relation) -> Vector64:
    """Return RIPA of each word."""
    weights = relation_weights(contrasts @ contrasts.T, np.ones((1, len(contrasts))), relation)
    return np.asarray(rows @ (weights @ contrasts)[0])
