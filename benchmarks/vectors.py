"""Loading word vectors: ours against gensim's text loader on the same file, in one run.

    python benchmarks/vectors.py [FOLDER]

Writes a text file of 400,000 x 100 (synthetic numbers with GloVe's five digits; about 350 MB) into FOLDER, or a
temporary one, and loads it in fresh processes: gensim, ours for the first time, ours from the cache. Imports are not
timed on either side. Needs the extra `gensim`. Prints a table for RESULTS.md.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

WORDS, DIM = 400_000, 100
REPEATS = 3
COMMON = """
import json, resource, sys, time
path = sys.argv[1]
{imports}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
{load}
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([seconds, peak / 1024, before / 1024, list(shape)]))
"""
GENSIM = COMMON.format(
    imports="from gensim.models import KeyedVectors",
    load="shape = KeyedVectors.load_word2vec_format(path, no_header=True).vectors.shape",
)
OURS = COMMON.format(
    imports="import polars; from evenhand import Vectors; import evenhand.models.vectors.load",
    load="shape = Vectors.load(path).matrix.shape",
)


def make(path: Path) -> None:
    """A file as GloVe's tool writes it."""
    rng = np.random.default_rng(0)
    with path.open("w") as out:
        for start in range(0, WORDS, 4_000):
            for row, numbers in enumerate(rng.normal(0, 0.4, (4_000, DIM))):
                out.write(f"word{start + row} " + " ".join(f"{x:.5g}" for x in numbers) + "\n")


def timed(code: str, path: Path, cache: Path) -> tuple[float, float, float]:
    """Seconds, peak memory and memory before the load, both in MiB, of a fresh process."""
    environment = {**os.environ, "EVENHAND_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=environment, capture_output=True, text=True, check=True
    )
    seconds, peak, before, shape = json.loads(done.stdout.splitlines()[-1])
    if shape != [WORDS, DIM]:
        raise SystemExit(f"read {shape}, expected {[WORDS, DIM]}")
    return seconds, peak, before


def main() -> None:
    """Write the file where it is not there yet, time each way, print the table."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary)
        path = folder / "bench.txt"
        if not path.exists():
            make(path)
        first = [timed(OURS, path, Path(temporary) / f"cache{i}") for i in range(REPEATS)]
        cached = [timed(OURS, path, Path(temporary) / "cache0") for _ in range(REPEATS)]
        peer = timed(GENSIM, path, Path(temporary))
    matrix = WORDS * DIM * 4 / 2**20
    print(f"{WORDS:,} x {DIM}, matrix {matrix:.0f} MiB, {os.cpu_count()} cores")
    print("| load | seconds | ratio to gensim | peak MiB | of the matrix |\n|---|--:|--:|--:|--:|")
    ways = (("gensim, text", peer), ("evenhand, first", min(first)), ("evenhand, cached", min(cached)))
    for name, (seconds, peak, _) in ways:
        print(f"| {name} | {seconds:.3f} | {peer[0] / seconds:.0f}x | {peak:.0f} | {peak / matrix:.2f}x |")


if __name__ == "__main__":
    main()
