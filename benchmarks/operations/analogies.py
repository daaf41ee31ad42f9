"""Google analogies: accuracy over a vocabulary of 30,000 words."""

from pathlib import Path

from operation import Call, Operation, Work

WORDS, QUESTIONS, DIM = 30_000, 19_544, 100


def prepare(folder: Path, scale: int) -> None:
    """Write the most frequent embedded words and the questions."""
    import shutil

    import numpy as np

    import evenhand as eh
    from evenhand import data

    vectors = eh.Vectors.default().head(WORDS * scale // 8)
    np.save(folder / "matrix.npy", np.asarray(vectors.matrix, dtype=np.float32))
    (folder / "matrix.vocab").write_text("\n".join(vectors.words), encoding="utf-8")
    shutil.copyfile(data.fetch("google-analogies"), folder / "questions.txt")


def _ours(folder: Path) -> Call:
    import evenhand as eh

    vectors = eh.Vectors.load(folder / "matrix.npy")
    return lambda: float(eh.measures.get("analogy")(vectors, folder / "questions.txt", restrict=None).value)


def _gensim(folder: Path) -> Call:
    import numpy as np
    from gensim.models import KeyedVectors

    matrix = np.load(folder / "matrix.npy")
    keyed = KeyedVectors(matrix.shape[1])
    keyed.add_vectors((folder / "matrix.vocab").read_text(encoding="utf-8").split("\n"), matrix)
    return lambda: float(keyed.evaluate_word_analogies(str(folder / "questions.txt"), restrict_vocab=len(matrix))[0])


def _work(scale: int) -> Work:
    return Work(flop=2.0 * QUESTIONS * DIM * WORDS * scale / 8, why="one product of questions and words")


OPERATIONS = {
    "analogies": Operation(
        f"Google analogies over {WORDS:,} words",
        _ours,
        _gensim,
        "gensim",
        "gensim 4.4.0",
        tolerance=1e-3,
        bar=10.0,
        work=_work,
        growth="words",
    )
}
