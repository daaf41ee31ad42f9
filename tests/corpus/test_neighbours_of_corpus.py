"""The matrices of the words near each hit against loops over positions."""

import itertools

import numpy as np
import pytest

from evenhand.corpus.counting import neighbours as module
from evenhand.corpus.counting.neighbours import Neighbours, _scan, decay_neighbours, window_neighbours
from evenhand.corpus.counting.windows import blocks

GROUPS = np.array([0, 1], dtype=np.int8)  # of the group words 1 and 2; 3 to 6 are scored, 7 is not
FIRST, WORDS = 3, 4


def text(seed, size=60):
    draw = np.random.default_rng(seed)
    return draw.choice(8, size=size, p=[0.06, 0.1, 0.1, 0.15, 0.15, 0.15, 0.15, 0.14])


def stream(ids, seed):
    draw = np.random.default_rng(seed)
    return blocks(iter([*np.split(ids, np.sort(draw.integers(0, len(ids), size=seed * 3))), np.array([0])]), GROUPS)


def documents(ids):
    return np.concatenate([[0], np.cumsum(ids == 0)[:-1]])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("window", [1, 3, 100])
@pytest.mark.parametrize("pairs", [1, 20, 1 << 23])
def test_each_column_has_the_words_in_the_window_of_a_hit(monkeypatch, seed, window, pairs):
    monkeypatch.setattr(module, "PAIRS", pairs)
    ids = text(seed)
    number, hits = documents(ids), np.flatnonzero((ids == 1) | (ids == 2))
    near, width = np.zeros((WORDS, len(hits)), dtype=int), np.zeros(len(hits), dtype=int)
    for column, hit in enumerate(hits):
        for p, word in enumerate(ids):
            if p != hit and abs(p - hit) <= window and number[p] == number[hit] and word:
                width[column] += 1
                if FIRST <= word < FIRST + WORDS:
                    near[word - FIRST, column] += 1
    found_near, found_width = np.zeros_like(near), np.zeros_like(width)
    parts = list(window_neighbours(stream(ids, seed), window, FIRST, WORDS))
    for part in parts:
        place = slice(part.first, part.first + part.hits)
        assert part.near.shape == (WORDS, part.hits)
        found_near[:, place] += part.near.toarray()
        found_width[place] += part.width
    assert found_near.tolist() == near.tolist()
    assert found_width.tolist() == width.tolist()
    assert sum(part.pairs for part in parts) >= np.count_nonzero(near)
    if pairs == 1 << 23:
        assert len(parts) == 1
        assert parts[0].pairs == np.count_nonzero(near)
    labels = np.random.default_rng(seed).integers(3, size=(4, len(hits))).astype(np.int8)
    total = sum(part.sums(labels[:, part.first : part.first + part.hits], 3) for part in parts)
    for row in range(4):
        for group in range(3):
            chosen = labels[row] == group
            inside = near[:, chosen].sum(axis=1)
            assert total[row, group].tolist() == [*inside, width[chosen].sum() - inside.sum()]
    assert total.dtype == np.int64


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("decay", [0.5, 0.9])
def test_weights_reach_to_the_nearest_hit_on_each_side(seed, decay):
    ids = text(seed)
    number, hits = documents(ids), np.flatnonzero((ids == 1) | (ids == 2))
    right, left = np.zeros((WORDS + 1, len(hits))), np.zeros((WORDS + 1, len(hits)))
    for p, word in enumerate(ids):
        row = word - FIRST if FIRST <= word < FIRST + WORDS else WORDS
        before = [h for h in hits if h < p and number[h] == number[p]]
        behind = [h for h in hits if h > p and number[h] == number[p]]
        if word and before:
            right[row, list(hits).index(before[-1])] += decay ** (p - before[-1])
        if word and behind:
            left[row, list(hits).index(behind[0])] += decay ** (behind[0] - p)
    (found,) = decay_neighbours(stream(np.minimum(ids, 7), seed), decay, FIRST, WORDS, most=1 << 20)
    assert found.right.toarray() == pytest.approx(right)
    assert found.left.toarray() == pytest.approx(left)
    gaps = [decay ** (b - a) if number[a] == number[b] else 0 for a, b in itertools.pairwise(hits)]
    assert found.ratio == pytest.approx([0, *gaps])
    assert (found.hits, found.first) == (len(hits), 0)
    assert found.pairs == found.right.nnz + found.left.nnz


def test_weights_are_kept_up_to_the_limit():
    ids = np.array([1, 3, 2, 0])  # 3 beside both, and 1 and 2 beside each other: two weights on each side
    assert decay_neighbours(blocks(iter([ids]), GROUPS), 0.5, FIRST, WORDS, most=4) is not None
    assert decay_neighbours(blocks(iter([ids]), GROUPS), 0.5, FIRST, WORDS, most=3) is None


def test_a_text_without_blocks_or_hits_has_no_neighbours():
    assert list(window_neighbours(iter([]), 2, FIRST, WORDS)) == []
    (part,) = window_neighbours(blocks(iter([np.array([3, 4, 0])]), GROUPS), 2, FIRST, WORDS)
    assert (part.hits, part.pairs) == (0, 0)
    for ids in ([], [np.array([3, 4, 0])]):
        (found,) = decay_neighbours(blocks(iter(ids), GROUPS), 0.5, FIRST, WORDS, most=9)
        assert (found.hits, found.pairs, found.right.shape) == (0, 0, (WORDS + 1, 0))
        assert found.sums(np.empty((2, 0), dtype=np.int8), 2).tolist() == [[[0] * 5] * 2] * 2


@pytest.mark.parametrize("limit", [1, 6, 7, 1 << 24])
def test_counts_are_exact_in_either_precision(monkeypatch, limit):
    from scipy.sparse import csr_array

    monkeypatch.setattr(module, "SINGLE", limit)
    big = (1 << 24) + 1 if limit == 1 else 3
    part = Neighbours(csr_array(np.array([[big, 2]])), np.array([big + 1, 2]), 0)
    assert part.sums(np.array([[0, 1], [0, 0]], dtype=np.int8), 2).tolist() == [
        [[big, 1], [2, 0]],
        [[big + 2, 1], [0, 0]],
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9, 17])
def test_a_scan_is_its_recursion(size):
    draw = np.random.default_rng(size)
    own, ratio = draw.integers(0, 2, (size, 3)).astype(float), draw.random(size)
    ratio[0] = 0
    if size > 5:
        ratio[4] = 0
    expected, last = [], np.zeros(3)
    for row, factor in zip(own, ratio, strict=True):
        last = row + factor * last
        expected.append(last)
    assert _scan(own, ratio) == pytest.approx(np.array(expected))
