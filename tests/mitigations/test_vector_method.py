"""What a report says of a map: words changed and variance kept, by hand and in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import EvenhandWarning, UsageError
from evenhand.mitigations import vector_method
from evenhand.mitigations.maps import Affine, Chain, DropCoordinates, ExceptWords, RowNormalise, SoftProjection
from evenhand.mitigations.vector_method import map_report
from evenhand.models.vectors import Vectors

FIRST = SoftProjection([[1.0, 0.0]])


def table(rows: object) -> Vectors:
    matrix = np.asarray(rows, dtype=np.float64)
    return Vectors([f"w{number}" for number in range(len(matrix))], matrix, name="toy")


def naive(before: np.ndarray, after: np.ndarray) -> dict[str, object]:
    """Count the rows that differ by more than rounding, and divide the variances."""
    apart = np.linalg.norm(before - after, axis=1) if before.shape == after.shape else np.full(len(before), np.inf)
    return {
        "words_changed": int((apart > 1e-6 * np.linalg.norm(before, axis=1)).sum()),
        "variance_kept": pytest.approx(after.var(axis=0).sum() / before.var(axis=0).sum()),
    }


def test_words_and_variance_by_hand() -> None:
    v = table([[3.0, 1.0], [0.0, 2.0], [-3.0, 1.0], [0.0, 0.0]])
    assert map_report(FIRST, v) == {"words_changed": 2, "variance_kept": pytest.approx(2 / 20)}
    shifted = Affine(np.eye(2), [0.0, 5.0])
    assert map_report(shifted, v) == {"words_changed": 4, "variance_kept": pytest.approx(1.0)}
    assert map_report(ExceptWords(FIRST, ["w0"]), v) == naive(v.matrix, np.array([[3, 1], [0, 2], [0, 1], [0, 0]]))
    assert map_report(DropCoordinates([1]), v)["words_changed"] == 4
    assert map_report(FIRST, table([[1.0, 2.0], [1.0, 2.0]])) == {"words_changed": 2, "variance_kept": 1.0}


@pytest.mark.parametrize("shift", [0.0, 0.5e-6, 2e-6])
def test_a_change_below_rounding_is_none(shift: float) -> None:
    v = table([[1.0, 0.0], [10.0, 0.0], [0.0, 4.0]])
    found = map_report(Affine(np.eye(2) * (1 + shift)), v)["words_changed"]
    assert found == (3 if shift > 1e-6 else 0)


@pytest.mark.parametrize("values", [2, 6, 7, 1000])
def test_blocks_give_the_whole(values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_method, "BLOCK_VALUES", values)
    rng = np.random.default_rng(0)
    v = table(rng.normal(size=(11, 2)) + 3)
    turn = Affine(rng.normal(size=(2, 2)), [1.0, 2.0])
    matrix = v.matrix.astype(np.float64)
    assert map_report(turn, v) == naive(matrix, turn(matrix))


def test_a_map_that_begins_by_scaling_is_compared_at_unit_length() -> None:
    rng = np.random.default_rng(1)
    v = table(rng.normal(size=(9, 2)) * 5)
    unit = v.matrix.astype(np.float64) / np.linalg.norm(v.matrix.astype(np.float64), axis=1)[:, None]
    assert map_report(Chain([RowNormalise(2), FIRST]), v) == naive(unit, FIRST(unit))
    small = table(v.matrix / 5)  # no chain: compared with the vectors as they are
    matrix = small.matrix.astype(np.float64)
    for vm in (RowNormalise(2), Chain([FIRST, RowNormalise(2)])):
        assert map_report(vm, small) == naive(matrix, vm(matrix))


@pytest.mark.parametrize(("words", "measured"), [(10, None), (19, None), (20, 10), (25, 13), (45, 12)])
def test_a_large_table_is_measured_on_blocks_spread_over_it(
    words: int, measured: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_method, "SAMPLE", 10)
    monkeypatch.setattr(vector_method, "BLOCK_VALUES", 2)
    rows = np.random.default_rng(2).normal(size=(words, 2))
    rows[1::2, 0] = 0.0
    found = map_report(FIRST, table(rows))
    step = max(1, words // 10)
    asked = np.arange(words)[::step]
    assert found.get("measured_on") == measured == (None if step == 1 else len(asked))
    changed = np.count_nonzero(rows.astype(np.float32)[asked, 0])
    assert found["words_changed"] == round(changed / len(asked) * words)


def test_a_map_that_keeps_less_than_a_tenth_warns() -> None:
    v = table([[3.0, 1.0], [-3.0, -1.0]])
    assert map_report(FIRST, v)["variance_kept"] == pytest.approx(0.1)
    thin = table([[3.1, 1.0], [-3.1, -1.0]])
    with pytest.warns(
        EvenhandWarning, match=r"keeps only 9\.4 % of the variance of toy \(1 of 2 dimensions removed; below 10 %"
    ):
        map_report(FIRST, thin)
    with pytest.raises(UsageError, match="takes vectors of 2 coordinates, got 3"):
        map_report(FIRST, table(np.eye(3)))
