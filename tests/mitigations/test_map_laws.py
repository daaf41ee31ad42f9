"""Laws that every map, or every map of a family, obeys on any input."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.mitigations.maps import (
    Affine,
    DropCoordinates,
    Encoder,
    ExceptLongVectors,
    ExceptWords,
    LowRank,
    PlaneRotation,
    RowNormalise,
    SoftProjection,
    VectorMap,
    WordTable,
)
from evenhand.models.vectors import Vectors

DIM, ROWS = 5, 7
WORDS = [f"w{i}" for i in range(ROWS)]
seeds = st.integers(0, 2**32 - 1)


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def orthonormal(seed: int, k: int, dim: int = DIM) -> np.ndarray:
    return np.linalg.qr(numbers(seed, dim, k))[0].T


KINDS = {
    "projection": lambda s: SoftProjection(orthonormal(s, 2)),
    "soft": lambda s: SoftProjection(orthonormal(s, 2), np.random.default_rng(s).uniform(0, 1, 2)),
    "affine": lambda s: Affine(numbers(s, DIM, DIM), numbers(s + 1, DIM)),
    "low-rank": lambda s: LowRank(numbers(s, DIM, 2), numbers(s + 1, 2, DIM), numbers(s + 2, DIM)),
    "rotation": lambda s: PlaneRotation.between(numbers(s, DIM), numbers(s + 1, DIM)),
    "encoder": lambda s: Encoder(numbers(s, DIM, DIM), numbers(s + 1, DIM)),
    "normalise": lambda s: RowNormalise(),
    "table": lambda s: WordTable({"w1": numbers(s, DIM), "w4": numbers(s + 1, DIM)}),
    "except": lambda s: ExceptWords(SoftProjection(orthonormal(s, 1)), ["w0", "w5"]),
    "except-long": lambda s: ExceptLongVectors(SoftProjection(orthonormal(s, 1)), 2.0),
    "drop": lambda s: DropCoordinates([s % DIM], DIM),
}
maps = st.builds(lambda kind, seed: KINDS[kind](seed), st.sampled_from(sorted(KINDS)), seeds)
same_dim = maps.filter(lambda vm: vm.out_dim == DIM or vm.out_dim is None)
rows = st.builds(lambda seed, scale: numbers(seed, ROWS, DIM) * scale, seeds, st.sampled_from([1e-3, 1.0, 50.0]))


@given(seeds, rows)
def test_a_projection_is_idempotent_symmetric_and_never_lengthens(seed: int, x: np.ndarray) -> None:
    vm = KINDS["projection"](seed)
    once = vm(x)
    assert np.allclose(vm(once), once, atol=1e-12 * np.abs(x).max())
    assert np.allclose(once @ x.T, x @ once.T, atol=1e-10 * np.abs(x).max() ** 2)
    assert (np.linalg.norm(once, axis=1) <= np.linalg.norm(x, axis=1) * (1 + 1e-12)).all()


@given(seeds, st.floats(0.05, 0.95), rows)
def test_a_soft_projection_shrinks_but_is_not_idempotent(seed: int, weight: float, x: np.ndarray) -> None:
    basis = orthonormal(seed, 1)
    vm = SoftProjection(basis, [weight])
    assert np.allclose(vm(x) @ basis.T, (1 - weight) * (x @ basis.T))
    assert np.allclose(vm(vm(x)) @ basis.T, (1 - weight) ** 2 * (x @ basis.T))
    assert (np.linalg.norm(vm(x), axis=1) <= np.linalg.norm(x, axis=1) * (1 + 1e-12)).all()


@given(seeds, seeds, rows)
def test_a_projection_turns_with_the_space(seed: int, turn: int, x: np.ndarray) -> None:
    rotation = orthonormal(turn, DIM)
    basis = orthonormal(seed, 2)
    assert np.allclose(SoftProjection(basis @ rotation)(x @ rotation), SoftProjection(basis)(x) @ rotation, atol=1e-10)


@given(maps, rows)
def test_array_vectors_and_blocks_agree_and_nothing_is_written_into(vm: VectorMap, x: np.ndarray) -> None:
    narrow = x.astype(np.float32)
    before = narrow.copy()
    v = Vectors(WORDS, narrow)
    whole = vm(narrow, WORDS)
    assert whole.dtype == np.float32
    assert np.array_equal(vm(v).matrix, whole)
    assert np.array_equal(narrow, before)
    for row, word in enumerate(WORDS):
        assert np.allclose(vm(narrow[row], word), whole[row], rtol=1e-5, atol=1e-6)


@given(maps, rows)
def test_tensor_and_array_agree(vm: VectorMap, x: np.ndarray) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: models)")
    tensor = torch.tensor(x)
    assert np.allclose(vm(tensor, WORDS).numpy(), vm(x, WORDS), rtol=1e-9, atol=1e-12)
    assert np.array_equal(tensor.numpy(), x)


@given(same_dim, maps, rows)
def test_composition_is_one_after_the_other(first: VectorMap, second: VectorMap, x: np.ndarray) -> None:
    assert np.allclose((second @ first)(x, WORDS), second(first(x, WORDS), WORDS), rtol=1e-12)


@given(same_dim, same_dim, maps)
def test_composition_is_associative(a: VectorMap, b: VectorMap, c: VectorMap) -> None:
    assert (c @ b) @ a == c @ (b @ a)


@given(maps, rows)
def test_a_map_with_a_matrix_is_that_matrix(vm: VectorMap, x: np.ndarray) -> None:
    if vm.is_linear:
        matrix, bias = vm.to_matrix()
        assert np.allclose(vm(x), x @ matrix + bias, atol=1e-9 * np.abs(x).max())
        assert vm.rank_removed == DIM - np.linalg.matrix_rank(matrix)


@given(same_dim, maps, rows)
def test_a_linear_chain_is_the_product_of_its_matrices(first: VectorMap, second: VectorMap, x: np.ndarray) -> None:
    chain = second @ first
    if chain.is_linear:
        matrix, bias = chain.to_matrix()
        assert np.allclose(chain(x), x @ matrix + bias, atol=1e-8 * max(1.0, np.abs(x).max()))


@given(same_dim, maps)
def test_saving_and_loading_is_the_identity(first: VectorMap, second: VectorMap) -> None:
    with TemporaryDirectory() as folder:
        for vm in (second, second @ first):
            assert VectorMap.load(vm.save(Path(folder) / "map")) == vm


@given(seeds, rows)
def test_a_plane_rotation_keeps_lengths_and_opposites(seed: int, x: np.ndarray) -> None:
    vm = KINDS["rotation"](seed)
    assert np.allclose(np.linalg.norm(vm(x), axis=1), np.linalg.norm(x, axis=1), rtol=1e-10)
    assert np.allclose(vm(-x), -vm(x), atol=1e-10 * np.abs(x).max())
    assert np.allclose(vm(3 * x), 3 * vm(x), atol=1e-10 * np.abs(x).max())


@given(seeds)
def test_a_plane_rotation_keeps_v1_and_makes_v2_orthogonal(seed: int) -> None:
    v1, v2 = numbers(seed, DIM), numbers(seed + 1, DIM)
    vm = PlaneRotation.between(v1, v2)
    assert np.allclose(vm(v1), v1)
    assert np.allclose(vm(v2) / np.linalg.norm(v2), vm.e)
    assert abs(vm(v1) @ vm(v2)) < 1e-10 * np.linalg.norm(v1) * np.linalg.norm(v2)


@given(seeds, rows, seeds)
def test_a_plane_rotation_is_continuous(seed: int, x: np.ndarray, nudge: int) -> None:
    vm = KINDS["rotation"](seed)
    step = 1e-7 * np.abs(x).max() * numbers(nudge, ROWS, DIM)
    # The turn changes by at most |pi/2 - t'| / min(t', pi - t') for one radian of the plane.
    steepest = 2 + np.pi / min(vm.angle, np.pi - vm.angle)
    moved = np.linalg.norm(vm(x + step) - vm(x), axis=1)
    assert (moved <= 2 * steepest * np.linalg.norm(step, axis=1) + 1e-12).all()
