"""Methods that train: INLP and RAN."""

import json
from pathlib import Path

from operation import Call, Operation, Sizes

ABOUT = "the embedded GloVe vectors (100 dimensions) and the gender lists"
SIZES = {"per_class": 2_000, "words": 3_000}
GROWTH = {"per_class": 400, "words": 500}
TINY = {"per_class": 200, "words": 1_500}
ROUNDS = 5  # of INLP
TIMED = 10  # words of RAN


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write what both sides need of each method."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pairs that the embedded vectors lack
        _prepare_inlp(folder, sizes["per_class"])
        _prepare_ran(folder, sizes["words"])


def _prepare_inlp(folder: Path, per_class: int) -> None:
    """Write the words that INLP is trained on, with their classes."""
    import numpy as np

    import evenhand as eh

    vectors, method = eh.Vectors.default(), _method(per_class)
    labelled = method._labelled(vectors, eh.concept("gender"))
    fit = labelled.parts[0]
    np.savez(folder / "inlp.npz", x=labelled.matrix(vectors)[fit], y=labelled.y[fit], per_class=per_class)


def _prepare_ran(folder: Path, words: int) -> None:
    """Write some of the words that RAN moves, and the weights of its objective."""
    import numpy as np

    import evenhand as eh
    from evenhand.arrays import unit_rows
    from evenhand.mitigations import RAN

    vectors = eh.Vectors.default().head(words)
    fitted = RAN(steps=1).fit(vectors, eh.concept("gender"))
    moved = np.flatnonzero(np.abs(fitted(vectors).matrix - unit_rows(vectors.matrix)).max(axis=1) > 1e-4)
    rows = np.random.default_rng(0).choice(moved, min(TIMED, len(moved)), replace=False)
    task = {"words": words, "rows": rows.tolist(), "weights": fitted.report["weights"]}
    (folder / "ran.json").write_text(json.dumps(task))


def _method(per_class: int):  # type: ignore[no-untyped-def]
    from evenhand.mitigations import INLP

    return INLP(variant="released", iterations=ROUNDS, per_class=per_class, neutral=per_class)


def _inlp(folder: Path) -> Call:
    import numpy as np
    import sklearn.svm  # noqa: F401

    import evenhand as eh

    with np.load(folder / "inlp.npz") as found:
        method = _method(int(found["per_class"]))
    vectors, gender = eh.Vectors.default(), eh.concept("gender")
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

    task = json.loads((folder / "ran.json").read_text())
    vectors, gender = eh.Vectors.default().head(task["words"]), eh.concept("gender")

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

    task = json.loads((folder / "ran.json").read_text())
    vectors = eh.Vectors.default().head(task["words"])
    unit = unit_rows(vectors.matrix)
    g = eh.subspaces.pairs(vectors, eh.concept("gender").pairs, k=1, normalise=True).basis[0]
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


OPERATIONS = {
    "inlp": Operation(
        f"INLP, {ROUNDS} rounds, 3 classes of {{per_class}} words",
        _inlp,
        _inlp_loop,
        peer_name="a loop over scikit-learn's LinearSVC",
        tolerance=0.0,
        growth=("per_class",),
    ),
    "ran": Operation(
        "RAN on {words} words",
        _ran,
        _ran_loop,
        peer_name="torch's Adam, one word at a time",
        share=lambda sizes: TIMED / sizes["words"],
        extrapolated=f"{TIMED} words timed",
        tolerance=2e-3,  # the objective has kinks: the last steps of a word may go either way
        growth=("words",),
    ),
}
