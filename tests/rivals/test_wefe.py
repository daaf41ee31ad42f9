"""Agreement with WEFE 1.0.1 where it computes what the papers define, and the differences where it does not.

WEFE needs numpy 1.26, so it runs in an environment of its own, named by EVENHAND_WEFE_PYTHON:

    python3.11 -m venv wefe-venv && wefe-venv/bin/pip install wefe==1.0.1
    EVENHAND_WEFE_PYTHON=wefe-venv/bin/python pytest -m rivals tests/rivals/test_wefe.py
"""

import json
import os
import subprocess
from itertools import combinations

import numpy as np
import pytest

from evenhand import Concept, Query, Vectors, measures, query

pytestmark = pytest.mark.rivals
PYTHON = os.environ.get("EVENHAND_WEFE_PYTHON", "")

# Runs in WEFE's environment: reads vectors and a list of (metric, targets, attributes, options), prints the results.
THEIRS = """
import json, sys
import numpy as np
from gensim.models import KeyedVectors
from wefe import metrics
from wefe.query import Query
from wefe.word_embedding_model import WordEmbeddingModel

words, tasks = json.load(open(sys.argv[1] + "/words.json")), json.load(open(sys.argv[1] + "/tasks.json"))
matrix = np.load(sys.argv[1] + "/matrix.npy")
keyed = KeyedVectors(matrix.shape[1])
keyed.add_vectors(words, matrix)
model = WordEmbeddingModel(keyed, "test")
results = []
for metric, targets, attributes, options in tasks:
    preprocessors = [{}, {"lowercase": True}]
    found = getattr(metrics, metric)().run_query(
        Query(targets, attributes), model, preprocessors=preprocessors, lost_vocabulary_threshold=0.9, **options
    )
    results.append({k: float(v) for k, v in found.items() if isinstance(v, (float, np.floating))})
print("RESULTS" + json.dumps(results))
"""


@pytest.fixture(scope="module")
def wefe(tmp_path_factory):
    """A function from tasks to WEFE's results on the embedded vectors."""
    if not PYTHON:
        pytest.skip("EVENHAND_WEFE_PYTHON does not name a Python that has wefe")
    folder = tmp_path_factory.mktemp("wefe")
    asked = [query(name) for name in ("weat-1", "weat-3", "weat-6", "weat-7", "weat-8", "weat-9", "weat-10")]
    wanted = {word for one in asked for word in one.words} | {w for pair in PAIRS for w in pair}
    full = Vectors.default()
    words = sorted({spelling for word in wanted if (spelling := full.find(word))})
    vectors = full.restrict(words)
    (folder / "words.json").write_text(json.dumps(words))
    np.save(folder / "matrix.npy", vectors.matrix)

    def run(tasks):
        (folder / "tasks.json").write_text(json.dumps(tasks))
        done = subprocess.run([PYTHON, "-c", THEIRS, str(folder)], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.partition("RESULTS")[2])

    return vectors, run


PAIRS = [("woman", "man"), ("girl", "boy"), ("she", "he"), ("mother", "father"), ("daughter", "son")]
QUERIES = ("weat-1", "weat-3", "weat-6", "weat-7", "weat-8", "weat-9", "weat-10")


def sets_of(name):
    asked = query(name)
    return [list(group) for group in asked.targets], [list(group) for group in asked.attributes]


def one_attribute(name):
    asked = query(name)
    return Query(name, asked.targets, asked.attributes[:1])


def agree(ours, theirs, tolerance=1e-5):
    """WEFE keeps single precision in the middle of its sums, hence not closer."""
    assert ours == pytest.approx(theirs, abs=tolerance)


def test_weat(wefe):
    vectors, run = wefe
    theirs = run([("WEAT", *sets_of(name), {}) for name in QUERIES])
    for name, result in zip(QUERIES, theirs, strict=True):
        ours = measures.weat(vectors, name)
        agree(ours.value, result["effect_size"])
        agree(ours.details["statistic"], result["weat"])


@pytest.mark.parametrize("normalise", [False, True])
def test_rnd(wefe, normalise):
    vectors, run = wefe
    tasks = [
        ("RND", sets_of(name)[0], sets_of(name)[1][:1], {"distance": distance, "normalize": normalise})
        for name in QUERIES
        for distance in ("norm", "cos")
    ]
    theirs = [result["rnd"] for result in run(tasks)]
    for name, (norm, similarity) in zip(QUERIES, zip(theirs[::2], theirs[1::2], strict=True), strict=True):
        agree(measures.rnd(vectors, name, normalise=normalise).value, norm)
        # theirs subtracts similarities where it says distance: the sign is turned
        agree(measures.rnd(vectors, name, normalise=normalise, distance="cosine").value, -similarity)


def test_mac(wefe):
    vectors, run = wefe
    for name, result in zip(QUERIES, run([("MAC", *sets_of(name), {}) for name in QUERIES]), strict=True):
        agree(measures.mac(vectors, name).value, result["mac"])


def test_ect(wefe):
    vectors, run = wefe
    theirs = run([("ECT", sets_of(name)[0], sets_of(name)[1][:1], {}) for name in QUERIES])
    for name, result in zip(QUERIES, theirs, strict=True):
        agree(measures.ect(vectors, one_attribute(name)).value, result["ect"])


def test_ripa(wefe):
    """Theirs averages over pairs that stand at the same place of two lists; with no word lost it is our mean of pairs."""
    vectors, run = wefe
    first, second = ([pair[side] for pair in PAIRS] for side in (0, 1))
    words = list(query("weat-7").targets[0])
    (theirs,) = run([("RIPA", [first, second], [words], {})])
    ours = measures.ripa(vectors, words, concept=Concept("gender", pairs=PAIRS), relation="mean-of-pairs")
    agree(ours.details["signed_mean"], theirs["ripa"])


@pytest.mark.parametrize("name", ["weat-3", "weat-10"])
def test_rnsb_split_by_split(wefe, name):
    vectors, run = wefe
    ours = measures.rnsb(vectors, name, splits=5)
    states = ours.details["random_states"]
    theirs = run([("RNSB", *sets_of(name), {"random_state": state}) for state in states])
    agree(ours.value, np.mean([result["rnsb"] for result in theirs]), 1e-4)


def test_their_p_value_draws_with_replacement(wefe):
    """A bootstrap instead of a permutation: on weat-9 (924 partitions) it is away from the exact value."""
    vectors, run = wefe
    (theirs,) = run([("WEAT", *sets_of("weat-9"), {"calculate_p_value": True, "p_value_iterations": 3000})])
    exact = measures.weat(vectors, "weat-9", alternative="greater").p_value
    s = np.array([item["value"] for item in measures.weat(vectors, "weat-9").items])
    sums = [s[list(chosen)].sum() for chosen in combinations(range(12), 6)]
    assert exact == np.mean(np.array(sums) >= s[:6].sum() - 1e-12)
    draws = s[np.random.default_rng(0).integers(12, size=(200_000, 12))]
    with_replacement = np.mean(draws[:, :6].sum(axis=1) - draws[:, 6:].sum(axis=1) > s[:6].sum() - s[6:].sum())
    spread = np.sqrt(with_replacement * (1 - with_replacement) / 3000)
    assert theirs["p_value"] == pytest.approx(with_replacement, abs=4 * spread + 1 / 3000)
    assert with_replacement != pytest.approx(exact, rel=0.1)
