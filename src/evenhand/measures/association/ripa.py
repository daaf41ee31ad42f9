"""RIPA: the inner product of a word with the direction that tells pairs of words apart (Ethayarajh et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from evenhand import subspaces
from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.asking import asked_concept, asked_words
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import bootstrap
from evenhand.words import Concept, WordSet

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
    relation: Literal["pc", "mean-of-pairs"] = "pc",
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean |beta| over the words, with beta and cosine of each, and a bootstrap interval over the words.

    Vectors are not normalised (paper section 5). `relation="mean-of-pairs"` averages <w, x - y> / |x - y| over the
    pairs, as the paper's own experiments do; "pc" is the definition for several pairs.
    """
    asked, about = asked_words(words), asked_concept(concept)
    rows, coverage = vectors.take(asked)
    common = {
        "query": asked.name,
        "model": vectors.name,
        "positive": about.positive,
        "params": {"relation": relation, "concept": about.name},
        "seed": seed,
    }
    if not len(rows):
        return undefined("ripa", f"no word of {asked.name} is in the vocabulary", coverage, **common)
    try:
        directions = _directions(vectors, about, relation)
    except (DegenerateError, VocabularyError) as error:
        return undefined("ripa", error.message, coverage, **common)
    beta = (rows @ directions.T).mean(axis=1)
    lengths = np.linalg.norm(rows, axis=1)
    cosines = np.divide(beta, lengths, out=np.zeros_like(beta), where=lengths > 0)
    return Measurement(
        "ripa",
        float(np.abs(beta).mean()),
        len(beta),
        coverage,
        interval=_interval(np.abs(beta), seed),
        reading=f"words lie {np.abs(beta).mean():.3f} from the middle of the {about.name} axis on average",
        items=tuple(
            {"word": word, "value": float(value), "cosine": float(cosine)}
            for word, value, cosine in zip(coverage.found, beta, cosines, strict=True)
        ),
        details={"signed_mean": float(beta.mean()), "pairs": len(directions) if relation != "pc" else None},
        **common,  # type: ignore[arg-type]
    )


def _directions(vectors: Vectors, about: Concept, relation: str) -> Matrix64:
    """Unit directions, one a row: the principal one, or one for each pair."""
    if relation == "pc":
        return subspaces.pairs(vectors, about.pairs, k=1).basis
    if relation != "mean-of-pairs":
        raise UsageError(f"unknown relation {relation!r}", hint="use pc or mean-of-pairs")
    present = [(x, y) for x, y in about.pairs if vectors.find(x) and vectors.find(y)]
    if not present:
        raise VocabularyError(f"no pair of {about.name} is in {vectors.name}")
    return np.vstack([subspaces.pair(vectors, x, y, normalise=False).basis for x, y in present])


def _interval(values: Vector64, seed: int) -> tuple[float, float] | None:
    if len(values) < 3:
        return None
    return bootstrap.interval(values[bootstrap.resamples(len(values), seed=seed)].mean(axis=1))
