"""Google analogies (19,544 questions) over a 30,000-word vocabulary: ours against gensim's, in one run.

    EVENHAND_DATA=folder python benchmarks/analogies.py [VECTORS] [WORDS]

Needs gensim and the data set google-analogies (`evenhand fetch google-analogies`). Both start from vectors in memory
and a file of questions on disk; each runs three times, the best counts. Prints one JSON line.
"""

import json
import platform
import sys
import time
from collections.abc import Callable

import gensim
import numpy as np
from gensim.models import KeyedVectors

from evenhand import data
from evenhand.measures.quality.analogy import analogy
from evenhand.models.vectors import Vectors

RUNS = 3


def best(call: Callable[[], float]) -> tuple[float, float]:
    """Seconds of the fastest run, and what it returned."""
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        value = call()
        seconds.append(time.perf_counter() - started)
    return min(seconds), value


def main(source: str = "", words: str = "30000") -> None:
    """Time both on the same words."""
    vectors = (Vectors.load(source) if source else Vectors.default()).head(int(words))
    path = data.fetch("google-analogies")
    other = KeyedVectors(vectors.dim)
    other.add_vectors(list(vectors.words), np.array(vectors.matrix))
    ours, our_value = best(lambda: float(analogy(vectors, path, restrict=None).value or 0))
    theirs, their_value = best(lambda: float(other.evaluate_word_analogies(str(path), restrict_vocab=len(vectors))[0]))
    print(
        json.dumps(
            {
                "vectors": vectors.name,
                "words": len(vectors),
                "dim": vectors.dim,
                "evenhand_s": round(ours, 3),
                "gensim_s": round(theirs, 3),
                "ratio": round(theirs / ours, 1),
                "accuracy": [our_value, their_value],
                "gensim": gensim.__version__,
                "numpy": np.__version__,
                "machine": platform.machine(),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
