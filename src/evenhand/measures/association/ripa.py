"""RIPA: the inner product of a word with the direction that tells pairs of words apart (Ethayarajh et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64, row_norms
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.asking import asked_concept, asked_words
from evenhand.measures.association.gathering import Group, gather, problem
from evenhand.measures.association.relation import Relation, associations, drawn_associations, pair_differences
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import bootstrap, percentile_interval
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
    asked, about = asked_words(words), asked_concept(concept)
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
