"""Debiasing methods: fit and application on the same vectors."""

import json
from pathlib import Path

from operation import Call, Operation, Sizes, Work

ABOUT = "SYNTHETIC: random vectors for the words of the gender lists and made-up ones"
SIZES = {"words": 200_000, "dimensions": 300}
GROWTH = {"words": 20_000, "dimensions": 40}
TINY = {"words": 6_000, "dimensions": 20}


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write vectors, and the word lists as WEFE reads them."""
    import numpy as np

    import evenhand as eh

    count, gender = sizes["words"], eh.concept("gender")
    siblings = [*eh.wordset("gn-glove-female"), *eh.wordset("gn-glove-male")]
    listed = [*gender.specific, *(word for pair in (*gender.pairs, *gender.equalize) for word in pair), *siblings]
    made_up = (f"made{i}" for i in range(count))
    words = [*dict.fromkeys(word for word in listed if word == word.lower()), *made_up][:count]
    matrix = np.random.default_rng(0).standard_normal((count, sizes["dimensions"]), dtype=np.float32)
    np.save(folder / "matrix.npy", matrix / np.linalg.norm(matrix, axis=1, keepdims=True))
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
        if method == "double-hard":
            import sklearn.cluster  # noqa: F401  imported by the method
        import threadpoolctl  # noqa: F401

        import evenhand as eh

        vectors, gender = eh.Vectors.load(folder / "matrix.npy"), eh.concept("gender")
        task = json.loads((folder / "task.json").read_text())
        given = {"siblings": task["siblings"]} if method == "hsr" else {}  # ours has longer lists by default
        kind = eh.mitigations.get(method)
        len(vectors.index)

        def call() -> list[float]:
            fitted = kind(**given).fit(vectors, gender)
            matrix = fitted(vectors).matrix
            return [float(value) for value in matrix[-1, :5]]

        return call

    return setup


def _model(folder: Path):  # type: ignore[no-untyped-def]
    import numpy as np
    from gensim.models import KeyedVectors
    from wefe.word_embedding_model import WordEmbeddingModel

    matrix = np.load(folder / "matrix.npy")
    keyed = KeyedVectors(matrix.shape[1])
    keyed.add_vectors((folder / "matrix.vocab").read_text(encoding="utf-8").split("\n"), matrix)
    return WordEmbeddingModel(keyed, "benchmark"), json.loads((folder / "task.json").read_text())


def _row(model) -> list[float]:  # type: ignore[no-untyped-def]
    return [float(value) for value in model.wv.vectors[-1, :5]]


def _wefe_hard(folder: Path) -> Call:
    from wefe.debias.hard_debias import HardDebias

    model, task = _model(folder)

    def call() -> list[float]:
        fitted = HardDebias(verbose=False).fit(model, task["pairs"], equalize_pairs=task["equalize"])
        return _row(fitted.transform(model, ignore=task["specific"], copy=False))

    return call


def _wefe_double_hard(folder: Path) -> Call:
    from wefe.debias.double_hard_debias import DoubleHardDebias

    model, task = _model(folder)

    def call() -> list[float]:
        fitted = DoubleHardDebias(verbose=False).fit(model, task["pairs"], bias_representation=["he", "she"])
        return _row(fitted.transform(model, copy=False))

    return call


def _wefe_hsr(folder: Path) -> Call:
    from wefe.debias.half_sibling_regression import HalfSiblingRegression

    model, task = _model(folder)

    def call() -> list[float]:
        return _row(HalfSiblingRegression(verbose=False).fit(model, task["siblings"]).transform(model, copy=False))

    return call


def _stream(folder: Path) -> Call:
    import numpy as np

    import evenhand as eh
    from evenhand.mitigations.maps import SoftProjection

    vectors = eh.Vectors.load(folder / "matrix.npy")
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(vectors.dim, 10)))[0].T
    return lambda: SoftProjection(basis).write(vectors, folder / "cache.safetensors") and None


def _one_pass(sizes: Sizes) -> Work:
    return Work(copied=8.0 * sizes["words"] * sizes["dimensions"], why="read and write the matrix once")


def _operation(method: str, title: str, theirs, tolerance: float | None = None) -> Operation:  # type: ignore[no-untyped-def]
    return Operation(
        title + ", fit and application, {words} x {dimensions}",
        _ours(method),
        theirs,
        "wefe",
        "WEFE 1.0.1",
        bar=5.0,
        tolerance=tolerance,
        work=_one_pass,
        growth=("words", "dimensions"),
    )


OPERATIONS = {
    "hard": _operation("hard", "Hard debiasing", _wefe_hard, tolerance=1e-4),
    "double-hard": _operation("double-hard", "Double-Hard", _wefe_double_hard),
    "hsr": _operation("hsr", "HSR", _wefe_hsr, tolerance=1e-4),
    "map-stream": Operation(
        "a map of rank 10 streamed from file to file, {words} x {dimensions}",
        _stream,
        work=_one_pass,
        growth=("words",),
    ),
}
