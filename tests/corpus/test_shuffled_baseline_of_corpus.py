"""Permuted labels and their mean |bias| against plain recomputation."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from evenhand.corpus import CorpusOptions, Texts
from evenhand.corpus import shuffled_baseline as module
from evenhand.corpus.counting.count import LabelLog, count
from evenhand.corpus.shuffled_baseline import (
    PermutedLabels,
    Relabelling,
    _mean_size,
    _permute_documents,
    draw_relabellings,
    permuted_means,
)
from evenhand.corpus.word_scores import Scorer
from evenhand.errors import DegenerateError
from evenhand.stats.permutation import sequential_test

GROUPS = {"f": ["she"], "m": ["he"], "n": ["they"]}


def log(seed=0, sizes=(5, 1, 3, 3, 8, 2), groups=2):
    draw = np.random.default_rng(seed)
    return LabelLog(draw.integers(groups, size=sum(sizes)).astype(np.int8), np.array(sizes))


def relabelled(given, one):
    """Return the labels of all hits: of a document the stretched and rotated sequence of its donor."""
    found = []
    for document, size in enumerate(given.sizes):
        donor = one.donors[document]
        begin = given.sizes[:donor].sum()
        sequence = given.labels[begin : begin + given.sizes[donor]]
        for place in range(size):
            position = int((place + 0.5) / size * len(sequence) + one.offsets[document]) % len(sequence)
            found.append(int(sequence[position]))
    return found


def test_labels_are_the_stretched_and_rotated_ones_of_the_donor():
    given, draw = log(), np.random.default_rng(1)
    drawn = [Relabelling(draw.permutation(6).astype(np.int32), draw.random(6) * 5) for _ in range(9)]
    expected = [relabelled(given, one) for one in drawn]
    labels = PermutedLabels(given, drawn)
    found = np.concatenate([labels.draw(size) for size in (0, 4, 11, 7)], axis=1)
    assert found.tolist() == expected
    assert found.dtype == np.int8
    assert PermutedLabels(given, drawn, 9).draw(5).tolist() == [row[9:14] for row in expected]
    same = Relabelling(np.arange(6, dtype=np.int32), np.zeros(6))
    assert PermutedLabels(given, [same]).draw(22).tolist() == [given.labels.tolist()]


def permuted(sizes, tries, rng):
    """Return the donors, document by document."""
    number = len(sizes)
    orders = [np.argsort(row, kind="stable") for row in sizes + rng.random((tries, number))]
    firsts = rng.integers(4, size=(tries, 1))
    strata = [[(place + int(first[0])) // 4 for place in range(number)] for first in firsts]
    keys = rng.random((tries, number))
    donors = np.empty((tries, number), dtype=int)
    for row in range(tries):
        for stratum in set(strata[row]):
            places = [place for place in range(number) if strata[row][place] == stratum]
            shuffled = sorted(places, key=lambda place, row=row: keys[row, place])
            for to, source in zip(places, shuffled, strict=True):
                donors[row, orders[row][to]] = orders[row][source]
    return donors


def test_documents_are_permuted_among_four_of_about_as_many_hits():
    sizes = np.array([3, 9, 1, 1, 4, 12, 2, 2, 7, 5, 3])
    found = _permute_documents(sizes, 6, np.random.default_rng(4))
    assert found.tolist() == permuted(sizes, 6, np.random.default_rng(4)).tolist()
    assert found.dtype == np.int32
    for row in found:
        assert sorted(row) == list(range(11))


@pytest.mark.parametrize(
    ("sizes", "most", "tries"), [((5, 1, 3, 3, 8, 2), 6, 10), ((5, 1, 3, 3, 8, 2), 5, 1), ((9,), 6, 1)]
)
def test_the_nearest_of_ten_permutations_is_taken(monkeypatch, sizes, most, tries):
    monkeypatch.setattr(module, "MANY_DOCUMENTS", most)
    given = log(3, sizes, 3)
    found = list(islice(draw_relabellings(given, 3, np.random.default_rng(2)), 5))
    rng = np.random.default_rng(2)
    documents = np.split(given.labels, np.cumsum(sizes)[:-1])
    for one in found:
        distances = []
        donors = _permute_documents(given.sizes, tries, rng)
        for row in donors:
            counts = [
                sum(np.mean(documents[d] == g) * size for d, size in zip(row, sizes, strict=True)) for g in range(3)
            ]
            distances.append(sum(abs(counts[g] - np.sum(given.labels == g)) for g in range(3)))
        best = donors[int(np.argmin(np.round(distances, 9)))]
        assert one.donors.tolist() == best.tolist()
        assert one.offsets == pytest.approx(rng.random(len(sizes)) * given.sizes[best])


def texts(documents=8, seed=0, words=("she", "he", "they", "a", "b", "c", "d", "e"), length=25):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(words, size=length)) for _ in range(documents)]


def scored(documents, groups=GROUPS, **options):
    chosen = CorpusOptions(groups, seed=3, **options)
    source = Texts(documents)
    plan = chosen.plan()
    return source, Scorer(count(source, plan), plan, chosen)


def naive_means(documents, groups, scorer, relabellings, reach):
    """Return mean |bias| of each group under each relabelling, from every pair of positions."""
    owned = {word for words in groups.values() for word in words}
    means = []
    for one in relabellings:
        labels = iter(relabelled(scorer.counts.label_log, one))
        order = scorer.counts.words.to_list()
        near = np.zeros((len(groups), len(order)))
        for words in map(str.split, documents):
            hits = [(p, next(labels)) for p, word in enumerate(words) if word in owned]
            for p, word in enumerate(words):
                for q, label in hits:
                    distance = abs(p - q)
                    if distance:
                        near[label, order.index(word)] += reach(distance)
        scores = [scorer.values(near, group)[scorer.candidates[scorer.met]] for group in range(len(groups))]
        means.append([np.abs(row[np.isfinite(row)]).mean() for row in scores])
    return np.array(means)


REACHES = {
    "window": ({"window": 3}, lambda d: float(d <= 3)),
    "decay": ({"decay": 0.6}, lambda d: 0.6**d),
}


@pytest.mark.parametrize("kept", [0, 200, 1 << 26])
@pytest.mark.parametrize("cells", [1, 1 << 24])
@pytest.mark.parametrize("reach", list(REACHES))
@pytest.mark.parametrize("groups", [GROUPS, {"f": ["she", "they"], "m": ["he"]}])
def test_means_are_those_of_every_pair_of_positions(monkeypatch, kept, cells, reach, groups):
    monkeypatch.setattr(module, "KEPT", kept)
    monkeypatch.setattr(module, "CELLS", cells)
    monkeypatch.setattr(module, "FIRST", 2)
    documents, (options, weight), told = texts(), REACHES[reach], []
    source, scorer = scored(documents, groups, permutations=7, stop_words=("e",), min_count=2, **options)
    observed = np.full(len(groups), 1e9)
    found = permuted_means(source, scorer, observed, progress=lambda *call: told.append(call))
    relabellings = list(islice(draw_relabellings(scorer.counts.label_log, len(groups), np.random.default_rng(3)), 7))
    expected = naive_means(documents, groups, scorer, relabellings, weight)
    assert found.values == pytest.approx(expected)
    assert found.values.shape == (7, len(groups))
    assert [test.p_value for test in found.tests] == [1 / 8] * len(groups)
    if cells > 1:
        assert told == [(0, 1, "permuted labels, 1 to 2"), (0, 1, "permuted labels, 3 to 7")]
    else:
        assert told == [(0, 1, f"permuted labels, {number} to {number}") for number in range(1, 8)]


def test_rounds_grow_until_every_group_is_decided(monkeypatch):
    source, scorer = scored(texts(), permutations=2000, window=3)
    rounds = []
    means = module._Counter.means

    def kept(self, relabellings, before):
        rounds.append((before, len(relabellings)))
        return means(self, relabellings, before)

    monkeypatch.setattr(module._Counter, "means", kept)
    found = permuted_means(source, scorer, np.zeros(3))
    assert rounds == [(0, 20)]
    assert [(test.p_value, test.draws, test.reached) for test in found.tests] == [(1.0, 10, 10)] * 3
    rounds.clear()
    third = float(np.sort(found.values[:, 1])[-4])
    found = permuted_means(source, scorer, np.array([0.0, third, 0.0]))
    assert rounds[:2] == [(0, 20), (20, 80)]
    assert len(found.values) == sum(size for _, size in rounds)
    reached = found.values[:, 1] >= third
    assert found.tests[1] == sequential_test(reached, enough=10, most=2000)


def test_a_mean_equal_to_the_observed_one_reaches_it():
    source, scorer = scored(texts(), permutations=9, window=3)
    values = permuted_means(source, scorer, np.full(3, 1e9)).values
    tests = permuted_means(source, scorer, values[4]).tests
    assert [test.reached for test in tests] == [int((values[:, g] >= values[4, g]).sum()) for g in range(3)]


def test_one_document_has_means_and_no_test():
    source, scorer = scored([" ".join(texts(1, length=200))], permutations=30, window=3)
    found = permuted_means(source, scorer, np.zeros(3))
    assert found.tests is None
    assert found.values.shape == (20, 3)
    source, scorer = scored([" ".join(texts(1, length=200))], permutations=3, window=3)
    assert permuted_means(source, scorer, np.zeros(3)).values.shape == (3, 3)


def test_two_documents_are_enough_for_a_test():
    source, scorer = scored(texts(2, length=90), permutations=4, window=3)
    assert [test.draws for test in permuted_means(source, scorer, np.full(3, 1e9)).tests] == [4, 4, 4]


def test_nothing_to_permute_is_an_error():
    source, scorer = scored(texts(), permutations=0, window=3)
    with pytest.raises(DegenerateError, match="the counts have no labels to permute"):
        permuted_means(source, scorer, np.zeros(3))


@pytest.mark.parametrize(("missing", "fails"), [(2, False), (3, True)])
def test_a_tenth_of_the_labellings_may_have_no_mean(monkeypatch, missing, fails):
    source, scorer = scored(texts(), permutations=20, window=3)
    values = np.ones((20, 3))
    values[:missing, 1] = np.nan
    monkeypatch.setattr(module._Counter, "means", lambda *_: values)
    if fails:
        with pytest.raises(DegenerateError, match="too small for a baseline"):
            permuted_means(source, scorer, np.full(3, 2.0))
    else:
        found = permuted_means(source, scorer, np.full(3, 2.0))
        assert [test.reached for test in found.tests] == [0, missing, 0]


def test_files_are_counted_with_the_labels_of_their_own_hits(tmp_path, monkeypatch):
    from evenhand.corpus import Corpus

    monkeypatch.setattr("evenhand.corpus.readers.source.SHARD", 1)
    monkeypatch.setattr("evenhand.corpus.counting.neighbours.PAIRS", 20)
    documents = [*texts(3), "a b", *texts(3, seed=1)]
    for number, text in enumerate(documents):
        (tmp_path / f"{number}.txt").write_text(text)
    options = CorpusOptions(GROUPS, seed=3, permutations=6, window=3)
    source, plan = Corpus(tmp_path), replace(options.plan(), piece=30)
    scorer = Scorer(count(source, plan), plan, options)
    found = permuted_means(source, scorer, np.full(3, 1e9))
    relabellings = list(islice(draw_relabellings(scorer.counts.label_log, 3, np.random.default_rng(3)), 6))
    assert found.values == pytest.approx(naive_means(documents, GROUPS, scorer, relabellings, REACHES["window"][1]))


def test_the_mean_size_is_that_of_finite_scores():
    assert _mean_size(np.array([-1.0, np.inf, 3.0, np.nan])) == 2
    assert np.isnan(_mean_size(np.array([np.nan])))
