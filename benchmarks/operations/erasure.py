"""Concept erasure: LEACE against the package of its authors."""

from pathlib import Path

from operation import Call, Operation

WORDS, DIM = 22_500, 300


def prepare(folder: Path, scale: int) -> None:
    """Write labelled vectors: random numbers with three shifted coordinates (SYNTHETIC)."""
    import numpy as np

    rng = np.random.default_rng(0)
    count = WORDS * scale // 8
    labels = rng.integers(0, 2, count)
    matrix = rng.standard_normal((count, DIM)).astype(np.float32)
    matrix[:, :3] += labels[:, None]
    np.savez(folder / "labelled.npz", matrix=matrix, labels=labels)


def _arrays(folder: Path):  # type: ignore[no-untyped-def]
    import numpy as np

    with np.load(folder / "labelled.npz") as found:
        return found["matrix"], found["labels"]


def _leace(folder: Path) -> Call:
    import numpy as np

    from evenhand.mitigations.erasure.leace import Statistics

    matrix, labels = _arrays(folder)

    def call() -> float:
        statistics = Statistics(matrix.shape[1], 2).update(matrix.astype(np.float64), labels)
        return float(statistics.eraser()(matrix)[0, 5])

    return call


def _concept_erasure(folder: Path) -> Call:
    import torch
    from concept_erasure import LeaceEraser

    matrix, labels = map(torch.from_numpy, _arrays(folder))
    return lambda: float(LeaceEraser.fit(matrix, labels)(matrix)[0, 5])


OPERATIONS = {
    "leace": Operation(
        f"LEACE, fit and application, {WORDS:,} x {DIM}",
        _leace,
        _concept_erasure,
        "concept-erasure",
        "concept-erasure 0.2.4",
        tolerance=1e-3,
        growth="words",
    ),
}
