"""Maps that leave words or long vectors as they are."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.mitigations.maps import (
    Affine,
    Chain,
    DropCoordinates,
    Encoder,
    ExceptLongVectors,
    ExceptWords,
    RowNormalise,
    SoftProjection,
    WordTable,
)
from evenhand.models.vectors import Vectors

V = Vectors(["a", "b", "c"], [[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]])
FIRST = SoftProjection([[1.0, 0.0]])


def test_a_table_replaces_its_words_only() -> None:
    vm = WordTable({"b": [9.0, 8.0], "nowhere": [1.0, 1.0]})
    assert vm(V).matrix.tolist() == [[1.0, 2.0], [9.0, 8.0], [0.0, 0.0]]
    assert vm(V.matrix, V.words).tolist() == vm(V).matrix.tolist()
    assert vm(np.array([5.0, 5.0]), "b").tolist() == [9.0, 8.0]
    assert vm(V.restrict(["a"])).matrix.tolist() == [[1.0, 2.0]]


def test_exempt_words_stay() -> None:
    vm = ExceptWords(FIRST, ["b"])
    assert vm(V).matrix.tolist() == [[0.0, 2.0], [3.0, 4.0], [0.0, 0.0]]
    assert vm.rank_removed == 1
    assert not vm.is_linear


@pytest.mark.parametrize(
    "vm", [WordTable({"b": [9.0, 8.0]}), ExceptWords(FIRST, ["b"]), FIRST @ WordTable({"b": [1, 1]})]
)
def test_maps_that_need_words_refuse_bare_numbers(vm: WordTable) -> None:
    assert vm.needs_words
    with pytest.raises(UsageError, match=r"cannot map bare numbers\n.*Vectors, or pass words="):
        vm(V.matrix)
    with pytest.raises(UsageError, match="2 words for 3 rows"):
        vm(V.matrix, ["a", "b"])
    with pytest.raises(UsageError, match="it treats words differently"):
        vm.to_matrix()
    with pytest.raises(UsageError, match="which a layer does not see"):
        vm.to_torch()


def test_rows_become_unit_and_zero_stays_zero() -> None:
    vm = RowNormalise()
    assert np.allclose(vm(V).matrix, [[1 / np.sqrt(5), 2 / np.sqrt(5)], [0.6, 0.8], [0, 0]])
    assert vm.in_dim is None
    assert vm(np.array([0.0, 0.0, 2.0])).tolist() == [0.0, 0.0, 1.0]
    with pytest.raises(UsageError, match="takes vectors of 3 coordinates, got 2"):
        RowNormalise(3)(V)


def test_coordinates_are_dropped_from_either_end() -> None:
    assert DropCoordinates([-1])(V).matrix.tolist() == [[1.0], [3.0], [0.0]]
    vm = DropCoordinates([0, -1], 4)
    assert vm(np.arange(4.0)).tolist() == [1.0, 2.0]
    assert (vm.in_dim, vm.out_dim, vm.rank_removed) == (4, 2, 2)
    assert DropCoordinates([1, -3], 4).rank_removed == 1  # the same coordinate twice
    with pytest.raises(UsageError, match="no coordinate 4 in 4"):
        DropCoordinates([4], 4)
    with pytest.raises(UsageError, match="all 2 coordinates would be dropped"):
        DropCoordinates([0, 1], 2)
    with pytest.raises(UsageError, match="depends on the dimension"):
        DropCoordinates([0]).to_matrix()


def test_the_encoder_by_hand() -> None:
    vm = Encoder([[1.0], [2.0]], [0.5])
    assert vm(np.array([1.0, 1.0])) == pytest.approx([np.tanh(3.5)])
    assert (vm.in_dim, vm.out_dim, vm.rank_removed) == (2, 1, 1)
    with pytest.raises(UsageError, match="columns of the weight and bias"):
        Encoder(np.eye(2), [1.0])


def test_misuse_is_named() -> None:
    with pytest.raises(UsageError, match="at least one word"):
        WordTable({})
    with pytest.raises(UsageError, match="regular array"):
        WordTable({"a": [1.0], "b": [1.0, 2.0]})
    with pytest.raises(UsageError, match="'she'"):
        ExceptWords(FIRST, "she")
    for changes in (DropCoordinates([0], 2), DropCoordinates([0])):
        with pytest.raises(UsageError, match="changes the dimension"):
            ExceptWords(changes, ["a"])


LONG_VECTORS_FIRST = SoftProjection(np.array([[1.0, 0.0]]))


def test_long_rows_stay_and_others_are_mapped() -> None:
    found = ExceptLongVectors(LONG_VECTORS_FIRST, 5.0)(np.array([[3.0, 4.0], [3.0, 4.1], [1.0, 0.0]]))
    assert found.tolist() == [[0.0, 4.0], [3.0, 4.1], [0.0, 0.0]]


def test_it_is_not_linear_and_names_its_limit() -> None:
    limited = ExceptLongVectors(LONG_VECTORS_FIRST, 5.0)
    assert not limited.is_linear
    assert (limited.norm_limit, limited.within_limit, limited.rank_removed) == (5.0, LONG_VECTORS_FIRST, 1)
    assert (LONG_VECTORS_FIRST.norm_limit, LONG_VECTORS_FIRST.within_limit) == (None, LONG_VECTORS_FIRST)
    assert limited.digest != ExceptLongVectors(LONG_VECTORS_FIRST, 6.0).digest
    with pytest.raises(UsageError, match="not linear"):
        limited.to_matrix()


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_is_a_positive_number(limit: float) -> None:
    with pytest.raises(UsageError, match="positive number"):
        ExceptLongVectors(LONG_VECTORS_FIRST, limit)


def test_the_dimension_must_stay() -> None:
    with pytest.raises(UsageError, match="changes the dimension"):
        ExceptLongVectors(DropCoordinates([0], 3), 1.0)


def test_dimensions_and_parts_of_chains() -> None:
    turn, drop, scale = Affine([[0.0, 1.0], [1.0, 0.0]], [1.0, 2.0]), DropCoordinates([0]), RowNormalise()
    chain = Chain([scale, Chain([turn, drop])])
    assert chain.parts == (scale, turn, drop)
    assert (chain.in_dim, chain.out_dim, chain.is_linear, chain.needs_words) == (2, 1, False, False)
    assert (Chain([drop, turn]).in_dim, Chain([scale, scale]).in_dim, Chain([scale, drop]).in_dim) == (None, None, None)
    assert (Chain([scale, drop]).out_dim_of(5), Chain([drop, drop]).out_dim_of(5)) == (4, 3)
    assert Chain([RowNormalise(2), turn]).in_dim == 2
    assert Chain([turn, WordTable({"a": [1.0, 2.0]})]).needs_words
    matrix, bias = Chain([turn, Affine([[1.0], [3.0]], [5.0])]).to_matrix()
    assert (matrix.tolist(), bias.tolist()) == ([[3.0], [1.0]], [12.0])
    assert Chain([turn, DropCoordinates([0], 2)]).rank_removed == 1
    first, second = SoftProjection([[1.0, 0.0, 0.0]]), SoftProjection([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert (Chain([first, second]).rank_removed, Chain([first, RowNormalise(), second]).rank_removed) == (2, 2)
    for parts in ([DropCoordinates([0], 2), turn], [turn, DropCoordinates([0]), turn], [RowNormalise(3), turn]):
        with pytest.raises(UsageError, match="coordinates, but"):
            Chain(parts)
    with pytest.raises(UsageError, match="at least one map"):
        Chain([])


def test_tables_and_exempt_words_row_by_row() -> None:
    table = WordTable({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    x = np.zeros((4, 2))
    assert table(x, ["b", "x", "a", "b"]).tolist() == [[3, 4], [0, 0], [1, 2], [3, 4]]
    assert not x.any()
    assert table(x[:1], ["x"]).tolist() == [[0.0, 0.0]]
    assert (table.in_dim, table.out_dim, table.rank_removed) == (2, 2, 0)
    assert WordTable.from_state(table.state()) == table
    spared = ExceptWords(SoftProjection([[1.0, 0.0]]), ["a", "c"])
    assert spared(np.ones((3, 2)), ["a", "b", "c"]).tolist() == [[1, 1], [0, 1], [1, 1]]
    assert spared(np.ones((1, 2)), ["b"]).tolist() == [[0, 1]]
    assert (spared.in_dim, spared.out_dim_of(2), spared.needs_words, spared.rank_removed) == (2, 2, True, 1)
    assert ExceptLongVectors(table, 1.0).needs_words
    assert not ExceptLongVectors(SoftProjection([[1.0, 0.0]]), 1.0).needs_words
    assert ExceptWords(RowNormalise(), ["a"]).in_dim is None


def test_the_report_of_a_chain_names_its_methods() -> None:
    one, two = SoftProjection([[1.0, 0.0]]).with_report(method="linear"), RowNormalise().with_report(method="hard")
    assert dict(Chain([one, two]).report) == {
        "method": "linear.hard",
        "chain": [{"method": "linear"}, {"method": "hard"}],
    }
    assert dict(Chain([RowNormalise(), SoftProjection([[1.0, 0.0]])]).report) == {}
    assert Chain([one, RowNormalise()]).report["method"] == "linear.row-normalise"
