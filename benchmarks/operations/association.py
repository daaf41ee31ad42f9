"""Association measures of word vectors: WEAT with a p-value, and RNSB."""

import json
from pathlib import Path

from operation import Call, Operation

ITERATIONS = 10_000
WEFE_ITERATIONS = 200  # of WEFE's permutation test, whose time is the same for each


def prepare(folder: Path, scale: int) -> None:
    """Write the embedded vectors and the word sets of a query as both sides read them."""
    import numpy as np

    import evenhand as eh

    vectors = eh.Vectors.default()
    weat, rnsb = eh.query("weat-2"), eh.query("weat-6")
    np.save(folder / "matrix.npy", np.asarray(vectors.matrix))
    (folder / "matrix.vocab").write_text("\n".join(vectors.words), encoding="utf-8")
    sentiment = eh.query("weat-1").attributes
    task = {
        "weat": [[list(group) for group in sets] for sets in (weat.targets, weat.attributes)],
        "rnsb": [[list(group) for group in sets] for sets in (rnsb.targets, sentiment)],
        "samples": ITERATIONS * scale // 8,
    }
    (folder / "task.json").write_text(json.dumps(task))


def _vectors(folder: Path):  # type: ignore[no-untyped-def]
    import evenhand as eh

    return eh.Vectors.load(folder / "matrix.npy")


def _weat(folder: Path) -> Call:
    import evenhand as eh

    vectors, task = _vectors(folder), json.loads((folder / "task.json").read_text())
    targets, attributes = (tuple(tuple(group) for group in sets) for sets in task["weat"])
    query = eh.Query(targets=targets, attributes=attributes)
    return lambda: float(eh.measures.weat(vectors, query, samples=task["samples"]).value)


def _rnsb(folder: Path) -> Call:
    import evenhand as eh

    vectors, task = _vectors(folder), json.loads((folder / "task.json").read_text())
    targets, attributes = (tuple(tuple(group) for group in sets) for sets in task["rnsb"])
    query = eh.Query(targets=targets, attributes=attributes)
    return lambda: float(eh.measures.rnsb(vectors, query, splits=1).value)


def _wefe_model(folder: Path):  # type: ignore[no-untyped-def]
    import numpy as np
    from gensim.models import KeyedVectors
    from wefe.word_embedding_model import WordEmbeddingModel

    matrix = np.load(folder / "matrix.npy").astype(np.float32)
    keyed = KeyedVectors(matrix.shape[1])
    keyed.add_vectors((folder / "matrix.vocab").read_text(encoding="utf-8").split("\n"), matrix)
    return WordEmbeddingModel(keyed, "benchmark")


def _wefe_weat(folder: Path) -> Call:
    from wefe.metrics import WEAT
    from wefe.query import Query

    model, task = _wefe_model(folder), json.loads((folder / "task.json").read_text())
    query = Query(*task["weat"])
    options = {"calculate_p_value": True, "p_value_iterations": WEFE_ITERATIONS}
    return lambda: float(WEAT().run_query(query, model, **options)["effect_size"])


def _wefe_rnsb(folder: Path) -> Call:
    from wefe.metrics import RNSB
    from wefe.query import Query

    model, task = _wefe_model(folder), json.loads((folder / "task.json").read_text())
    query = Query(*task["rnsb"])
    return lambda: float(RNSB().run_query(query, model, n_iterations=1)["rnsb"])


OPERATIONS = {
    "weat-p": Operation(
        f"WEAT with a p-value of {ITERATIONS:,} permutations, 25 + 25 words",
        _weat,
        _wefe_weat,
        "wefe",
        f"WEFE 1.0.1 (timed with {WEFE_ITERATIONS} permutations)",
        theirs_share=WEFE_ITERATIONS / ITERATIONS,
        tolerance=1e-4,
        growth="permutations",
    ),
    "rnsb": Operation("RNSB, one classifier", _rnsb, _wefe_rnsb, "wefe", "WEFE 1.0.1"),
}
