"""The words near each hit as sparse matrices: the same sums as counting each labelling on its own."""

from dataclasses import replace

import numpy as np
import pytest

from evenhand import corpus
from evenhand.corpus.counting import neighbours
from evenhand.corpus.counting.neighbours import decay_neighbours, window_neighbours
from evenhand.corpus.counting.windows import Decay, FixedWindow, Sums, blocks

GROUP_WORDS, WORDS, GROUPS, LABELLINGS = 3, 8, 3, 5


def pieces(rng, number):
    """Token ids in arrays of uneven size: 0 closes a document, 1 to 3 are group words, 4 to 11 scored, 12 the rest."""
    for _ in range(number):
        size = int(rng.integers(0, 60))
        yield rng.choice(13, size, p=[0.03, 0.04, 0.03, 0.03, *[0.87 / 9] * 9])


def counted_one_by_one(parts, labels, kernel):
    sums, first = Sums(LABELLINGS, GROUPS, kernel.dtype), 0
    for block in blocks(iter(parts), np.arange(GROUP_WORDS, dtype=np.int8)):
        some = labels[:, first : first + len(block.hits)]
        first += len(block.hits)
        kernel.feed(replace(block, labels=some), sums)
    table = sums.values[:, :, 1 + GROUP_WORDS : 2 + GROUP_WORDS + WORDS].copy()
    table[:, :, -1] += sums.values[:, :, : 1 + GROUP_WORDS].sum(axis=2)
    return table


def summed(found, labels):
    return sum(part.sums(labels[:, part.first : part.first + part.hits], GROUPS) for part in found)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("reach", [1, 3, 40, 0.5, 0.95])
def test_sums_equal_those_of_each_labelling_alone(seed, reach, monkeypatch):
    monkeypatch.setattr(neighbours, "PAIRS", 50)
    rng = np.random.default_rng(seed)
    parts = [*pieces(rng, 12), np.array([0])]
    hits = sum(int(((part > 0) & (part <= GROUP_WORDS)).sum()) for part in parts)
    labels = rng.integers(GROUPS, size=(LABELLINGS, hits)).astype(np.int8)
    stream = blocks(iter(parts), np.arange(GROUP_WORDS, dtype=np.int8))
    if reach >= 1:
        expected = counted_one_by_one(parts, labels, FixedWindow(int(reach), GROUPS, LABELLINGS))
        found = list(window_neighbours(stream, int(reach), 1 + GROUP_WORDS, WORDS))
        assert len(found) > 1
        np.testing.assert_array_equal(summed(found, labels), expected)
    else:
        expected = counted_one_by_one(parts, labels, Decay(reach, GROUPS, LABELLINGS))
        found = decay_neighbours(stream, reach, 1 + GROUP_WORDS, WORDS, most=1 << 20)
        np.testing.assert_allclose(summed(found, labels), expected, rtol=1e-12, atol=0)


def test_a_hand_computed_decay():
    # she a b he c: with decay .5 and both in one group, a has .5 + .25, b .25 + .5, c .0625 + .5.
    ids = np.array([1, 4, 5, 2, 6, 0])
    (found,) = decay_neighbours(blocks(iter([ids]), np.zeros(3, dtype=np.int8)), 0.5, 4, 3, most=100)
    labels = np.array([[0, 0], [0, 1]], dtype=np.int8)
    # The last column is the rest: each of she and he has .125 from the other.
    expected = [[[0.75, 0.75, 0.5625, 0.25], [0, 0, 0, 0]], [[0.5, 0.25, 0.0625, 0.125], [0.25, 0.5, 0.5, 0.125]]]
    np.testing.assert_allclose(found.sums(labels, 2), expected)


def test_too_many_weights_are_not_kept():
    ids = np.array([1, 4, 5, 2, 6, 0])
    assert decay_neighbours(blocks(iter([ids]), np.zeros(3, dtype=np.int8)), 0.5, 4, 3, most=5) is None


def test_counts_beyond_single_precision_are_exact(monkeypatch):
    text = blocks(iter([np.array([1, 4, 2, 4, 0] * 9)]), np.arange(3, dtype=np.int8))
    (found,) = window_neighbours(text, 2, 4, 1)
    labels = np.random.default_rng(0).integers(3, size=(4, found.hits)).astype(np.int8)
    single = found.sums(labels, 3)
    monkeypatch.setattr(neighbours, "SINGLE", 0)
    np.testing.assert_array_equal(found.sums(labels, 3), single)


@pytest.mark.parametrize("reach", [{"window": 3}, {"decay": 0.8}])
def test_a_text_too_large_to_keep_gives_the_same_baseline(reach, monkeypatch):
    rng = np.random.default_rng(0)
    texts = corpus.Texts([" ".join(rng.choice(["she", "he", "a", "b", "c", "d"], 40)) for _ in range(30)])
    groups = {"f": ["she"], "m": ["he"]}
    whole = corpus.bias(texts, groups, permutations=120, **reach).baseline
    monkeypatch.setattr("evenhand.corpus.shuffled_baseline.KEPT", 10)
    again = corpus.bias(texts, groups, permutations=120, **reach).baseline
    assert again.mu == pytest.approx(whole.mu, rel=1e-12)
    assert (again.p_value, again.permutations) == (whole.p_value, whole.permutations)
