"""GIPE: gender-based illicit proximity estimate, over the graph of all nearest neighbours (Kumar et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.geometry.bias_score import How, axis, described
from evenhand.measures.geometry.graph import Graph, betas, graph, proximity
from evenhand.measures.geometry.indirect_bias import SMALLEST
from evenhand.measures.geometry.intervals import weighted_mean_interval
from evenhand.measures.geometry.word_selection import VOCABULARY, Restriction
from evenhand.measures.geometry.word_selection import pool as words_of
from evenhand.measures.measurement import Measurement, undefined, word_items
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept, WordSet, as_concept

INFO = Info(
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
        "The pool of possible neighbours and the words asked move it by half, so that only values with equal "
        "parameters compare. Illicit is decided in the vectors before mitigation along one direction."
    ),
    cites=("kumar2020", "dawkins2021"),
    queries=(VOCABULARY,),
    family="geometry",
    needs_reference=True,
)
SAMPLE = 5_000  # words whose neighbours are searched in a default run: a few seconds on a laptop


@measure(INFO)
def gipe(
    vectors: Vectors,
    words: WordSet | str | Iterable[str] = VOCABULARY,
    *,
    theta: float = 0.03,
    k: int = 100,
    sample: int | None = SAMPLE,
    pool: WordSet | str | Iterable[str] = VOCABULARY,
    unvisited: Literal[0, 1] = 1,
    subspace: Subspace | None = None,
    how: How = "pairs",
    smallest: float = SMALLEST,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """The weighted mean proximity bias of the words, with eta and weight of each and an interval over the words.

    The graph has an edge from each word to its k nearest words of the `pool` (the whole restricted vocabulary by
    default) in these vectors; beta is that of the `reference` with its own direction. Of a longer list `sample` words
    are drawn with the seed, which estimates the value of the whole list; None asks all, as the paper does. A word
    that is nobody's neighbour weighs 1, as the paper defines it; the released script drops it (`unvisited=0`). Kumar
    uses theta .03, .05 and .07, Dawkins reports .03.

    What it does not tell you: anything that another pool, k or theta would show. See `evenhand show gipe`.
    """
    if unvisited not in (0, 1):
        raise UsageError(f"the weight of a word without incoming edges is 1 or 0, got {unvisited!r}")
    about, rules, before = as_concept(concept), restriction or Restriction(), reference or vectors
    asked, near = (
        words_of(vectors, each, concept=about, restriction=rules, reference=reference) for each in (words, pool)
    )
    sending = asked.sample(sample, seed=seed)
    given: dict[str, Any] = {"direction": "given"} if subspace else {"direction": "original", "how": how}
    chosen = {"theta": theta, "k": k, "sample": sample, "pool": near.name, "unvisited": unvisited}
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "params": {"concept": about.name, "smallest": smallest} | chosen | given | near.rules,
        "seed": seed,
    }
    try:
        along = subspace or axis(before, about, how=how)
        edges = graph(vectors, sending, near, k=k)
        values = betas(edges, before, sending, near, along, smallest=smallest)
    except (DegenerateError, VocabularyError) as error:
        return undefined("gipe", error.message, asked.coverage, **common)
    eta, gamma = proximity(values > theta), node_weights(edges, values > theta, len(near), unvisited)
    if not gamma.sum():
        return undefined(
            "gipe", "no word is a neighbour of another, so that all weights are 0", asked.coverage, **common
        )
    estimate = float(gamma @ eta / gamma.sum())
    return Measurement(
        "gipe",
        estimate,
        len(eta),
        asked.coverage,
        interval=weighted_mean_interval(eta, gamma, seed=seed),
        reading=f"{100 * estimate:.1f} % of the (weighted) neighbours are near because of {about.name}",
        items=word_items(sending.words, eta, weight=gamma.tolist()),
        details={
            "unweighted": float(eta.mean()),
            "k": edges.k,
            "unvisited": int((incoming(edges, len(near)) == 0).sum()),
            "undefined_edges": int(np.isnan(values).sum()),
            "sizes": dict(asked.sizes),
            "pool": dict(near.sizes),
        }
        | described(along),
        **common,
    )


def incoming(edges: Graph, size: int, kept: NDArray[np.bool_] | None = None) -> Vector64:
    """How many edges (or how many of those kept) lead to each source word."""
    ends = edges.neighbours.ravel() if kept is None else edges.neighbours[kept]
    counts = np.bincount(ends, minlength=size)
    return np.where(edges.own >= 0, counts[edges.own], 0).astype(np.float64)


def node_weights(edges: Graph, illicit: NDArray[np.bool_], size: int, unvisited: int) -> Vector64:
    """gamma: one plus the illicit share of the edges into a word; `unvisited` where no edge leads to it."""
    every, bad = incoming(edges, size), incoming(edges, size, illicit)
    return np.divide(bad, every, out=np.full_like(every, unvisited - 1.0), where=every > 0) + 1.0
