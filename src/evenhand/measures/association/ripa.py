"""RIPA: the inner product of a word with the direction that tells pairs of words apart (Ethayarajh et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, row_norms
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.association.located_query import Group, gather, problem
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import bootstrap, percentile_interval, resamples
from evenhand.subspaces.lookup import SAME_WORD, differences
from evenhand.words import Concept, Pairs, WordSet, as_concept, as_wordset

INFO = Info(
    id="ripa",
    title="Relational Inner Product Association",
    takes="words",
    better="zero",
    formula="beta(w; b) = <w, b>,  b = first (uncentred) principal direction of x - y over the pairs, unit length",
    reading="Mean |beta| over the words. Each word's beta is signed: above 0 leans to the named pole.",
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
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean |beta| over the words, with beta and cosine of each, and two bootstrap intervals.

    Vectors are not normalised (paper section 5). `relation="mean-of-pairs"` averages <w, x - y> / |x - y| over the
    pairs, as the paper's own experiments do; "pc" is the definition for several pairs. `interval` resamples the words:
    how the mean depends on which words were asked. `details["interval_over_pairs"]` and the interval of each item
    resample the pairs: how it depends on which pairs say what the concept is.

    What it does not tell you: whether an association is spurious. The paper gives no test, since that depends on how
    often the words occur together in the corpus.
    """
    if relation not in ("pc", "mean-of-pairs"):
        raise UsageError(f"unknown relation {relation!r}", hint="use pc or mean-of-pairs")
    asked, about = as_wordset(words), as_concept(concept)
    found = gather(vectors, asked)
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "positive": about.positive,
        "params": {"relation": relation, "concept": about.name, "case": vectors.case},
        "seed": seed,
    }
    if reason := problem([found]):
        return undefined("ripa", reason, found.coverage, **common)
    try:
        apart, used = pair_differences(vectors, about.pairs)
    except (DegenerateError, VocabularyError) as error:
        return undefined("ripa", error.message, found.coverage, **common)
    beta = associations(found.rows, apart, relation)
    drawn = drawn_associations(found.rows, apart, relation, seed) if len(apart) > 2 else None
    return Measurement(
        "ripa",
        float(np.abs(beta).mean()),
        len(beta),
        found.coverage,
        interval=_over_words(np.abs(beta), seed),
        reading=f"words lie {np.abs(beta).mean():.3f} from the middle of the {about.name} axis on average",
        items=_items(found, beta, drawn),
        details={
            "signed_mean": float(beta.mean()),
            "pairs": len(apart),
            "pairs_lost": [list(pair) for pair in about.pairs if pair not in used],
            "interval_over_pairs": _plain(bootstrap.interval(np.abs(drawn).mean(axis=1)))
            if drawn is not None
            else None,
            "pair_draws": len(drawn) if drawn is not None else 0,
            **({"repeated": list(found.repeated)} if found.repeated else {}),
        },
        **common,
    )


def _items(found: Group, beta: Vector64, drawn: Matrix64 | None) -> tuple[dict[str, Any], ...]:
    lengths = row_norms(found.rows)
    cosines = np.divide(beta, lengths, out=np.zeros_like(beta), where=lengths > 0)
    items = [
        {"word": word, "value": float(value), "cosine": float(cosine)}
        for word, value, cosine in zip(found.words, beta, cosines, strict=True)
    ]
    if drawn is None:
        return tuple(items)
    tails = (1 - bootstrap.LEVEL) / 2
    bounds = np.quantile(drawn, [tails, 1 - tails], axis=0).T
    return tuple(
        {**item, "interval": [float(low), float(high)]} for item, (low, high) in zip(items, bounds, strict=True)
    )


def _over_words(sizes: Vector64, seed: int) -> bootstrap.Interval:
    if len(sizes) < 3:
        return None
    return percentile_interval(lambda rows: sizes[rows].mean(axis=1), len(sizes), seed=seed)


def _plain(interval: bootstrap.Interval) -> list[float] | None:
    return list(interval) if interval else None


Relation = Literal["pc", "mean-of-pairs"]
DRAWS, FEWER_DRAWS, MANY_PAIRS = 1_000, 200, 40  # each draw factorises a matrix of pairs x pairs


def pair_differences(vectors: Vectors, pairs: Pairs) -> tuple[Matrix64, tuple[tuple[str, str], ...]]:
    """First minus second for every complete pair, and those pairs; one whose words are alike has no direction."""
    found = differences(vectors, pairs)
    longest = np.array([max(row_norms(vectors.take(pair)[0])) for pair in found.used])
    apart = row_norms(found.rows) > SAME_WORD * longest
    if not apart.any():
        raise DegenerateError(f"{pairs.name}: no pair of words differs by more than noise")
    return found.rows[apart], tuple(pair for pair, kept in zip(found.used, apart, strict=True) if kept)


def relations(apart: Matrix64, relation: Relation, drawn: Rows) -> Matrix64:
    """For each drawing of pairs, weights that make its relation vector out of the differences: (drawings, pairs).

    The relation vector is the weighted sum of the rows of `apart`. For "mean-of-pairs" it is the mean of the unit
    differences, so that its inner product with a word is the mean of the single RIPAs. For "pc" it is the first right
    singular vector of the drawn rows, found in the small space of pairs: with counts c and G = D D', u the leading
    eigenvector of sqrt(c) G sqrt(c) with eigenvalue s^2, it is D' (sqrt(c) u) / s.
    """
    counts = np.stack([(drawn == pair).sum(axis=1) for pair in range(len(apart))], axis=1).astype(np.float64)
    if relation == "mean-of-pairs":
        return np.asarray(counts / counts.sum(axis=1, keepdims=True) / row_norms(apart))
    gram, roots = apart @ apart.T, np.sqrt(counts)
    squares, vectors = np.linalg.eigh(roots[:, :, None] * gram * roots[:, None, :])
    weights = roots * vectors[:, :, -1] / np.sqrt(squares[:, -1:])
    # towards the first pole: the sum of the drawn differences has a positive part along it
    agreement = np.einsum("dp,pq,dq->d", counts, gram, weights)
    return np.asarray(weights * np.where(agreement < 0, -1.0, 1.0)[:, None])


def drawn_associations(rows: Matrix64, apart: Matrix64, relation: Relation, seed: int) -> Matrix64:
    """RIPA of each word for each bootstrap draw of pairs: (draws, words)."""
    draws = DRAWS if len(apart) <= MANY_PAIRS else FEWER_DRAWS
    weights = relations(apart, relation, resamples(len(apart), draws, seed=seed))
    return np.asarray(weights @ (apart @ rows.T))


def associations(rows: Matrix64, apart: Matrix64, relation: Relation) -> Vector64:
    """RIPA of each word."""
    weights = relations(apart, relation, np.arange(len(apart))[None])
    return np.asarray(rows @ (weights @ apart)[0])
