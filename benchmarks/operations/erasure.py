"""Concept erasure: LEACE, INLP and RAN."""

import json
from pathlib import Path

from operation import Call, Operation, Sizes, Work

ABOUT = "LEACE: SYNTHETIC labelled vectors; INLP and RAN: the embedded GloVe vectors and the gender lists"
SIZES = {"words": 20_000, "dimensions": 300}
GROWTH = {"words": 4_000, "dimensions": 50}
QUICK = {"words": 2_000, "dimensions": 20}
ROUNDS = 5  # of INLP
PER_CLASS = 2_000
RAN_WORDS, RAN_TIMED = 3_000, 10


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write labelled vectors: random numbers with three shifted coordinates."""
    import numpy as np

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, sizes["words"])
    matrix = rng.standard_normal((sizes["words"], sizes["dimensions"]), dtype=np.float32)
    matrix[:, :3] += labels[:, None]
    np.savez(folder / "labelled.npz", matrix=matrix, labels=labels)
    _prepare_inlp(folder)
    _prepare_ran(folder)


def _prepare_inlp(folder: Path) -> None:
    """Write the words that INLP is trained on, with their classes."""
    import numpy as np

    import evenhand as eh

    vectors, method = eh.Vectors.default(), _inlp_method()
    labelled = method._labelled(vectors, eh.concept("gender"))
    fit = labelled.parts[0]
    np.savez(folder / "inlp.npz", x=labelled.matrix(vectors)[fit], y=labelled.y[fit])


def _prepare_ran(folder: Path) -> None:
    """Write some of the words that RAN moves, and the weights of its objective."""
    import numpy as np

    import evenhand as eh
    from evenhand.arrays import unit_rows
    from evenhand.mitigations import RAN

    vectors = eh.Vectors.default().head(RAN_WORDS)
    fitted = RAN(steps=1).fit(vectors, eh.concept("gender"))
    moved = np.flatnonzero(np.abs(fitted(vectors).matrix - unit_rows(vectors.matrix)).max(axis=1) > 1e-4)
    rows = np.random.default_rng(0).choice(moved, RAN_TIMED, replace=False)
    task = {"rows": rows.tolist(), "weights": fitted.report["weights"], "count": int(fitted.report["words_in_table"])}
    (folder / "ran.json").write_text(json.dumps(task))


def _inlp_method():  # type: ignore[no-untyped-def]
    from evenhand.mitigations import INLP

    return INLP(variant="released", iterations=ROUNDS, per_class=PER_CLASS, neutral=PER_CLASS)


def _labelled(folder: Path):  # type: ignore[no-untyped-def]
    import numpy as np

    with np.load(folder / "labelled.npz") as found:
        return found["matrix"], found["labels"]


def _leace(folder: Path) -> Call:
    import numpy as np

    from evenhand.mitigations.erasure.leace import Statistics

    matrix, labels = _labelled(folder)

    def call() -> list[float]:
        statistics = Statistics(matrix.shape[1], 2).update(matrix.astype(np.float64), labels)
        return [float(value) for value in statistics.eraser()(matrix)[:3, :10].ravel()]

    return call


def _concept_erasure(folder: Path) -> Call:
    import torch
    from concept_erasure import LeaceEraser

    matrix, labels = map(torch.from_numpy, _labelled(folder))
    return lambda: [float(value) for value in LeaceEraser.fit(matrix, labels)(matrix)[:3, :10].ravel()]


def _inlp(folder: Path) -> Call:
    import sklearn.svm  # noqa: F401

    import evenhand as eh

    vectors, method, gender = eh.Vectors.default(), _inlp_method(), eh.concept("gender")
    return lambda: float(method.fit(vectors, gender).report["rank_removed"])


def _inlp_loop(folder: Path) -> Call:
    """The loop as it is published: train on the projected vectors, project on, with scikit-learn and scipy."""
    import numpy as np
    from scipy.linalg import orth
    from sklearn.svm import LinearSVC

    with np.load(folder / "inlp.npz") as found:
        x, y = found["x"], found["y"]

    def call() -> float:
        rows: list[np.ndarray] = []
        projected = x
        for _ in range(ROUNDS):
            weights = LinearSVC(C=1.0, fit_intercept=False, max_iter=10_000).fit(projected, y).coef_
            rows.append(orth(weights.T).T)
            basis = orth(np.vstack(rows).T)
            projected = x - (x @ basis) @ basis.T
        return float(basis.shape[1])

    return call


def _ran(folder: Path) -> Call:
    import evenhand as eh
    from evenhand.mitigations import RAN

    vectors, gender = eh.Vectors.default().head(RAN_WORDS), eh.concept("gender")
    task = json.loads((folder / "ran.json").read_text())

    def call() -> list[float]:
        matrix = RAN().fit(vectors, gender)(vectors).matrix
        return [float(value) for row in task["rows"] for value in matrix[row, :3]]

    return call


def _ran_loop(folder: Path) -> Call:
    """One word at a time by torch's Adam, as the released code does it."""
    import numpy as np
    import torch  # noqa: F401

    import evenhand as eh
    from evenhand.arrays import unit_rows

    vectors = eh.Vectors.default().head(RAN_WORDS)
    task = json.loads((folder / "ran.json").read_text())
    unit = unit_rows(vectors.matrix)
    pairs = [pair for pair in eh.concept("gender").pairs if set(pair) != {"mary", "john"}]
    g = eh.subspaces.pairs(vectors, pairs, normalise=True).basis[0]
    off = unit_rows(unit - np.outer(unit @ g, g))

    def call() -> list[float]:
        found: list[float] = []
        for row in task["rows"]:
            dots = unit @ unit[row]
            order = [other for other in np.argsort(-dots)[:200] if other != row][:199]
            hits = [other for other in order if (dots[other] - off[other] @ off[row]) / dots[other] >= 0.05][:100]
            found += one_word(unit[row], unit[hits], g, task["weights"])[:3].tolist()
        return found

    return call


def one_word(w, near, g, weights: list[float]):  # type: ignore[no-untyped-def]
    """300 Adam steps for one word: repelled by its neighbours, held by itself, pushed off the direction."""
    import torch

    l1, l2, l3 = weights
    x = torch.tensor(w, requires_grad=True)
    others, own, along = torch.tensor(near), torch.tensor(w), torch.tensor(g)
    adam = torch.optim.Adam([x], lr=0.01)
    for _ in range(300):
        length = x.norm()
        away = (others @ x / length).abs().mean() if len(near) else 0.0
        loss = l1 * away + l2 * (1 - own @ x / length) / 2 + l3 * (x @ along).abs()
        adam.zero_grad()
        loss.backward()
        adam.step()
    return (x / x.norm()).detach().numpy()


def _covariance(sizes: Sizes) -> Work:
    flop = 2.0 * sizes["words"] * sizes["dimensions"] ** 2
    return Work(flop=flop, why="the covariance matrix, in single precision")


OPERATIONS = {
    "leace": Operation(
        "LEACE, fit and application, {words} x {dimensions}",
        _leace,
        _concept_erasure,
        "concept-erasure",
        "concept-erasure 0.2.4",
        tolerance=1e-3,
        work=_covariance,
        growth=("words", "dimensions"),
        warm=True,
    ),
    "inlp": Operation(
        f"INLP, {ROUNDS} rounds, 3 classes of {PER_CLASS:,} words x 300",
        _inlp,
        _inlp_loop,
        peer_name="a loop over scikit-learn's LinearSVC",
        tolerance=0.0,
    ),
    "ran": Operation(
        f"RAN on {RAN_WORDS:,} words",
        _ran,
        _ran_loop,
        peer_name="torch's Adam, one word at a time",
        share=lambda _: RAN_TIMED / RAN_WORDS,
        extrapolated=f"{RAN_TIMED} words timed",
        tolerance=1e-4,
    ),
}
