"""Proximity bias and GIPE: how much of a word's neighbourhood is due to a concept (Kumar et al. 2020).

Both count the edges of a graph of nearest neighbours whose similarity is illicit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.geometry.biased_words import (
    VOCABULARY,
    DirectionFrom,
    Restriction,
    WordSelection,
    WordSource,
    describe_direction,
    given_or_learned,
    select_words,
)
from evenhand.measures.geometry.direct_bias import SMALLEST, beta
from evenhand.measures.measurement import Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.neighbours import neighbours_among, unit_float32
from evenhand.stats import jackknife_interval, mean_interval
from evenhand.stats.units import mean_units, ratio_units
from evenhand.subspaces import Subspace
from evenhand.words import Concept, as_concept

CELLS_AT_ONCE = 8 << 20  # coordinates of neighbours held at once: 64 MB of double precision


@dataclass(frozen=True, eq=False)
class NeighbourGraph:
    """The neighbours of each source word, nearest first: (sources, k) indices into the pool."""

    neighbours: Rows
    own: Rows
    """The index of each source word in the pool, -1 where it is not one of its words."""

    @property
    def k(self) -> int:
        """Neighbours of each word: as many as requested, or all there are."""
        return int(self.neighbours.shape[1])


def neighbour_graph(vectors: Vectors, sources: WordSelection, pool: WordSelection, *, k: int) -> NeighbourGraph:
    """Return the exact k nearest words of the pool by cosine for every source word, without the word itself."""
    if k < 1:
        raise UsageError(f"k must be at least 1, got k={k}")
    if not len(sources) or len(pool) < 2:
        raise DegenerateError(f"{len(sources)} words of {sources.name} among {len(pool)} of {pool.name}: no neighbours")
    index = np.full(len(vectors), -1, dtype=np.int64)
    index[pool.rows] = np.arange(len(pool))
    neighbours = neighbours_among(vectors, sources.rows, pool.rows, min(k, len(pool) - 1))
    return NeighbourGraph(neighbours, index[sources.rows])


def edge_betas(
    graph: NeighbourGraph,
    reference: Vectors,
    sources: WordSelection,
    pool: WordSelection,
    axis: Subspace,
    *,
    smallest: float,
) -> Matrix64:
    """Return (sources, k): indirect bias of each edge in the vectors before mitigation; NaN where it is undefined."""
    unit = unit_float32(reference, pool.reference_rows)
    starts = unit_rows(reference.matrix[sources.reference_rows])
    source_coordinates, pool_coordinates = axis.coordinates(starts), axis.coordinates(unit)
    values = np.empty(graph.neighbours.shape)
    step = max(1, CELLS_AT_ONCE // (graph.k * reference.dim))
    for start in range(0, len(values), step):
        block = slice(start, start + step)
        ends = graph.neighbours[block]
        similarities = np.einsum("id,ikd->ik", starts[block], unit[ends], dtype=np.float64)
        values[block] = beta(similarities, source_coordinates[block, None], pool_coordinates[ends], smallest=smallest)
    return values


def proximity(illicit: NDArray[np.bool_]) -> Vector64:
    """Return eta: the share of each word's neighbours whose similarity is due to the concept."""
    return np.asarray(illicit.mean(axis=1), dtype=np.float64)


PROXIMITY_BIAS_INFO = Info(
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


@measure(PROXIMITY_BIAS_INFO)
def proximity_bias(
    call: Call,
    vectors: Vectors,
    words: WordSource = "bolukbasi2016-professions",
    *,
    theta: float = 0.03,
    k: int = 100,
    pool: WordSource = VOCABULARY,
    subspace: Subspace | None = None,
    how: DirectionFrom = "pairs",
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
    axis = given_or_learned(call, subspace, original, concept, how=how, lists=selection.lists(), min_share=min_share)
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


GIPE_INFO = Info(
    id="gipe",
    title="Gender-based illicit proximity estimate",
    takes="words",
    better="lower",
    formula=(
        "GIPE = sum_i gamma_i eta_i / sum_i gamma_i,  eta: proximity bias,  gamma_i = 1 + (edges into i with "
        "beta > theta) / (edges into i)"
    ),
    reading="0: no neighbour owes more than theta of its similarity to the concept. 1: every one does.",
    limits=(
        "The pool of possible neighbours and the choice of words change it by half, so that only values with equal "
        "parameters compare. Illicit is decided in the vectors before mitigation along one direction."
    ),
    cites=("kumar2020", "dawkins2021"),
    queries=(VOCABULARY,),
    family="geometry",
    needs_reference=True,
    definition=3,
    in_tradeoff=True,
    plain=8,
)
SAMPLE = 5_000  # words whose neighbours are searched in a default run: a few seconds on a laptop


@measure(GIPE_INFO)
def gipe(
    call: Call,
    vectors: Vectors,
    words: WordSource = VOCABULARY,
    *,
    theta: float = 0.03,
    k: int = 100,
    sample: int | None = SAMPLE,
    pool: WordSource = VOCABULARY,
    unvisited: Literal[0, 1] = 1,
    subspace: Subspace | None = None,
    how: DirectionFrom = "pairs",
    smallest: float = SMALLEST,
    min_share: float = MIN_SHARE,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the weighted mean proximity bias over a graph of nearest neighbours.

    The graph has an edge from each word to its k nearest words of the pool in these vectors; beta is that of the
    reference with its own direction.

    Args:
        vectors: the vectors to measure.
        words: a list of words, its id or its file; the restricted vocabulary by default.
        theta: a neighbour with a larger indirect bias is illicit. Kumar et al. use .03, .05 and .07, Dawkins .03.
        k: number of neighbours of each word.
        sample: number of words drawn from a longer list, which estimates the value of the whole list; None takes all,
            as the paper does.
        pool: where neighbours are searched; the whole restricted vocabulary by default.
        unvisited: weight of a word that is nobody's neighbour; 1 by the paper's definition, 0 in the released script.
        subspace: the direction of indirect bias; learned on the reference by default.
        how: how the direction is learned, as in `direct_bias`.
        smallest: an edge with a similarity below this has no beta and is not illicit; the details count them.
        min_share: smallest share of the words, and of the concept's pairs, that the vocabulary must have.
        concept: the concept whose direction is used, as in `direct_bias`; any number of groups.
        restriction: how the vocabulary is restricted.
        reference: vectors before mitigation, which decide what is illicit; these vectors by default.
        seed: seed of the sample.

    Returns:
        The weighted mean, with eta and weight of each word in `items`.

    What it does not tell you: anything that another pool, k or theta would show. See `evenhand show gipe`.
    """
    if unvisited not in (0, 1):
        raise UsageError(f"unvisited, the weight of a word without incoming edges, must be 1 or 0, got {unvisited!r}")
    concept, original = as_concept(concept), reference or vectors
    selection, candidates = (
        select_words(vectors, each, concept=concept, restriction=restriction, reference=reference)
        for each in (words, pool)
    )
    took_effect = {"direction": "given" if subspace else "original", "pool": candidates.name, **candidates.restriction}
    call.describe(selection.name, coverage=selection.coverage, params=took_effect)
    axis = given_or_learned(call, subspace, original, concept, how=how, lists=selection.lists(), min_share=min_share)
    sources = selection.sample(sample, seed=seed)
    graph = neighbour_graph(vectors, sources, candidates, k=k)
    betas = edge_betas(graph, original, sources, candidates, axis, smallest=smallest)
    illicit = betas > theta
    eta, gamma = proximity(illicit), node_weights(graph, illicit, len(candidates), unvisited)
    if not gamma.sum():
        raise DegenerateError("no word is a neighbour of another, so that all weights are 0")
    estimate = float(gamma @ eta / gamma.sum())
    return call.measurement(
        estimate,
        len(eta),
        interval=jackknife_interval(_ratio, np.stack([gamma * eta, gamma], axis=1), limits=(0.0, 1.0)),
        reading=f"{100 * estimate:.1f} % of the (weighted) neighbours are near because of {concept.name}",
        items=word_items(sources.words, eta, weight=gamma.tolist()),
        units=(ratio_units("word", sources.words, gamma * eta, gamma),),
        details={
            "unweighted": float(eta.mean()),
            "k": graph.k,
            "unvisited": int((incoming_edges(graph, len(candidates)) == 0).sum()),
            "undefined_edges": int(np.isnan(betas).sum()),
            "sizes": dict(selection.sizes),
            "pool": dict(candidates.sizes),
            **describe_direction(axis),
        },
    )


def incoming_edges(graph: NeighbourGraph, size: int, flags: NDArray[np.bool_] | None = None) -> Vector64:
    """Return how many edges, or how many of those with a flag, lead to each source word."""
    ends = graph.neighbours.ravel() if flags is None else graph.neighbours[flags]
    counts = np.bincount(ends, minlength=size)
    return np.where(graph.own >= 0, counts[graph.own], 0).astype(np.float64)


def node_weights(graph: NeighbourGraph, illicit: NDArray[np.bool_], size: int, unvisited: int) -> Vector64:
    """Return gamma: one plus the illicit share of the edges into a word; `unvisited` where no edge leads to it."""
    edges, illicit_edges = incoming_edges(graph, size), incoming_edges(graph, size, illicit)
    return np.divide(illicit_edges, edges, out=np.full_like(edges, unvisited - 1.0), where=edges > 0) + 1.0


def _ratio(sums: Matrix64) -> Vector64:
    """Return the weighted mean of (draws, 2) sums of weighted values and of weights."""
    return np.asarray(np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=sums[:, 1] > 0))
