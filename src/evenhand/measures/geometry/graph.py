"""Edges from words to their nearest neighbours in the measured space, and the indirect bias of each edge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.geometry.indirect_bias import beta
from evenhand.measures.geometry.word_selection import WordSelection
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.neighbours import nearest, unit_float32
from evenhand.subspaces import Subspace

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
    """Return the exact k nearest words of the pool by cosine for every source word, without the word itself.

    The search is blocked: its cost is sources x pool, its memory that of one block.
    """
    if k < 1:
        raise UsageError(f"k must be at least 1, got k={k}")
    if not len(sources) or len(pool) < 2:
        raise DegenerateError(f"{len(sources)} words of {sources.name} among {len(pool)} of {pool.name}: no neighbours")
    index = np.full(len(vectors), -1, dtype=np.int64)
    index[pool.rows] = np.arange(len(pool))
    own = index[sources.rows]
    queries, candidates = (unit_float32(vectors, side.rows) for side in (sources, pool))
    neighbours, _ = nearest(queries, candidates, min(k, len(pool) - 1), exclude=own)
    return NeighbourGraph(neighbours, own)


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
