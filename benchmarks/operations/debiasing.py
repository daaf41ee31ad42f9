"""Debiasing methods: fit and application on the same vectors."""

import json
from pathlib import Path

from operation import Call, Operation, Work

WORDS, DIM = 400_000, 300


def prepare(folder: Path, scale: int) -> None:
    """Write random vectors for the words of the gender lists and others (SYNTHETIC: times do not depend on them)."""
    import numpy as np

    import evenhand as eh

    words_wanted = WORDS * scale // 8
    gender = eh.concept("gender")
    siblings = [*eh.wordset("gn-glove-female"), *eh.wordset("gn-glove-male")]
    listed = [*gender.specific, *(word for pair in (*gender.pairs, *gender.equalize) for word in pair), *siblings]
    made_up = (f"made{i}" for i in range(words_wanted))
    words = [*dict.fromkeys(word for word in listed if word == word.lower()), *made_up][:words_wanted]
    np.save(folder / "matrix.npy", np.random.default_rng(0).standard_normal((len(words), DIM), dtype=np.float32))
    (folder / "matrix.vocab").write_text("\n".join(words), encoding="utf-8")
    known = set(words)
    pairs = [list(pair) for pair in gender.pairs if known.issuperset(pair)]
    task = {
        "pairs": pairs,
        "equalize": [list(pair) for pair in gender.equalize if known.issuperset(pair)],
        "specific": [word for word in gender.specific if word in known],
        "siblings": [word for pair in pairs for word in pair],
    }
    (folder / "task.json").write_text(json.dumps(task))


def _ours(method: str):  # type: ignore[no-untyped-def]
    def setup(folder: Path) -> Call:
        import evenhand as eh

        vectors = eh.Vectors.load(folder / "matrix.npy")
        gender = eh.concept("gender")

        def call() -> None:
            fitted = eh.mitigations.get(method)().fit(vectors, gender)
            fitted(vectors)

        return call

    return setup


def _wefe(method: str):  # type: ignore[no-untyped-def]
    def setup(folder: Path) -> Call:
        import numpy as np
        from gensim.models import KeyedVectors
        from wefe.debias.double_hard_debias import DoubleHardDebias
        from wefe.debias.half_sibling_regression import HalfSiblingRegression
        from wefe.debias.hard_debias import HardDebias
        from wefe.word_embedding_model import WordEmbeddingModel

        task = json.loads((folder / "task.json").read_text())
        matrix = np.load(folder / "matrix.npy")
        keyed = KeyedVectors(matrix.shape[1])
        keyed.add_vectors((folder / "matrix.vocab").read_text(encoding="utf-8").split("\n"), matrix)
        model = WordEmbeddingModel(keyed, "benchmark")

        def hard() -> None:
            fitted = HardDebias(verbose=False).fit(model, task["pairs"], equalize_pairs=task["equalize"])
            fitted.transform(model, ignore=task["specific"], copy=False)

        def double_hard() -> None:
            fitted = DoubleHardDebias(verbose=False).fit(model, task["pairs"], bias_representation=["he", "she"])
            fitted.transform(model, copy=False)

        def hsr() -> None:
            HalfSiblingRegression(verbose=False).fit(model, task["siblings"]).transform(model, copy=False)

        return {"hard": hard, "double-hard": double_hard, "hsr": hsr}[method]

    return setup


def _one_pass(scale: int) -> Work:
    values = WORDS * scale // 8 * DIM
    return Work(flop=4.0 * values, bytes=8.0 * values, why="read and write the matrix once")


OPERATIONS = {
    method: Operation(
        f"{title}, fit and application, {WORDS:,} x {DIM}",
        _ours(method),
        _wefe(method),
        "wefe",
        "WEFE 1.0.1",
        bar=bar,
        work=_one_pass,
        growth="words",
    )
    for method, title, bar in (
        ("hard", "Hard debiasing", 5.0),
        ("double-hard", "Double-Hard", 5.0),
        ("hsr", "HSR", 5.0),
    )
}
