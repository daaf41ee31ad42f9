from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.mitigations.maps import (
    Affine,
    Chain,
    DropCoordinates,
    RowNormalise,
    SoftProjection,
    VectorMap,
    apply_blocks,
)
from evenhand.mitigations.maps import application as blocks_module
from evenhand.models.vectors import Vectors

FIRST = SoftProjection([[1.0, 0.0]])
TURN = Affine([[0.0, 1.0], [1.0, 0.0]], [0.0, 5.0])
V = Vectors(["a", "b"], [[1.0, 2.0], [3.0, 4.0]], name="toy")


def test_vectors_come_back_with_a_history() -> None:
    w = FIRST.with_report(method="linear", params={"k": 1})(V)
    assert w.matrix.tolist() == [[0.0, 2.0], [0.0, 4.0]]
    assert w.matrix.dtype == np.float32
    (step,) = w.history
    assert step == {"method": "linear", "params": {"k": 1}, "map": "soft-projection", "sha256": FIRST.digest}
    assert V.history == ()
    assert V.matrix.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert [step["method"] for step in TURN(w).history] == ["linear", "affine"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arrays_keep_their_dtype_and_shape(dtype: type) -> None:
    for shape in [(2,), (3, 2), (2, 3, 2), (0, 2)]:
        x = np.ones(shape, dtype=dtype)
        assert FIRST(x).dtype == dtype
        assert FIRST(x).shape == shape
    assert DropCoordinates([0])(np.ones((2, 3, 2), dtype=dtype)).shape == (2, 3, 1)


def test_plain_lists_and_whole_numbers_are_taken() -> None:
    assert FIRST([1, 2]).tolist() == [0.0, 2.0]
    assert FIRST([[1, 2], [3, 4]]).dtype == np.float64


def test_the_input_is_never_changed() -> None:
    x = np.array([[1.0, 2.0]])
    for vm in (FIRST, TURN, RowNormalise(), TURN @ FIRST):
        vm(x)
        assert x.tolist() == [[1.0, 2.0]]


def test_the_last_written_is_applied_first() -> None:
    assert (TURN @ FIRST)(V).matrix.tolist() == [[2.0, 5.0], [4.0, 5.0]]
    assert (FIRST @ TURN)(V).matrix.tolist() == [[0.0, 6.0], [0.0, 8.0]]
    assert (FIRST @ TURN @ FIRST).parts == (FIRST, TURN, FIRST)
    assert Chain((FIRST, Chain((TURN,)))) == TURN @ FIRST
    with pytest.raises(TypeError):
        FIRST @ 3


def test_a_chain_knows_its_dimensions_and_rank() -> None:
    vm = DropCoordinates([0], 2) @ FIRST @ RowNormalise()
    assert (vm.in_dim, vm.out_dim) == (2, 1)
    assert (FIRST @ FIRST).rank_removed == 1
    assert (SoftProjection([[0.0, 1.0]]) @ FIRST).rank_removed == 2
    assert (RowNormalise() @ FIRST).rank_removed == 1
    assert Chain([RowNormalise()]).in_dim is None
    with pytest.raises(UsageError, match=r"takes 2 coordinates, but .* before it gives 1"):
        FIRST @ DropCoordinates([0], 2)
    with pytest.raises(UsageError, match="at least one map"):
        Chain([])


def test_equal_numbers_are_equal_maps() -> None:
    assert SoftProjection([[1.0, 0.0]]) == FIRST
    assert SoftProjection([[1.0, 0.0]], report={"method": "x"}) == FIRST
    assert SoftProjection([[1.0, 0.0]], [0.5]) != FIRST
    assert Affine(FIRST.to_matrix()[0]) != FIRST  # another kind, though it does the same
    assert len({FIRST, SoftProjection([[1.0, 0.0]]), TURN}) == 2
    assert FIRST != 3


def test_nobody_can_write_into_it() -> None:
    basis = np.array([[1.0, 0.0]])
    vm = SoftProjection(basis)
    basis[:] = 0
    assert vm == FIRST
    with pytest.raises(AttributeError):
        vm.basis = basis  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        vm.basis[0, 0] = 3


def test_invalid_input_is_named() -> None:
    with pytest.raises(UsageError, match="takes vectors of 2 coordinates, got 3"):
        FIRST(np.ones(3))
    with pytest.raises(UsageError, match="takes vectors of 2 coordinates, got 1"):
        FIRST(Vectors(["a"], [[1.0]]))
    with pytest.raises(UsageError, match="Vectors, numbers in rows, or a tensor"):
        FIRST("nurse")
    with pytest.raises(UsageError, match="Vectors, numbers in rows, or a tensor"):
        FIRST(3.0)
    with pytest.raises(UsageError, match="Vectors have their own words"):
        FIRST(V, ["a", "b"])


def test_repr_says_what_it_does() -> None:
    assert repr(FIRST.with_report(method="linear")) == "SoftProjection(2 -> 2, removes 1, by linear)"
    assert repr(RowNormalise()) == "RowNormalise(any dimension)"
    assert repr(TURN @ FIRST) == "Chain(2 -> 2, removes 1)"


def test_a_chain_names_the_methods_in_it() -> None:
    both = TURN.with_report(method="bam") @ FIRST.with_report(method="linear")
    assert both.step()["method"] == "linear.bam"


def test_blocks_give_the_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    big = np.lib.format.open_memmap(tmp_path / "big.npy", mode="w+", dtype=np.float32, shape=(103, 2))
    big[:] = rng.normal(size=big.shape)
    mapped = list(apply_blocks(TURN, big, rows=10))
    assert [len(block) for block in mapped] == [10] * 10 + [3]
    assert {block.dtype for block in mapped} == {np.dtype(np.float32)}
    assert np.array_equal(np.vstack(mapped), TURN(np.array(big)))
    words = [f"w{i}" for i in range(103)]
    some = Chain([TURN])
    assert np.array_equal(np.vstack(list(apply_blocks(some, big, words, rows=50))), TURN(np.array(big)))


def test_only_one_block_is_widened_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, np.dtype]] = []

    class Spy(Affine):
        def transform(self, x: np.ndarray, at: object, words: object) -> np.ndarray:
            seen.append((len(x), x.dtype))
            return super().transform(x, at, words)  # type: ignore[arg-type]

    monkeypatch.setattr(blocks_module, "BLOCK_VALUES", 40)
    Spy(np.eye(2))(Vectors([str(i) for i in range(50)], np.ones((50, 2))))
    assert seen == [(20, np.dtype(np.float64)), (20, np.dtype(np.float64)), (10, np.dtype(np.float64))]


def test_blocks_check_before_the_first_one() -> None:
    with pytest.raises(UsageError, match="shape"):
        apply_blocks(FIRST, np.ones(2))
    with pytest.raises(UsageError, match="got 3"):
        apply_blocks(FIRST, np.ones((4, 3)))
    with pytest.raises(UsageError, match="rows must be at least 1"):
        apply_blocks(FIRST, np.ones((4, 2)), rows=-1)


def test_mapping_arrays_does_not_import_torch() -> None:
    code = (
        "import sys, numpy as np, evenhand as eh\n"
        "from evenhand.mitigations.maps import SoftProjection\n"
        "SoftProjection([[1.0, 0.0]])(np.ones((3, 2)))\n"
        "eh.mitigations.listing()\n"
        "sys.exit(','.join({'torch', 'sklearn', 'scipy.stats'} & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_family_is_public() -> None:
    import evenhand as eh

    assert eh.VectorMap is VectorMap


def test_writing_block_by_block_equals_applying(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = Vectors([f"w{i}" for i in range(50)], rng.normal(size=(50, 6)))
    vm = SoftProjection(np.eye(6)[:2])
    path = vm.write(vectors, tmp_path / "after.safetensors")
    after = Vectors.load(path)
    assert after == vm(vectors)
    assert after.history == vm(vectors).history


def test_writing_in_blocks_is_for_our_format_only(tmp_path: Path) -> None:
    vectors = Vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(UsageError, match="safetensors"):
        SoftProjection(np.eye(2)[:1]).write(vectors, tmp_path / "after.txt")
    assert not list(tmp_path.iterdir())


class WithWords(Affine):
    """Adds to each row the length of its word."""

    @property
    def needs_words(self) -> bool:
        return True

    def transform(self, x: np.ndarray, at: object, words: object) -> np.ndarray:
        return x + np.array([[len(word)] for word in words])  # type: ignore[attr-defined]


@pytest.mark.parametrize("cores", [None, 1, 3])
def test_several_threads_map_every_row_once(monkeypatch: pytest.MonkeyPatch, cores: int | None) -> None:
    monkeypatch.setattr(blocks_module, "WORTH_THREADS", 20)
    monkeypatch.setattr(blocks_module, "BLOCK_VALUES", 6)
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    pools: list[int] = []
    true_pool = blocks_module.ThreadPoolExecutor
    monkeypatch.setattr(blocks_module, "ThreadPoolExecutor", lambda n: pools.append(n) or true_pool(n))
    for rows in (9, 10, 11):
        x = np.arange(2.0 * rows).reshape(rows, 2)
        words = ["x" * (row % 4) for row in range(rows)]
        assert np.array_equal(WithWords(np.eye(2))(x, words), x + np.array([[row % 4] for row in range(rows)]))
    assert pools == ([3, 3] if cores == 3 else [])


def test_the_size_of_a_block_is_that_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_VALUES", 7)
    assert [len(block) for block in apply_blocks(FIRST, np.ones((8, 2)))] == [3, 3, 2]
    monkeypatch.setattr(blocks_module, "BLOCK_VALUES", 1)
    assert [len(block) for block in apply_blocks(FIRST, np.ones((2, 2)))] == [1, 1]
    assert [len(block) for block in apply_blocks(FIRST, np.ones((3, 2)), rows=1)] == [1, 1, 1]


def test_words_and_shapes_are_checked() -> None:
    with_words = WithWords(np.eye(2))
    assert with_words([1.0, 2.0], "ab").tolist() == [3.0, 4.0]
    assert with_words([[1.0, 2.0]], ["ab"]).tolist() == [[3.0, 4.0]]
    for words, message in ((["a", "b", "c"], "3 words for 1 rows"), (None, "depends on the words")):
        with pytest.raises(UsageError, match=message):
            with_words([[1.0, 2.0]], words)
    assert FIRST([[1.0, 2.0]], ["a"]).tolist() == [[0.0, 2.0]]
    with pytest.raises(UsageError, match="2 words for 1 rows"):
        FIRST([[1.0, 2.0]], ["a", "b"])
    with pytest.raises(UsageError, match="their own words"):
        FIRST(V, ["a", "b"])
    for wrong in (np.float64(3.0), np.array(["a", "b"]), np.array([True, False])):
        with pytest.raises(UsageError, match="a map takes Vectors"):
            FIRST(wrong)
    with pytest.raises(UsageError, match="takes vectors of 2 coordinates, got 3"):
        FIRST(np.empty((0, 3)))
    assert RowNormalise()(np.empty((2, 0, 3), dtype=np.float32)).shape == (2, 0, 3)
    assert FIRST(np.array([1, 2], dtype=np.uint8)).tolist() == [0.0, 2.0]
