"""LEACE against the package of its authors."""

from pathlib import Path

from operation import Call, Operation, Sizes, Work

ABOUT = "SYNTHETIC: random vectors with two classes, shifted in three coordinates"
SIZES = {"words": 20_000, "dimensions": 300}
GROWTH = {"words": 4_000, "dimensions": 50}
TINY = {"words": 2_000, "dimensions": 20}


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write labelled vectors."""
    import numpy as np

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, sizes["words"])
    matrix = rng.standard_normal((sizes["words"], sizes["dimensions"]), dtype=np.float32)
    matrix[:, :3] += labels[:, None]
    np.savez(folder / "labelled.npz", matrix=matrix, labels=labels)


def _labelled(folder: Path):  # type: ignore[no-untyped-def]
    import numpy as np

    with np.load(folder / "labelled.npz") as found:
        return found["matrix"], found["labels"]


def _leace(folder: Path) -> Call:
    from evenhand.mitigations.erasure.leace import Statistics

    matrix, labels = _labelled(folder)

    def call() -> list[float]:
        statistics = Statistics(matrix.shape[1], 2).update(matrix, labels)
        return [float(value) for value in statistics.eraser()(matrix)[:3, :10].ravel()]

    return call


def _concept_erasure(folder: Path) -> Call:
    import torch
    from concept_erasure import LeaceEraser

    matrix, labels = map(torch.from_numpy, _labelled(folder))
    # By default the package shrinks the covariance, as ours does with shrinkage=True.
    return lambda: [float(value) for value in LeaceEraser.fit(matrix, labels, shrinkage=False)(matrix)[:3, :10].ravel()]


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
}
