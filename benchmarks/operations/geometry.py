"""GIPE: the graph of all nearest neighbours."""

import json
from pathlib import Path

from operation import Call, Operation, Sizes, Work

ABOUT = "the embedded GloVe vectors"
SIZES = {"words": 20_000, "sampled": 2_000}
GROWTH = {"words": 3_000, "sampled": 500}
TINY = {"words": 2_000, "sampled": 100}
NEIGHBOURS, THETA, SMALLEST, DIMENSIONS = 100, 0.03, 1e-6, 100


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write the sampled words, the pool and the direction that ours chooses."""
    import numpy as np

    import evenhand as eh
    from evenhand.measures.geometry.biased_words import VOCABULARY, concept_direction, select_words

    vectors, gender = eh.Vectors.default().head(sizes["words"]), eh.concept("gender")
    pool = select_words(vectors, VOCABULARY, concept=gender, restriction=None, reference=None)
    sources = pool.sample(sizes["sampled"], seed=0)
    axis = concept_direction(vectors, gender, how="pairs").basis[0]
    np.savez(folder / "graph.npz", matrix=vectors.matrix, pool=pool.rows, sources=sources.rows, axis=axis)
    (folder / "task.json").write_text(json.dumps(dict(sizes)))


def _ours(folder: Path) -> Call:
    import evenhand as eh

    sizes = json.loads((folder / "task.json").read_text())
    vectors = eh.Vectors.default().head(sizes["words"])

    def gipe() -> float:
        vectors.known_neighbours.clear()  # the neighbours that were found are remembered otherwise
        return float(eh.measures.gipe(vectors, sample=sizes["sampled"], k=NEIGHBOURS, theta=THETA).value)

    return gipe


def _loop(folder: Path) -> Call:
    """The definition word by word, with the neighbours of scikit-learn."""
    import numpy as np
    from sklearn.neighbors import NearestNeighbors

    with np.load(folder / "graph.npz") as found:
        matrix, pool, sources, axis = (found[name] for name in ("matrix", "pool", "sources", "axis"))
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)

    def beta(one: np.ndarray, other: np.ndarray) -> float:
        whole = one @ other
        if abs(whole) < SMALLEST:
            return 0.0
        off = [side - (side @ axis) * axis for side in (one, other)]
        lengths = np.linalg.norm(off[0]) * np.linalg.norm(off[1])
        return float((whole - off[0] @ off[1] / lengths) / whole)

    def call() -> float:
        near = NearestNeighbors(n_neighbors=NEIGHBOURS + 1, metric="cosine", algorithm="brute").fit(unit[pool])
        _, found = near.kneighbors(unit[sources])
        incoming, illicit, etas = np.zeros(len(matrix)), np.zeros(len(matrix)), []
        for source, places in zip(sources, found, strict=True):
            ends = [row for row in pool[places] if row != source][:NEIGHBOURS]
            bad = [beta(unit[source], unit[end]) > THETA for end in ends]
            incoming[ends] += 1
            illicit[ends] += bad
            etas.append(np.mean(bad))
        gammas = np.array([1 + (illicit[row] / incoming[row] if incoming[row] else 0.0) for row in sources])
        return float(gammas @ np.array(etas) / gammas.sum())

    return call


def _product(sizes: Sizes) -> Work:
    return Work(
        flop=2.0 * sizes["words"] * sizes["sampled"] * DIMENSIONS, why="one product of the sample and all words"
    )


OPERATIONS = {
    "gipe": Operation(
        "GIPE of {sampled} words, 100 neighbours among {words}",
        _ours,
        _loop,
        peer_name="scikit-learn's NearestNeighbors, a loop over the edges",
        tolerance=2e-3,
        work=_product,
        growth=("words", "sampled"),
        warm=True,
    ),
}
