"""WEAT with a p-value of 10,000 permutations on 25 + 25 words: ours against WEFE 1.0.1, in one run.

    EVENHAND_WEFE_PYTHON=wefe-venv/bin/python python benchmarks/measures.py [VECTORS] [WEFE_ITERATIONS]

WEFE needs numpy 1.26 and so an environment of its own (python3.11 -m venv wefe-venv; wefe-venv/bin/pip install
wefe==1.0.1). Both start from vectors in memory. Ours computes everything (effect size, p-value from 10,000 samples,
interval) and the best of 20 runs counts. WEFE does the same amount of work in every iteration, so it is run with 200
of them by default: `wefe_seconds_per_iteration` is measured, `wefe_seconds_extrapolated` is 10,000 times that plus its
time without a p-value, and the ratio is that extrapolation over ours. Give 10000 as WEFE_ITERATIONS to measure it in
full, which takes some minutes. Prints one JSON line.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from evenhand import Vectors, measures, query

SAMPLES, RUNS = 10_000, 20
QUERY = "weat-2"  # instruments and weapons, pleasant and unpleasant: 25 words each
THEIRS = """
import json, sys, time
import numpy as np
from gensim.models import KeyedVectors
from wefe.metrics import WEAT
from wefe.query import Query
from wefe.word_embedding_model import WordEmbeddingModel

folder, iterations = sys.argv[1], int(sys.argv[2])
task = json.load(open(folder + "/task.json"))
matrix = np.load(folder + "/matrix.npy")
keyed = KeyedVectors(matrix.shape[1])
keyed.add_vectors(task["words"], matrix)
model, query = WordEmbeddingModel(keyed, "benchmark"), Query(task["targets"], task["attributes"])

def timed(**options):
    started = time.perf_counter()
    found = WEAT().run_query(query, model, **options)
    return time.perf_counter() - started, found

timed()  # imports and first calls are not what is compared
plain, _ = timed()
tested, found = timed(calculate_p_value=True, p_value_iterations=iterations)
print("RESULT" + json.dumps({"plain": plain, "tested": tested, "effect": float(found["effect_size"])}))
"""


def ours(vectors: Vectors) -> tuple[float, float]:
    """Seconds of the fastest run, and the effect size."""
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        found = measures.weat(vectors, QUERY, samples=SAMPLES)
        seconds.append(time.perf_counter() - started)
    if found.details["sizes"] != [25] * 4 or found.details["exact"]:
        sys.exit(f"{vectors.name} lacks words of {QUERY}: {found.coverage.missing}")
    return min(seconds), float(found.value)


def theirs(vectors: Vectors, iterations: int) -> dict[str, float]:
    """What WEFE measured of itself, in its own environment."""
    python = os.environ.get("EVENHAND_WEFE_PYTHON") or sys.exit("EVENHAND_WEFE_PYTHON must name a Python that has wefe")
    asked = query(QUERY)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "matrix.npy", vectors.matrix)
        sets = {"targets": [list(g) for g in asked.targets], "attributes": [list(g) for g in asked.attributes]}
        (Path(folder) / "task.json").write_text(json.dumps({"words": list(vectors.words), **sets}))
        run = [python, "-c", THEIRS, folder, str(iterations)]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.partition("RESULT")[2])
    return found


def main(source: str = "", iterations: str = "200") -> None:
    """Time both on the words of the query."""
    full = Vectors.load(source) if source else Vectors.default()
    vectors = full.restrict([word for word in query(QUERY).words if word in full])
    seconds, effect = ours(vectors)
    other = theirs(vectors, int(iterations))
    each = (other["tested"] - other["plain"]) / int(iterations)
    whole = other["plain"] + SAMPLES * each
    print(
        json.dumps(
            {
                "query": QUERY,
                "samples": SAMPLES,
                "dimensions": vectors.dim,
                "ours_seconds": round(seconds, 5),
                "wefe_iterations_run": int(iterations),
                "wefe_seconds_run": round(other["tested"], 3),
                "wefe_seconds_per_iteration": round(each, 5),
                "wefe_seconds_extrapolated": round(whole, 1),
                "ratio": round(whole / seconds),
                "effect_ours": round(effect, 5),
                "effect_wefe": round(other["effect"], 5),
                "python": platform.python_version(),
                "numpy": np.__version__,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
