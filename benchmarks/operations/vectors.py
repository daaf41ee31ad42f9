"""Load word vectors from a text file: the first time, from the cache, and while the cache is still being written."""

import os
from pathlib import Path

from operation import Call, Operation, Work

WORDS, DIM = 400_000, 100


def prepare(folder: Path, scale: int) -> None:
    """Write synthetic numbers in GloVe's format, as its own tool writes them: five digits."""
    import numpy as np

    path = folder / "vectors.txt"
    if path.exists():
        return
    rng = np.random.default_rng(0)
    words = WORDS * scale // 8
    with path.open("w") as out:
        for start in range(0, words, 4_000):
            for row, numbers in enumerate(rng.normal(0, 0.4, (min(4_000, words - start), DIM))):
                out.write(f"word{start + row} " + " ".join(f"{x:.5g}" for x in numbers) + "\n")


def _load(folder: Path) -> float:
    from evenhand import Vectors

    return float(Vectors.load(folder / "vectors.txt").matrix[-1, -1])


def _first(folder: Path) -> Call:
    import tempfile

    os.environ["EVENHAND_CACHE"] = tempfile.mkdtemp(dir=folder)
    return lambda: _load(folder)


def _cached(folder: Path) -> Call:
    os.environ["EVENHAND_CACHE"] = str(folder / "cache")
    return lambda: _load(folder)


def _again(folder: Path) -> Call:
    _first(folder)
    _load(folder)
    return lambda: _load(folder)


def _gensim(folder: Path) -> Call:
    def load() -> float:
        from gensim.models import KeyedVectors

        found = KeyedVectors.load_word2vec_format(str(folder / "vectors.txt"), no_header=True)
        return float(found.vectors[-1, -1])

    return load


def _work(scale: int) -> Work:
    return Work(bytes=WORDS * scale // 8 * DIM * (8.7 + 4), why="read 8.7 bytes of text a number, write 4")


OPERATIONS = {
    "load-first": Operation(
        "Load vectors from text, first time",
        _first,
        _gensim,
        "gensim",
        "gensim",
        tolerance=1e-6,
        bar=20.0,
        work=_work,
        growth="words",
    ),
    "load-cached": Operation("Load vectors from text, cached", _cached, _gensim, "gensim", "gensim", tolerance=1e-6),
    "load-again": Operation(
        "Load again while the cache is being written", _again, _gensim, "gensim", "gensim", tolerance=1e-6
    ),
}
