"""Proximity bias: the share of a word's neighbours that are near it because of the concept (Kumar et al. 2020)."""

from __future__ import annotations

import numpy as np

from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.geometry.bias_score import How, concept_direction, describe_direction, direction_lists
from evenhand.measures.geometry.graph import edge_betas, neighbour_graph, proximity
from evenhand.measures.geometry.indirect_bias import SMALLEST
from evenhand.measures.geometry.word_selection import VOCABULARY, Restriction, Words, select_words
from evenhand.measures.measurement import Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import mean_interval
from evenhand.stats.units import mean_units
from evenhand.subspaces import Subspace
from evenhand.words import Concept, as_concept

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
    definition=3,
    plain=9,
)


@measure(INFO)
def proximity_bias(
    call: Call,
    vectors: Vectors,
    words: Words = "bolukbasi2016-professions",
    *,
    theta: float = 0.03,
    k: int = 100,
    pool: Words = VOCABULARY,
    subspace: Subspace | None = None,
    how: How = "pairs",
    smallest: float = SMALLEST,
    min_share: float = MIN_SHARE,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean share of neighbours whose similarity is due to the concept.

    Args:
        vectors: the vectors to measure; neighbours are searched in them.
        words: a list of words, its id or its file.
        theta: a neighbour with a larger indirect bias is illicit.
        k: number of neighbours of each word.
        pool: where neighbours are searched; the whole restricted vocabulary by default.
        subspace: the direction of indirect bias; learned on the reference by default.
        how: how the direction is learned, as in `direct_bias`.
        smallest: an edge with a similarity below this has no beta and is not illicit; the details count them.
        min_share: smallest share of the words, and of the concept's pairs, that the vocabulary must have.
        concept: the concept whose direction is used, as in `direct_bias`; any number of groups.
        restriction: how the vocabulary is restricted.
        reference: vectors before mitigation, which decide what is illicit; these vectors by default.
        seed: recorded only; nothing is drawn at random.

    Returns:
        The mean eta, with that of each word in `items`.

    What it does not tell you: which neighbours a reader would call unjust. See `evenhand show proximity-bias`.
    """
    concept, original = as_concept(concept), reference or vectors
    selection, candidates = (
        select_words(vectors, each, concept=concept, restriction=restriction, reference=reference)
        for each in (words, pool)
    )
    took_effect = {"direction": "given" if subspace else "original", "pool": candidates.name, **candidates.restriction}
    call.describe(selection.name, coverage=selection.coverage, params=took_effect)
    lists = (*selection.lists(), *(() if subspace else direction_lists(original, concept, how=how)))
    call.require(lists, min_share)
    axis = subspace or concept_direction(original, concept, how=how)
    graph = neighbour_graph(vectors, selection, candidates, k=k)
    betas = edge_betas(graph, original, selection, candidates, axis, smallest=smallest)
    eta = proximity(betas > theta)
    return call.measurement(
        float(eta.mean()),
        len(eta),
        interval=mean_interval(eta, limits=(0.0, 1.0)),
        reading=f"{100 * eta.mean():.1f} % of the neighbours owe over {theta:g} of their similarity to {concept.name}",
        items=word_items(selection.words, eta),
        units=(mean_units("word", selection.words, eta),),
        details={
            "k": graph.k,
            "undefined_edges": int(np.isnan(betas).sum()),
            "pool": dict(candidates.sizes),
            **describe_direction(axis),
        },
    )
