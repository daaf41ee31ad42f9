"""Co-occurrences with groups against loops over all pairs of positions, however the text is divided into blocks."""

import numpy as np
import pytest

from evenhand.corpus.counting.windows import (
    Decay,
    FixedWindow,
    FoldCounts,
    FoldSums,
    SparseSum,
    Sums,
    TokenBlock,
    blocks,
    empty_block,
    merge_folds,
    sparse_sum,
    stretches,
)

GROUPS = np.array([0, 0, 1], dtype=np.int8)  # of the group words 1, 2 and 3
WORDS = 9


def text(seed, size=70):
    """Return random token ids in which 0 closes documents; some documents are empty, the last is open."""
    draw = np.random.default_rng(seed)
    ids = draw.choice(WORDS, size=size, p=[0.08, 0.08, 0.05, 0.07, *[0.144] * 5])
    ids[30:32] = 0
    ids[-1] = 5
    return ids.astype(np.intp)


def parts(ids, seed):
    """Divide ids at random places; some parts are empty."""
    draw = np.random.default_rng(seed)
    return np.split(ids, np.sort(draw.integers(0, len(ids) + 1, size=draw.integers(0, 25))))


def documents(ids):
    """Return for each position its document and its place in that."""
    number = np.concatenate([[0], np.cumsum(ids == 0)[:-1]])
    place = np.array([at - np.flatnonzero(number == document)[0] for at, document in enumerate(number)])
    return number, place


def naive(ids, weight, unit, folds, first):
    """Return (groups, words) and (groups, folds, words) sums, and (groups, folds) hits."""
    number, place = documents(ids)
    units = number + place // unit
    total, by_fold = np.zeros((2, WORDS)), np.zeros((2, folds, WORDS))
    hits = np.zeros((2, folds), dtype=int)
    for p, word in enumerate(ids):
        fold = (units[p] + first) % folds
        if 1 <= word <= 3:
            hits[GROUPS[word - 1], fold] += 1
        for q, hit in enumerate(ids):
            if p != q and number[p] == number[q] and word != 0 and 1 <= hit <= 3:
                total[GROUPS[hit - 1], word] += weight(abs(p - q))
                by_fold[GROUPS[hit - 1], fold, word] += weight(abs(p - q))
    return total, by_fold, hits


KERNELS = {
    "window 1": (lambda: FixedWindow(1, 2), lambda d: d <= 1),
    "window 4": (lambda: FixedWindow(4, 2), lambda d: d <= 4),
    "window 200": (lambda: FixedWindow(200, 2), lambda d: True),
    "decay": (lambda: Decay(0.8, 2), lambda d: 0.8**d),
}


@pytest.mark.parametrize("unit", [7, 1 << 40])
@pytest.mark.parametrize("name", KERNELS)
def test_sums_are_those_of_all_pairs_of_positions(name, unit):
    make, weight = KERNELS[name]
    for seed in range(6):
        ids = text(seed)
        kernel = make()
        plain, sums = Sums(1, 2, kernel.dtype), FoldSums(2, kernel.dtype, folds=5, first=2, unit=unit)
        twin = make()
        for block in blocks(iter([*parts(ids, seed), np.zeros(1, dtype=np.intp)]), GROUPS):
            kernel.feed(block, sums)
            twin.feed(block, plain)
            sums.add_hits(block)
        total, by_fold, hits = naive(np.append(ids, 0), weight, unit, 5, 2)
        found = sums.by_fold(WORDS)
        assert sums.values[0, :, :WORDS] == pytest.approx(total)
        assert plain.values[0, :, :WORDS] == pytest.approx(total)
        assert sums.values.dtype == kernel.dtype
        assert not sums.values[0, :, WORDS:].any()
        assert found.hits.tolist() == hits.tolist()
        assert np.stack([matrix.toarray() for matrix in found.cooccurrence]) == pytest.approx(by_fold)


@pytest.mark.parametrize("name", ["window", "decay"])
def test_several_labellings_are_counted_apart(name):
    ids = text(3)
    hits = np.flatnonzero((ids > 0) & (ids <= 3))
    labels = np.random.default_rng(0).integers(3, size=(4, len(hits))).astype(np.int8)
    kernel = FixedWindow(3, 3, 4) if name == "window" else Decay(0.7, 3, 4)
    sums, number = Sums(4, 3, kernel.dtype), documents(ids)[0]
    start = 0
    for block in blocks(iter(parts(ids, 1)), GROUPS):
        own = labels[:, start : start + len(block.hits)]
        start += len(block.hits)
        kernel.feed(TokenBlock(block.ids, block.ends, block.hits, own, block.document, block.offset), sums)
    kernel.feed(TokenBlock(np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp), hits[:0], labels[:, :0]), sums)
    expected = np.zeros((4, 3, WORDS))
    for row in range(4):
        for hit, group in zip(hits, labels[row], strict=True):
            for p, word in enumerate(ids):
                distance = abs(p - hit)
                if word and distance and number[p] == number[hit] and (name == "decay" or distance <= 3):
                    expected[row, group, word] += 0.7**distance if name == "decay" else 1
    assert sums.values[:, :, :WORDS] == pytest.approx(expected)


def test_blocks_know_their_document_and_what_precedes_them():
    ids = text(1)
    number, place = documents(ids)
    start = 0
    for block in blocks(iter(parts(ids, 3)), GROUPS):
        size = len(block.ids)
        here = ids[start : start + size]
        assert block.ids.tolist() == here.tolist()
        assert block.ends.tolist() == np.flatnonzero(here == 0).tolist()
        assert block.hits.tolist() == np.flatnonzero((here > 0) & (here <= 3)).tolist()
        assert block.labels.tolist() == [GROUPS[here[block.hits] - 1].tolist()]
        if size:
            assert (block.document, block.offset) == (number[start], place[start])
            everywhere = np.arange(size)
            expected = number[start : start + size] + place[start : start + size] // 4
            assert block.units(everywhere, 4).tolist() == expected.tolist()
            assert block.units(everywhere, 4).dtype == np.int64
        assert block.open_from == (int(np.flatnonzero(here == 0)[-1]) + 1 if (here == 0).any() else 0)
        start += size


def test_blocks_can_be_joined_and_cut():
    ids = text(2)
    one, two = blocks(iter([ids[:40], ids[40:]]), GROUPS)
    (whole,) = blocks(iter([ids]), GROUPS)
    joined = two.after(one)
    for name in ("ids", "ends", "hits", "labels", "document", "offset"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name)), name
    alone = two.after(empty_block(1))
    assert (alone.document, alone.offset) == (two.document, two.offset)
    number, place = documents(ids)
    for start in range(whole.open_from, len(ids)):
        for block, shift in ((whole, 0), (two, 40)):
            if start >= shift and (shift == 0 or start >= 40 + two.open_from):
                rest = block.tail(start - shift)
                assert rest.ids.tolist() == ids[start:].tolist()
                assert not len(rest.ends)
                assert rest.hits.tolist() == [p - start for p in whole.hits if p >= start]
                assert rest.labels.shape == (1, len(rest.hits))
                assert (rest.document, rest.offset) == (number[start], place[start])
    middle = blocks(iter([ids[:3], np.full(5, 6)]), GROUPS)
    first, second = middle
    assert second.offset == 3 - first.open_from
    assert second.tail(2).offset == second.offset + 2


def test_a_window_ends_at_its_document():
    ids = np.array([4, 1, 4, 0, 4, 4, 2, 4, 4, 4])
    (block,) = blocks(iter([ids]), GROUPS)
    low, high = stretches(block, 2)
    assert (low.tolist(), high.tolist()) == ([0, 4], [3, 9])


def test_sums_make_room_and_keep_what_they_have():
    sums = Sums(2, 3, np.int64)
    assert sums.values.shape == (2, 3, 4096)
    sums.add(1, 2, np.array([4, 4095, 4]), np.array([1, 5, 2]))
    sums.make_room(4096)
    assert sums.values.shape == (2, 3, 4096)
    sums.make_room(4097)
    assert sums.values.shape == (2, 3, 8192)
    sums.make_room(50_000)
    assert sums.values.shape == (2, 3, 50_000)
    assert sums.values.sum() == 8
    assert (sums.values[1, 2, 4], sums.values[1, 2, 4095]) == (3, 5)


@pytest.mark.parametrize("rows", [None, 6])
def test_a_sparse_sum_is_the_dense_one(rows):
    draw = np.random.default_rng(4)
    total, dense = SparseSum(rows), np.zeros((rows or 8, 8))
    for size in (1, 0, 30, 2, 2, 5, 1, 1, 40):
        places = draw.integers(0, [[min(rows or 8, 8)], [8]], (2, size))
        values = draw.integers(1, 5, size)
        total.add(*places, values)
        np.add.at(dense, tuple(places), values)
        assert len(total._levels) < 2 or total._levels[-2].nnz >= 2 * total._levels[-1].nnz
    assert total.total(8).toarray().tolist() == dense.tolist()
    assert SparseSum(rows).total(3).shape == (rows or 3, 3)


def test_entries_of_a_sparse_sum_lie_anywhere_in_a_square():
    total = SparseSum()
    total.add(np.array([6]), np.array([2]), np.array([3.0]))
    total.add(np.array([0]), np.array([4]), np.array([1.0]))
    found = total.total(7).toarray()
    assert (found.shape, found[6, 2], found[0, 4], found.sum()) == ((7, 7), 3, 1, 4)


def test_levels_of_a_sparse_sum_that_are_half_as_large_stay_apart():
    total = SparseSum()
    total.add(np.arange(4), np.arange(4), np.ones(4))
    total.add(np.arange(2), np.arange(2), np.ones(2))
    assert [level.nnz for level in total._levels] == [4, 2]
    total.add(np.arange(2), np.arange(2), np.ones(2))
    assert [level.nnz for level in total._levels] == [4, 2]
    total.add(np.arange(2), np.arange(2) + 4, np.ones(2))
    assert [level.nnz for level in total._levels] == [6]


def folded(tables, hits):
    from scipy.sparse import csr_array

    return FoldCounts(tuple(csr_array(np.array(table, dtype=float)) for table in tables), np.array(hits))


def test_folds_of_two_shards_are_added_word_by_word():
    one = folded([[[1, 2], [0, 3]]], [[4, 5]])
    other = folded([[[7, 0, 9], [1, 1, 0]]], [[1, 2]])
    begun = merge_folds(None, one, np.array([1, 0]))
    assert begun.cooccurrence[0].toarray().tolist() == [[2, 1], [3, 0]]
    both = merge_folds(begun, other, np.array([0, 3, 2]))
    assert both.cooccurrence[0].toarray().tolist() == [[9, 1, 9, 0], [4, 0, 0, 1]]
    assert both.hits.tolist() == [[5, 7]]
    assert merge_folds(both, None, np.array([0])) is None
    assert both.widened(6).cooccurrence[0].shape == (2, 6)
    small, large = folded([[[1]]], [[0]]), folded([[[1, 2, 3], [4, 5, 6]]], [[0]])
    assert sparse_sum(small.cooccurrence[0], large.cooccurrence[0]).toarray().tolist() == [[2, 2, 3], [4, 5, 6]]


def test_the_folds_of_a_plain_sum_need_no_units():
    assert (Sums.unit, FoldSums(1, np.int64, folds=2, first=0, unit=9).unit) == (0, 9)
