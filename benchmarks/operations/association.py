"""Association measures of word vectors: WEAT with a p-value, and RNSB."""

import json
from pathlib import Path

from operation import Call, Operation, Sizes

ABOUT = "the embedded GloVe vectors; WEAT-2 (25 + 25 words), RNSB of the groups of WEAT-6 and the words of WEAT-1"
SIZES = {"permutations": 10_000}
GROWTH = {"permutations": 20_000}
TINY = {"permutations": 1_000}
CLASSIFIERS = 20
WEFE_PERMUTATIONS = 20  # each takes the same time


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write the vectors and the word sets as both sides read them."""
    import numpy as np

    import evenhand as eh

    vectors = eh.Vectors.default()
    sets = {"weat": eh.query("weat-2"), "rnsb": eh.query("weat-6")}
    words = {name: [[list(group) for group in part] for part in (q.targets, q.attributes)] for name, q in sets.items()}
    words["rnsb"][0] = [[name.lower() for name in group] for group in words["rnsb"][0]]  # WEFE does not try both
    words["rnsb"][1] = [list(group) for group in eh.query("weat-1").attributes]
    np.save(folder / "matrix.npy", np.asarray(vectors.matrix, dtype=np.float32))
    (folder / "matrix.vocab").write_text("\n".join(vectors.words), encoding="utf-8")
    (folder / "task.json").write_text(json.dumps({**words, **sizes}))


def _task(folder: Path) -> dict:  # type: ignore[type-arg]
    found: dict = json.loads((folder / "task.json").read_text())  # type: ignore[type-arg]
    return found


def _query(folder: Path, name: str):  # type: ignore[no-untyped-def]
    import evenhand as eh

    targets, attributes = (tuple(tuple(group) for group in sets) for sets in _task(folder)[name])
    return eh.Vectors.load(folder / "matrix.npy"), eh.Query(targets=targets, attributes=attributes)


def _weat(folder: Path) -> Call:
    import evenhand as eh

    vectors, query = _query(folder, "weat")
    samples = _task(folder)["permutations"]
    return lambda: float(eh.measures.weat(vectors, query, samples=samples).value)


def _rnsb(folder: Path) -> Call:
    import evenhand as eh

    vectors, query = _query(folder, "rnsb")
    return lambda: float(eh.measures.rnsb(vectors, query, splits=CLASSIFIERS).value)


def _wefe(folder: Path):  # type: ignore[no-untyped-def]
    import numpy as np
    from gensim.models import KeyedVectors
    from wefe.word_embedding_model import WordEmbeddingModel

    matrix = np.load(folder / "matrix.npy")
    keyed = KeyedVectors(matrix.shape[1])
    keyed.add_vectors((folder / "matrix.vocab").read_text(encoding="utf-8").split("\n"), matrix)
    return WordEmbeddingModel(keyed, "benchmark")


def _wefe_weat(folder: Path) -> Call:
    from wefe.metrics import WEAT
    from wefe.query import Query

    model, query = _wefe(folder), Query(*_task(folder)["weat"])
    options = {"calculate_p_value": True, "p_value_iterations": WEFE_PERMUTATIONS}
    return lambda: float(WEAT().run_query(query, model, **options)["effect_size"])


def _wefe_rnsb(folder: Path) -> Call:
    from wefe.metrics import RNSB
    from wefe.query import Query

    model, query = _wefe(folder), Query(*_task(folder)["rnsb"])
    return lambda: float(RNSB().run_query(query, model, n_iterations=CLASSIFIERS)["rnsb"])


OPERATIONS = {
    "weat-p": Operation(
        "WEAT with a p-value of {permutations} permutations, 25 + 25 words",
        _weat,
        _wefe_weat,
        "wefe",
        "WEFE 1.0.1",
        share=lambda sizes: WEFE_PERMUTATIONS / sizes["permutations"],
        extrapolated=f"{WEFE_PERMUTATIONS} permutations timed",
        tolerance=1e-4,
        growth=("permutations",),
        warm=True,
    ),
    "rnsb": Operation(f"RNSB, {CLASSIFIERS} classifiers", _rnsb, _wefe_rnsb, "wefe", "WEFE 1.0.1", warm=True),
}
