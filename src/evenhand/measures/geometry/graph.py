"""Edges from words to their nearest neighbours in the measured space, and which of them the concept brought about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.geometry.indirect_bias import beta
from evenhand.measures.geometry.word_selection import Pool
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.neighbours import nearest, unit_float32
from evenhand.subspaces import Subspace

CELLS_AT_ONCE = 8 << 20  # coordinates of neighbours gathered at once: 64 MB of double precision


@dataclass(frozen=True, eq=False)
class Graph:
    """Each source word's neighbours, nearest first: (sources, k) places in the pool."""

    neighbours: Rows
    own: Rows
    """The place of each source in the pool, -1 where it is not one of its words."""

    @property
    def k(self) -> int:
        """Neighbours of each word: as many as asked for, or all there are."""
        return int(self.neighbours.shape[1])


def graph(vectors: Vectors, sources: Pool, pool: Pool, *, k: int) -> Graph:
    """The exact k nearest words of the pool by cosine for every source, itself left out.

    The search is blocked: its cost is sources x pool, its memory that of one block.
    """
    if k < 1:
        raise UsageError(f"a word needs at least one neighbour, got k={k}")
    if not len(sources) or len(pool) < 2:
        raise DegenerateError(f"{len(sources)} words of {sources.name} among {len(pool)} of {pool.name}: no neighbours")
    place = {row: spot for spot, row in enumerate(pool.rows.tolist())}
    own = np.array([place.get(row, -1) for row in sources.rows.tolist()], dtype=np.int64)
    queries, candidates = (unit_float32(vectors, side.rows) for side in (sources, pool))
    found, _ = nearest(queries, candidates, min(k, len(pool) - 1), exclude=own)
    return Graph(found, own)


def betas(edges: Graph, before: Vectors, sources: Pool, pool: Pool, along: Subspace, *, smallest: float) -> Matrix64:
    """(sources, k): indirect bias of each edge in the vectors before mitigation; NaN where it is undefined."""
    unit = unit_float32(before, pool.reference_rows)
    starts = unit_rows(before.matrix[sources.reference_rows])
    own, theirs = along.coordinates(starts), along.coordinates(unit)
    values = np.empty(edges.neighbours.shape)
    step = max(1, CELLS_AT_ONCE // (edges.k * before.dim))
    for start in range(0, len(values), step):
        block = slice(start, start + step)
        ends = edges.neighbours[block]
        dots = np.einsum("id,ikd->ik", starts[block], unit[ends], dtype=np.float64)
        values[block] = beta(dots, own[block, None], theirs[ends], smallest=smallest)
    return values


def proximity(illicit: NDArray[np.bool_]) -> Vector64:
    """eta: the share of each word's neighbours that the concept brought near."""
    return np.asarray(illicit.mean(axis=1), dtype=np.float64)
