"""Counts of all pairs of words of a text in several files against loops over its positions."""

from collections import Counter

import numpy as np
import pytest

from evenhand.corpus import Corpus, Texts, cooccurrence
from evenhand.corpus.cooccurrence import WEIGHTS, Cooccurrence, _pairs, distance_weights
from evenhand.corpus.readers.text import ByteSpan
from evenhand.errors import DegenerateError, UsageError, VocabularyError

LAWS = {"flat": lambda d, k: 1.0, "harmonic": lambda d, k: 1 / d, "dynamic": lambda d, k: (k - d + 1) / k}


def written(folder, seed=0):
    draw = np.random.default_rng(seed)
    texts = []
    for number, size in enumerate((40, 0, 1, 25, 60)):
        words = draw.choice(list("abcdefghij")[: 4 + number], size=size)
        lines = [" ".join(part) for part in np.split(words, [size // 3, size // 3, size // 2])]
        texts += [*lines, f"only{number}"] if number == 3 else lines
        (folder / f"{number}.txt").write_text(
            "".join(f"{line}\n" for line in texts[len(texts) - len(lines) - (number == 3) :])
        )
    return texts


@pytest.mark.parametrize("weighting", list(LAWS))
@pytest.mark.parametrize("min_count", [1, 2, 9])
def test_counts_of_several_files(tmp_path, monkeypatch, weighting, min_count):
    monkeypatch.setattr("evenhand.corpus.readers.source.SHARD", 1)
    monkeypatch.setattr(Corpus, "_spans", lambda self, file, *_: [ByteSpan(file)])
    texts, told = written(tmp_path), []
    found = cooccurrence(
        tmp_path, 3, weighting=weighting, min_count=min_count, piece=13, documents="line",
        progress=lambda *call: told.append(call),
    )  # fmt: skip
    seen = Counter(word for text in texts for word in text.split())
    near = Counter()
    for text in texts:
        words = [word for word in text.split() if seen[word] >= min_count]
        for p, q in ((p, q) for p in range(len(words)) for q in range(len(words)) if 0 < abs(p - q) <= 3):
            near[words[p], words[q]] += LAWS[weighting](abs(p - q), 3)
    order = [word for word in dict.fromkeys(" ".join(texts).split()) if seen[word] >= min_count]
    if min_count == 1:
        order.sort(key=lambda word: -seen[word])
    assert sorted(found.words) == sorted(order)
    assert found.occurrences.tolist() == [seen[word] for word in found.words]
    assert found.occurrences.tolist() == sorted(found.occurrences.tolist(), reverse=True)
    if min_count == 1:
        assert list(found.words) == order
    dense = np.array([[near[a, b] for b in found.words] for a in found.words])
    assert found.matrix.toarray() == pytest.approx(dense)
    assert found.matrix.has_sorted_indices
    assert found.marginals == pytest.approx(dense.sum(axis=1))
    assert found.params == {
        "window": 3,
        "weighting": weighting,
        "min_count": min_count,
        "tokenizer": "words",
        "lower": True,
        **Corpus(tmp_path, documents="line").to_dict(),
        "bad_files": [],
        "bad_records": 0,
        "first_bad_records": [],
    }
    passes = ["counting"] if min_count > 1 else []
    assert told == [(part, 5, what) for what in (*passes, "counting pairs") for part in range(5)]


def test_pmi_of_every_pair_that_co_occurs():
    found = cooccurrence(Texts(["a b c a", "b d b", "e"]), 2)
    dense = found.matrix.toarray()
    share = dense / dense.sum()
    pmi = found.pmi_matrix().toarray()
    for i, x in enumerate(found.words):
        for j, y in enumerate(found.words):
            assert found.count(x, y) == dense[i, j]
            if dense[i, j]:
                expected = np.log(share[i, j] / (share[i].sum() * share[j].sum()))
                assert found.pmi(x, y) == pytest.approx(expected)
                assert pmi[i, j] == pytest.approx(expected, abs=1e-12)
                assert found.cspmi(x, y) == pytest.approx(expected + np.log(share[i, j]))
            else:
                assert pmi[i, j] == 0
                with pytest.raises(DegenerateError, match=f"'{x}' and '{y}' never co-occur"):
                    found.pmi(x, y)
    with pytest.raises(VocabularyError, match="'z' is not in the co-occurrence counts"):
        found.row("z")


def test_counts_are_saved_with_everything(tmp_path):
    found = cooccurrence(Texts(["naïve b 東京 a", "b d b"]), 2, weighting="harmonic", tokenizer="whitespace")
    found.save(tmp_path / "counts")
    again = Cooccurrence.load(tmp_path / "counts")
    assert again.words == found.words
    assert again.matrix.toarray().tolist() == found.matrix.toarray().tolist()
    assert again.occurrences.tolist() == found.occurrences.tolist()
    assert dict(again.params) == dict(found.params)
    assert (again.params["tokenizer"], again.params["lower"]) == ("whitespace", False)


def test_pairs_are_of_one_document_and_have_a_new_word():
    weights = np.array([1.0, 0.5])
    first, second, values = _pairs(np.array([3, 1, 0, 2, 4, 4]), 0, weights)
    assert sorted(zip(first, second, values, strict=True)) == [(1, 3, 1), (2, 4, 0.5), (2, 4, 1), (4, 4, 1)]
    first, second, values = _pairs(np.array([3, 1, 2]), 2, weights)
    assert sorted(zip(first, second, values, strict=True)) == [(1, 2, 1), (2, 3, 0.5)]


def test_a_text_has_any_number_of_words():
    words = [f"w{number}" for number in range(4096)]
    found = cooccurrence(Texts([" ".join(words)]), 1)
    assert found.words == tuple(words)
    assert found.matrix.sum() == 2 * 4095


@pytest.mark.parametrize("name", list(WEIGHTS))
@pytest.mark.parametrize("window", [1, 4])
def test_weights_by_distance(name, window):
    assert distance_weights(name, window).tolist() == [LAWS[name](d, window) for d in range(1, window + 1)]


def test_numbers_below_one_are_refused():
    text = Texts(["a b"])
    assert cooccurrence(text, 1, piece=1).count("a", "b") == 1
    with pytest.raises(UsageError, match="window must be at least 1, got 0"):
        cooccurrence(text, 0)
    with pytest.raises(UsageError, match="min_count and piece must be at least 1, got 0 and 131072"):
        cooccurrence(text, 1, min_count=0)
    with pytest.raises(UsageError, match="min_count and piece must be at least 1, got 1 and 0"):
        cooccurrence(text, 1, piece=0)
    with pytest.raises(UsageError, match=r"unknown weighting 'none'\n.*flat, harmonic, dynamic"):
        cooccurrence(text, 1, weighting="none")


def test_an_empty_text_or_no_frequent_word_has_an_empty_matrix():
    for found in (cooccurrence(Texts([""])), cooccurrence(Texts(["a b"]), min_count=2)):
        assert found.words == ()
        assert found.matrix.shape == (0, 0)
