"""Counts of a text in several files, and the text as a file of ids, against loops over its words."""

from collections import Counter

import numpy as np
import pytest

from evenhand.corpus import Corpus, Texts
from evenhand.corpus.counting import count as module
from evenhand.corpus.counting.count import (
    CountingPlan,
    LabelLog,
    LabelLogger,
    count,
    count_shard,
    merge,
    tokenise_to_file,
    with_progress,
)
from evenhand.corpus.counting.tokens import make_tokeniser
from evenhand.corpus.counting.windows import Decay, FixedWindow, TokenBlock
from evenhand.corpus.readers.text import ByteSpan
from evenhand.errors import DegenerateError, UsageError

GROUPS = {"f": ("she", "lady"), "m": ("he",), "n": ("they",)}
ORDER = ("she", "lady", "he", "they")
LABELS = {"she": 0, "lady": 0, "he": 1, "they": 2}
WORDS = make_tokeniser("words")


def files(folder):
    """Write files of one document a line; return the documents of each."""
    draw = np.random.default_rng(8)
    every = [*ORDER[:3], "a", "b", "c", "d"]
    found = []
    for number, sizes in enumerate(((9, 0, 0, 14), (0,), (0, 30, 1, 0), (5, 17))):
        found.append([" ".join(draw.choice([*every, f"only{number}"], size=size)) for size in sizes])
        (folder / f"{number}.txt").write_text("".join(f"{line}\n" for line in found[-1]))
    return found


def plan(window=2, decay=None, **options):
    return CountingPlan(GROUPS, window, decay, WORDS, **options)


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize("reach", [{"window": 2}, {"window": None, "decay": 0.7}])
@pytest.mark.parametrize("unit", [None, 4])
def test_counts_of_several_files_are_those_of_their_words(tmp_path, monkeypatch, piece, reach, unit):
    monkeypatch.setattr("evenhand.corpus.readers.source.SHARD", 1)
    shards = files(tmp_path)
    monkeypatch.setattr(Corpus, "_spans", lambda self, file, *_: [ByteSpan(file)])
    source, told = Corpus(tmp_path, documents="line"), []
    found = count(
        source, plan(**reach, piece=piece, folds=3, unit=unit, log_labels=True), progress=lambda *c: told.append(c)
    )
    assert told == [(number, 4, "counting") for number in range(4)]
    documents = [text.split() for shard in shards for text in shard]
    seen = Counter(word for words in documents for word in words)
    order = found.words.to_list()
    assert order[:5] == ["\0", *ORDER]
    assert order[5:] == [w for w in dict.fromkeys(w for words in documents for w in words) if w not in LABELS]
    assert found.occurrences.tolist() == [len(documents), *(seen[word] for word in order[1:])]
    assert (found.documents, found.empty_documents) == (len(documents), sum(not words for words in documents))
    assert found.shard_hits == tuple(sum(w in LABELS for t in shard for w in t.split()) for shard in shards)
    near, by_fold = np.zeros((3, len(order))), np.zeros((3, 3, len(order)))
    hits, labels, sizes = np.zeros((3, 3), dtype=int), [], []
    for number, shard in enumerate(shards):
        for place, words in enumerate(text.split() for text in shard):
            own = [LABELS[word] for word in words if word in LABELS]
            labels += own
            sizes += [len(own)] if own else []
            for p, word in enumerate(words):
                fold = (number + place + (p // unit if unit else 0)) % 3
                if word in LABELS:
                    hits[LABELS[word], fold] += 1
                for q, hit in enumerate(words):
                    if p != q and hit in LABELS:
                        weight = 0.7 ** abs(p - q) if reach["window"] is None else float(abs(p - q) <= 2)
                        near[LABELS[hit], order.index(word)] += weight
                        by_fold[LABELS[hit], fold, order.index(word)] += weight
    assert found.cooccurrence == pytest.approx(near)
    assert found.by_fold.hits.tolist() == hits.tolist()
    assert np.stack([matrix.toarray() for matrix in found.by_fold.cooccurrence]) == pytest.approx(by_fold)
    assert found.label_log.labels.tolist() == labels
    assert found.label_log.sizes.tolist() == sizes
    assert found.label_log.starts.tolist() == [0, *np.cumsum(sizes)[:-1]]


def test_a_plan_without_folds_or_labels_keeps_neither():
    found = count(Texts(["she a he", "they"]), plan())
    assert found.by_fold is None
    assert found.label_log is None
    assert found.cooccurrence.dtype == np.int64
    assert count(Texts(["she a he"]), plan(None, 0.5)).cooccurrence.dtype == np.float64


def test_a_text_has_any_number_of_words():
    words = [f"w{number}" for number in range(4096 - len(ORDER))]
    found = count(Texts([" ".join(["she", *words])]), plan(1, folds=2))
    assert found.words.to_list() == ["\0", *ORDER, *words]
    assert found.occurrences.tolist() == [1, 1, 0, 0, 0, *[1] * len(words)]
    assert found.cooccurrence.sum() == 1


def test_the_first_fold_of_a_shard_is_its_own():
    source = Texts(["she a", "he", "they a", "she a"])
    (shard,) = source.shards()
    usual, second = (count_shard(source, shard, plan(folds=3), **how) for how in ({}, {"first_fold": 1}))
    assert usual.by_fold.hits.tolist() == [[2, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert second.by_fold.hits.tolist() == [[0, 2, 0], [0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_empty_documents_are_counted_wherever_the_text_is_divided(piece):
    found = count(Texts(["", "a", "", "", "b c d", " ", "she"]), plan(piece=piece))
    assert (found.documents, found.empty_documents) == (7, 4)
    assert count(Texts(["a", ""]), plan(piece=piece)).empty_documents == 1


class Nothing(Texts):
    def shards(self):
        return []


def test_a_source_without_shards_counts_nothing():
    found = count(Nothing([]), plan(folds=2, log_labels=True))
    assert found.words.to_list() == ["\0", *ORDER]
    assert found.occurrences.tolist() == [0] * 5
    assert found.cooccurrence.tolist() == [[0] * 5] * 3
    assert found.shard_hits == (0,)
    assert (len(found.label_log.labels), len(found.label_log.sizes)) == (0, 0)
    assert found.by_fold.hits.tolist() == [[0, 0]] * 3
    assert merge([]) is None


def test_the_plan_names_groups_labels_and_weights():
    found = plan(3, folds=2)
    assert found.group_words == ORDER
    assert found.labels.tolist() == [0, 0, 1, 2]
    assert found.labels.dtype == np.int8
    assert isinstance(found.kernel(), FixedWindow)
    assert isinstance(plan(None, 0.5).kernel(4), Decay)
    assert plan(None, 0.5).kernel(4)._left.shape == (4, 3)
    assert plan(None, 0.5).kernel()._left.shape == (1, 3)
    assert found.kernel(2)._tail.labels.shape == (2, 0)


def test_progress_is_told_before_each_part():
    told = []
    parts = with_progress(iter("ab"), 2, "work", lambda *call: told.append(call))
    assert next(parts) == "a"
    assert told == [(0, 2, "work")]
    assert list(parts) == ["b"]
    assert told == [(0, 2, "work"), (1, 2, "work")]
    assert list(with_progress(iter("ab"), 2, "work", None)) == ["a", "b"]


def test_logs_are_joined_in_order():
    one, two = (
        LabelLog(np.array([0, 1, 1], dtype=np.int8), np.array([1, 2])),
        LabelLog(np.zeros(2, dtype=np.int8), np.array([2])),
    )
    both = LabelLog.joined([one, two])
    assert both.labels.tolist() == [0, 1, 1, 0, 0]
    assert both.sizes.tolist() == [1, 2, 2]
    assert both.starts.tolist() == [0, 1, 3]


def test_the_log_counts_the_hits_of_a_document_in_several_blocks():
    logger = LabelLogger()

    def add(ids, document):
        ids = np.array(ids)
        hits = np.flatnonzero(ids > 0)
        labels = np.array([ids[hits] - 1], dtype=np.int8)
        logger.add(TokenBlock(ids, np.flatnonzero(ids == 0), hits, labels, document))

    add([1], 0)
    add([2, 1], 0)
    add([1, 0, 2, 0], 0)
    add([0, 2, 2, 0], 2)
    assert logger.log().sizes.tolist() == [4, 1, 2]
    assert logger.log().labels.tolist() == [0, 1, 0, 0, 1, 1, 1]
    empty = LabelLogger().log()
    assert (empty.labels.dtype, empty.sizes.dtype, len(empty.sizes)) == (np.int8, np.int64, 0)


TEXT = ["b a b c", "", "a b rare b", "c c c c c a"]


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
@pytest.mark.parametrize("min_count", [1, 2, 3])
def test_a_file_of_ids_has_the_frequent_words_of_each_document(monkeypatch, block, min_count):
    monkeypatch.setattr(module, "BLOCK", block)
    seen, told = Counter(" ".join(TEXT).split()), []
    with tokenise_to_file(Texts(TEXT), WORDS, min_count=min_count, progress=lambda *c: told.append(c)) as found:
        assert told == [(0, 1, "reading")]
        first = list(dict.fromkeys(" ".join(TEXT).split()))
        words = [w for w in sorted(first, key=lambda w: (-seen[w], first.index(w))) if seen[w] >= min_count]
        assert list(found.words) == words
        assert found.occurrences.tolist() == [seen[word] for word in words]
        assert (found.tokens, found.documents) == (14, 4)
        assert found.frequent_tokens == sum(seen[word] for word in words)
        documents = [[words.index(w) for w in text.split() if w in words] for text in TEXT]
        flat = [id for document in documents for id in (*document, len(words))]
        assert np.concatenate(list(found.blocks())).tolist() == flat
        for longest in (1, 2, 3, 100):
            parts = [d[at : at + longest] for d in documents for at in range(0, len(d), longest)]
            assert [part.tolist() for part in found.stretches(longest)] == parts
        path = found._file
        assert path.exists()
    assert not path.exists()


def test_no_frequent_word_is_an_error():
    with (
        pytest.raises(DegenerateError, match=r"no word of the text occurs 7 times \(14 words read\)"),
        tokenise_to_file(Texts(TEXT), WORDS, min_count=7),
    ):
        pass
    with tokenise_to_file(Texts(TEXT), WORDS, min_count=6) as found:
        assert found.words == ("c",)
    with (
        pytest.raises(UsageError, match="min_count must be at least 1, got 0"),
        tokenise_to_file(Texts(TEXT), WORDS, min_count=0),
    ):
        pass


def test_every_file_of_a_text_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("evenhand.corpus.readers.source.SHARD", 1)
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name} x")
    told = []
    with tokenise_to_file(Corpus(tmp_path), WORDS, progress=lambda *call: told.append(call)) as found:
        assert found.words == ("x", "a", "b")
        assert [part.tolist() for part in found.stretches(9)] == [[1, 0], [2, 0]]
    assert told == [(0, 2, "reading"), (1, 2, "reading")]
