"""Exact nearest neighbours by cosine, computed in blocks, and analogies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows, unit_rows
from evenhand.engines.engine import threads
from evenhand.errors import DegenerateError, UsageError

if TYPE_CHECKING:
    from evenhand.models.vectors.table import Vectors

BLOCK_CELLS = 4 << 20  # similarities per block and thread: 16 MB of float32
MOST_THREADS = 8
TOP_CELLS = 2 << 20  # similarities whose largest are found at once: what stays in the cache of a processor
SAMPLED = 16  # every 16th similarity of a row gives a limit for its largest ones
SOUGHT = 100  # neighbours that are sought at least where they are remembered: the most that measures ask for by default
FEW_COLUMNS = 4  # times k, and 1,024: rows of fewer are sorted as a whole
VANISHED = 1e-6  # norm of a sum of unit vectors below which its direction is rounding error
EPSILON = 1e-3  # in the denominator of 3CosMul, as in Levy & Goldberg 2014


def unit_float32(vectors: Vectors, rows: Rows | None = None) -> NDArray[np.float32]:
    """Return the rows scaled to unit length; norms are computed in double precision."""
    matrix = vectors.matrix if rows is None else vectors.matrix[rows]
    unit = np.empty(matrix.shape, dtype=np.float32)
    for start in range(0, len(matrix), 50_000):
        unit[start : start + 50_000] = unit_rows(matrix[start : start + 50_000])
    return unit


def nearest(
    queries: NDArray[np.float32], pool: NDArray[np.float32], k: int, *, exclude: Rows | None = None
) -> tuple[Rows, NDArray[np.float32]]:
    """Return the k rows of `pool` nearest to each query, nearest first, and their cosines.

    Both arrays have unit rows. `exclude` names one row of the pool per query to leave out, usually the word itself (-1
    for none). Ties are ordered by row, so the result does not depend on the block size.
    """
    available = len(pool) - (exclude is not None)
    if not 1 <= k <= available:
        raise UsageError(f"k={k} neighbours requested from {available:,} words", hint="use a smaller k")
    indices = np.empty((len(queries), k), dtype=np.int64)
    cosines = np.empty((len(queries), k), dtype=np.float32)
    step = min(max(1, BLOCK_CELLS // len(pool)), max(1, len(queries)))
    starts = range(0, len(queries), step)
    workers = max(1, min(threads(), MOST_THREADS, len(starts)))

    def search(worker: int) -> None:
        similarities = np.empty((step, len(pool)), dtype=np.float32)  # memory for each block takes as long as a product
        for start in starts[worker::workers]:
            part = slice(start, start + step)
            block = np.matmul(queries[part], pool.T, out=similarities[: len(queries[part])])
            if exclude is not None:
                _mask(block, exclude[part])
            indices[part] = top = _top(block, k)
            cosines[part] = np.take_along_axis(block, top, axis=1)

    if workers < 2:
        search(0)
        return indices, cosines
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_limits

    # Our threads instead of those of BLAS: they share what comes after the products, too.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(workers) as executor:
        list(executor.map(search, range(workers)))
    return indices, cosines


@dataclass
class KnownNeighbours:
    """The neighbours among one pool that were found so far: for each row of the vectors, indices into the pool.

    No entry depends on another, so threads that share vectors may add to it at the same time.
    """

    k: int
    found: dict[int, Rows] = field(default_factory=dict)


def neighbours_among(vectors: Vectors, rows: Rows, pool: Rows, k: int) -> Rows:
    """Return the k nearest words of a pool for each row, nearest first, without the row itself; indices into the pool.

    Several measures ask for the same words among the same pool, so the vectors remember what was found.
    """
    if k < 1 or k >= len(pool):
        raise UsageError(f"k={k} neighbours requested from {len(pool) - 1:,} words", hint="use a smaller k")
    key = pool.tobytes()
    known = vectors.known_neighbours.get(key)
    if known is None or known.k < k:
        known = vectors.known_neighbours[key] = KnownNeighbours(min(max(k, SOUGHT), len(pool) - 1))
    missing = np.array([row for row in dict.fromkeys(rows.tolist()) if row not in known.found], dtype=np.int64)
    if len(missing):
        own = np.full(len(vectors), -1, dtype=np.int64)
        own[pool] = np.arange(len(pool))
        queries, candidates = unit_float32(vectors, missing), unit_float32(vectors, pool)
        found, _ = nearest(queries, candidates, known.k, exclude=own[missing])
        known.found.update(zip(missing.tolist(), found, strict=True))
    return np.array([known.found[row][:k] for row in rows.tolist()], dtype=np.int64).reshape(len(rows), k)


def _mask(block: NDArray[np.float32], exclude: Rows) -> None:
    rows = np.flatnonzero(exclude >= 0)
    block[rows, exclude[rows]] = -np.inf


def _top(block: NDArray[np.float32], k: int) -> Rows:
    """Return the columns of the k largest values of each row, largest first, ties by column."""
    count, width = block.shape
    top = np.empty((count, k), dtype=np.int64)
    if width < max(FEW_COLUMNS * k, 1024):
        for row, values in enumerate(block):
            top[row] = np.argsort(-values, kind="stable")[:k]
        return top
    step = max(1, TOP_CELLS // width)
    for start in range(0, count, step):
        part = block[start : start + step]
        # Most columns are far below the k-th largest value. A sample of them gives a limit that a few times k reach.
        every = np.ascontiguousarray(part[:, ::SAMPLED])
        place = every.shape[1] - 4 - 3 * k // SAMPLED
        reached = part >= np.partition(every, place, axis=1)[:, place, None]
        counts = np.count_nonzero(reached, axis=1)
        for row in np.flatnonzero(counts < k).tolist():
            reached[row] = True
            counts[row] = width
        rows, columns = np.divmod(np.flatnonzero(reached), width)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        values = np.full((len(part), counts.max()), np.inf, dtype=block.dtype)
        values[rows, places] = -part[rows, columns]
        found = np.zeros(values.shape, dtype=np.int64)
        found[rows, places] = columns
        order = np.argsort(values, axis=1, kind="stable")[:, :k]
        top[start : start + step] = np.take_along_axis(found, order, axis=1)
    return top


def analogy(
    vectors: Vectors,
    positive: Sequence[str],
    negative: Sequence[str] = (),
    *,
    k: int = 10,
    method: Literal["3cosadd", "3cosmul"] = "3cosadd",
) -> list[tuple[str, float]]:
    """Return the words near all of `positive` and far from all of `negative`."""
    if not positive or k < 1:
        raise UsageError(f"{len(positive)} positive words and k={k}", hint="both must be at least 1")
    names = [*positive, *negative]
    queries = unit_rows(np.stack([vectors[word] for word in names]))
    cosines = vectors.unit.astype(np.float32, copy=False) @ queries.T.astype(np.float32)
    near, far = cosines[:, : len(positive)], cosines[:, len(positive) :]
    if method == "3cosadd":
        target = queries[: len(positive)].sum(axis=0) - queries[len(positive) :].sum(axis=0)
        length = float(np.linalg.norm(target))
        if length < VANISHED:
            raise DegenerateError(
                f"the vectors of {', '.join(names)} sum to zero, so no word is near", hint="use other words"
            )
        scores = (near.sum(axis=1) - far.sum(axis=1)) / length
    elif method == "3cosmul":
        scores = ((1 + near) / 2).prod(axis=1) / (((1 + far) / 2) + EPSILON).prod(axis=1)
    else:
        raise UsageError(f"unknown analogy method {method!r}", hint="use 3cosadd or 3cosmul")
    scores[[vectors.index[word] for word in names if word in vectors]] = -np.inf
    count = min(k, int(np.isfinite(scores).sum()))
    best = _top(scores[None, :], count)[0] if count else []
    return [(vectors.words[row], float(scores[row])) for row in best]
