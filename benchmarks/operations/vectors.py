"""Load word vectors from a text file: the first time, from the cache, and while the cache is still being written."""

import os
from pathlib import Path

from operation import Call, Operation, Sizes, Work

ABOUT = "SYNTHETIC numbers in GloVe's text format, five digits each"
SIZES = {"words": 400_000, "dimensions": 100}
GROWTH = {"words": 20_000, "dimensions": 50}
QUICK = {"words": 100_000}  # gensim takes a minute for all of them
TINY = {"words": 4_000, "dimensions": 20}
BYTES_A_NUMBER = 8.7
ROWS = 4_000


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write the file, and fill a cache."""
    import time

    import numpy as np

    rng = np.random.default_rng(0)
    with (folder / "vectors.txt").open("w") as out:
        for start in range(0, sizes["words"], ROWS):
            block = rng.normal(0, 0.4, (min(ROWS, sizes["words"] - start), sizes["dimensions"]))
            for row, numbers in enumerate(block.tolist(), start):
                out.write(f"word{row} " + " ".join([f"{x:.5g}" for x in numbers]) + "\n")
    time.sleep(2.1)  # the hash of a file that changed within two seconds is not stored
    _run_with_cache(folder, folder / "cache")


def _run_with_cache(folder: Path, cache: Path) -> None:
    import subprocess
    import sys

    code = f"from evenhand import Vectors; Vectors.load({str(folder / 'vectors.txt')!r})"
    environment = {**os.environ, "EVENHAND_CACHE": str(cache)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def _loader(folder: Path, cache: Path) -> Call:
    os.environ["EVENHAND_CACHE"] = str(cache)
    import polars  # noqa: F401  imported by the first load of a text file

    from evenhand import Vectors

    def load() -> list[float]:
        matrix = Vectors.load(folder / "vectors.txt").matrix
        return [float(matrix[0, 0]), float(matrix[-1, -1]), len(matrix)]

    return load


def _first(folder: Path) -> Call:
    import tempfile

    return _loader(folder, Path(tempfile.mkdtemp(dir=folder, prefix="cache"), "cache"))


def _cached(folder: Path) -> Call:
    return _loader(folder, folder / "cache")


def _again(folder: Path) -> Call:
    load = _first(folder)
    load()
    return load


def _gensim(folder: Path) -> Call:
    from gensim.models import KeyedVectors

    def load() -> list[float]:
        matrix = KeyedVectors.load_word2vec_format(str(folder / "vectors.txt"), no_header=True).vectors
        return [float(matrix[0, 0]), float(matrix[-1, -1]), len(matrix)]

    return load


def _parse(sizes: Sizes) -> Work:
    numbers = sizes["words"] * sizes["dimensions"]
    return Work(read=BYTES_A_NUMBER * numbers, copied=4.0 * numbers, why="read the file once")


_PEER = {"theirs": _gensim, "peer": "gensim", "peer_name": "gensim 4.4.0", "tolerance": 1e-6}
OPERATIONS = {
    "load-first": Operation(
        "load {words} x {dimensions} vectors from text, first time",
        _first,
        **_PEER,
        bar=20.0,
        bar_of="process",
        work=_parse,
        growth=("words", "dimensions"),
    ),
    "load-cached": Operation("the same, cached", _cached, **_PEER, growth=("words",)),
    "load-again": Operation("the same, right after the first load in the same process", _again, **_PEER),
}
