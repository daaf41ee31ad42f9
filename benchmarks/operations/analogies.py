"""Google analogies: accuracy over the most frequent embedded words."""

from pathlib import Path

from operation import Call, DataMissingError, Operation, Sizes, Work

ABOUT = "the embedded GloVe vectors and the Google analogy questions (EVENHAND_DATA)"
SIZES = {"words": 30_000}
GROWTH = {"words": 4_000}
TINY = {"words": 2_000}
ASKED, DISTINCT, DIMENSIONS = 15_276, 791, 100  # questions whose words are among the 30,000, and their words


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write the words and the questions."""
    import shutil

    import numpy as np

    import evenhand as eh
    from evenhand import data

    located = data.locate("google-analogies")
    if located is None:
        raise DataMissingError("the Google analogies are not on this disk; set EVENHAND_DATA")
    vectors = eh.Vectors.default().head(sizes["words"])
    np.save(folder / "matrix.npy", np.asarray(vectors.matrix, dtype=np.float32))
    (folder / "matrix.vocab").write_text("\n".join(vectors.words), encoding="utf-8")
    shutil.copyfile(located, folder / "questions.txt")


def _ours(folder: Path) -> Call:
    import evenhand as eh

    vectors, measure = eh.Vectors.load(folder / "matrix.npy"), eh.measures.get("analogy")
    return lambda: float(measure(vectors, folder / "questions.txt", restrict=None).value or 0)


def _gensim(folder: Path) -> Call:
    import numpy as np
    from gensim.models import KeyedVectors

    matrix = np.load(folder / "matrix.npy")
    keyed = KeyedVectors(matrix.shape[1])
    keyed.add_vectors((folder / "matrix.vocab").read_text(encoding="utf-8").split("\n"), matrix)
    return lambda: float(keyed.evaluate_word_analogies(str(folder / "questions.txt"), restrict_vocab=len(matrix))[0])


def _work(sizes: Sizes) -> Work:
    products = 2.0 * DISTINCT * DIMENSIONS * sizes["words"]
    return Work(flop=products, copied=4.0 * ASKED * sizes["words"], why="all scores, written once")


OPERATIONS = {
    "analogies": Operation(
        "Google analogies over {words} words",
        _ours,
        _gensim,
        "gensim",
        "gensim 4.4.0",
        tolerance=1e-3,
        bar=10.0,
        work=_work,
        growth=("words",),
    )
}
