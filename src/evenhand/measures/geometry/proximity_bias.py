"""Proximity bias: the share of a word's neighbours that are near it because of the concept (Kumar et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from evenhand.errors import DegenerateError, VocabularyError
from evenhand.measures.geometry.bias_score import How, axis, described
from evenhand.measures.geometry.graph import betas, graph, proximity
from evenhand.measures.geometry.indirect_bias import SMALLEST
from evenhand.measures.geometry.intervals import mean_interval
from evenhand.measures.geometry.word_selection import VOCABULARY, Restriction
from evenhand.measures.geometry.word_selection import pool as words_of
from evenhand.measures.measurement import Measurement, undefined, word_items
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept, WordSet, as_concept

INFO = Info(
    id="proximity-bias",
    title="Proximity bias",
    takes="words",
    better="lower",
    formula="eta(w) = |{n in N_k(w): beta(w, n) > theta}| / k,  N_k in the measured space, beta in the reference",
    reading="0: no neighbour owes more than theta of its similarity to the concept. 1: every one does.",
    limits=(
        "Whether a neighbour is illicit is decided in the vectors before mitigation along one direction; neighbours "
        "that share a stereotype without sharing that direction are not seen."
    ),
    cites=("kumar2020", "bolukbasi2016"),
    queries=("bolukbasi2016-professions",),
    family="geometry",
    needs_reference=True,
)


@measure(INFO)
def proximity_bias(
    vectors: Vectors,
    words: WordSet | str | Iterable[str] = "bolukbasi2016-professions",
    *,
    theta: float = 0.03,
    k: int = 100,
    pool: WordSet | str | Iterable[str] = VOCABULARY,
    subspace: Subspace | None = None,
    how: How = "pairs",
    smallest: float = SMALLEST,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean eta over the words, with eta of each and a bootstrap interval over the words.

    Neighbours are the k nearest words of the `pool` (the whole restricted vocabulary by default) in these vectors, the
    word itself left out; beta and its direction are those of the `reference`. An edge without a beta (similarity below
    `smallest`) is not illicit, and counted in the details.

    What it does not tell you: which neighbours a reader would call unjust. See `evenhand show proximity-bias`.
    """
    about, rules, before = as_concept(concept), restriction or Restriction(), reference or vectors
    asked, near = (
        words_of(vectors, each, concept=about, restriction=rules, reference=reference) for each in (words, pool)
    )
    given: dict[str, Any] = {"direction": "given"} if subspace else {"direction": "original", "how": how}
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "params": {"theta": theta, "k": k, "pool": near.name, "smallest": smallest, "concept": about.name}
        | given
        | near.rules,
        "seed": seed,
    }
    try:
        along = subspace or axis(before, about, how=how)
        edges = graph(vectors, asked, near, k=k)
        values = betas(edges, before, asked, near, along, smallest=smallest)
    except (DegenerateError, VocabularyError) as error:
        return undefined("proximity-bias", error.message, asked.coverage, **common)
    eta = proximity(values > theta)
    return Measurement(
        "proximity-bias",
        float(eta.mean()),
        len(eta),
        asked.coverage,
        interval=mean_interval(eta, seed=seed),
        reading=f"{100 * eta.mean():.1f} % of the neighbours owe over {theta:g} of their similarity to {about.name}",
        items=word_items(asked.words, eta),
        details={"k": edges.k, "undefined_edges": int(np.isnan(values).sum()), "pool": dict(near.sizes)}
        | described(along),
        **common,
    )
