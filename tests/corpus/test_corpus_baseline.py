"""The baseline that keeps bursts: what it keeps, and the size of its test on clustered texts without association."""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest
from scipy.sparse import csr_array

from evenhand import corpus
from evenhand.corpus.counting.count import LabelLog, LabelLogger
from evenhand.corpus.counting.windows import TokenBlock
from evenhand.corpus.shuffled_baseline import PermutedLabels, draw_relabellings

WORDS, WINDOW = 600, 10


def drawn_relabellings(log, groups, count, rng):
    return list(islice(draw_relabellings(log, groups, rng), count))


def bursty_texts(seed: int, documents: int = 40) -> corpus.Texts:
    """Documents that each have a topic and one group, drawn independently of each other."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(documents):
        topic = rng.gamma(0.3, 1 / 0.3, 60) + 1e-9
        words = np.array([f"w{i}" for i in range(60)])[rng.choice(60, 150, p=topic / topic.sum())]
        words[::5] = "she" if rng.random() < 0.4 else "he"
        texts.append(" ".join(words))
    return corpus.Texts(texts)


def test_bursts_alone_are_not_bias():
    """Shuffling single occurrences gives the smallest p-value for every one of these texts."""
    results = [
        corpus.bias(bursty_texts(seed), {"f": ["she"], "m": ["he"]}, permutations=19, seed=seed) for seed in range(16)
    ]
    assert np.mean([b.baseline.p_value <= 0.05 for b in results]) <= 0.25


def test_one_document_has_a_baseline_but_no_p_value():
    text = corpus.Texts([" ".join(bursty_texts(0).texts)])
    b = corpus.bias(text, {"f": ["she"], "m": ["he"]}, permutations=5)
    assert b.baseline.mu > 0
    assert b.baseline.p_value is None
    assert b.to_dict()["baseline"]["p_value"] is None


def test_a_document_gets_the_whole_sequence_of_one_of_its_size():
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2], dtype=np.int8)
    log = LabelLog(labels, np.array([3, 3, 3]))
    drawn = PermutedLabels(log, drawn_relabellings(log, 3, 20, np.random.default_rng(0))).draw(9)
    assert {tuple(row[::3]) for row in drawn} > {(0, 1, 2)}
    for row in drawn:
        assert np.array_equal(np.sort(row[::3]), [0, 1, 2])
        assert (row.reshape(3, 3) == row[::3][:, None]).all()


def test_one_document_is_rotated():
    labels = np.array([0, 0, 0, 1, 1, 0, 1, 1], dtype=np.int8)
    log = LabelLog(labels, np.array([8]))
    drawn = PermutedLabels(log, drawn_relabellings(log, 2, 10, np.random.default_rng(0))).draw(8)
    assert {tuple(row) for row in drawn} <= {tuple(np.roll(labels, k)) for k in range(8)}


def test_labels_do_not_depend_on_the_blocks():
    rng = np.random.default_rng(0)
    log = LabelLog(rng.integers(2, size=100).astype(np.int8), np.array([10, 1, 39, 50]))
    relabellings = drawn_relabellings(log, 2, 5, rng)
    parts = PermutedLabels(log, relabellings)
    together = np.concatenate([parts.draw(n) for n in (7, 0, 33, 60)], axis=1)
    assert np.array_equal(together, PermutedLabels(log, relabellings).draw(100))
    assert np.array_equal(together[:, 40:], PermutedLabels(log, relabellings, first=40).draw(60))


def test_the_log_joins_a_document_that_spans_blocks():
    def block(ids, document):
        ids = np.array(ids)
        hits = np.flatnonzero((ids > 0) & (ids < 3))
        labels = (ids[hits] - 1).astype(np.int8)[None]
        return TokenBlock(ids, np.flatnonzero(ids == 0), hits, labels, document)

    logger = LabelLogger()
    logger.add(block([1, 2, 0, 9, 0, 2], 0))
    logger.add(block([9, 9], 2))
    logger.add(block([1, 9, 0, 9, 0, 1, 0], 2))
    log = logger.log()
    assert log.labels.tolist() == [0, 1, 1, 0, 0]
    assert log.sizes.tolist() == [2, 2, 1]


@dataclass
class ClusteredText:
    """Counts of words near hits (hits, words), the label of each hit, and the hits of each document."""

    near: csr_array
    labels: np.ndarray
    sizes: np.ndarray


def clustered_text(rng, documents: int, length: int, kind: str, association: float = 0.0) -> ClusteredText:
    """Each document has a topic, a rate of hits and a preference for a group, independent of its words."""
    base = 1 / (np.arange(WORDS) + 5.0)
    preference = np.random.default_rng(1).standard_normal(WORDS) * association
    rows, columns, labels, sizes = [], [], [], []
    total = 0
    for _ in range(documents):
        size = int(length * rng.gamma(2, 0.5)) + 20
        topic = base * (1.0 if kind == "no bursts" else rng.gamma(0.3, 1 / 0.3, WORDS))
        ids = rng.choice(WORDS, size, p=topic / topic.sum())
        rate = 0.04 * (1.0 if kind == "no bursts" else rng.gamma(1.0))
        hits = np.flatnonzero(rng.random(size) < min(rate, 0.5))
        if not len(hits):
            continue
        label = draw_labels(rng, len(hits), kind)
        if association:
            for hit, group in zip(hits, label, strict=True):
                chances = base * np.exp((0.5 - group) * preference)
                window = np.clip(hit + rng.integers(-WINDOW, WINDOW + 1, 4), 0, size - 1)
                ids[window] = rng.choice(WORDS, 4, p=chances / chances.sum())
        positions = hits[:, None] + np.arange(-WINDOW, WINDOW + 1)
        inside = (positions >= 0) & (positions < size) & ~np.isin(positions, hits)
        rows.append(np.nonzero(inside)[0] + total)
        columns.append(ids[positions[inside]])
        labels.append(label)
        sizes.append(len(hits))
        total += len(hits)
    row, column = np.concatenate(rows), np.concatenate(columns)
    near = csr_array((np.ones(len(row)), (row, column)), shape=(total, WORDS))
    return ClusteredText(near, np.concatenate(labels).astype(np.int8), np.array(sizes))


def draw_labels(rng, hits: int, kind: str) -> np.ndarray:
    if kind == "no bursts":
        return rng.random(hits) < 0.3
    if kind == "one group per document":
        return np.full(hits, rng.random() < 0.35)
    if kind == "documents lean":
        return rng.random(hits) < rng.beta(0.18, 0.42)
    fresh, begins = rng.random(hits) < rng.beta(0.6, 1.4), rng.random(hits) < 0.1
    begins[0] = True
    return fresh[np.maximum.accumulate(np.where(begins, np.arange(hits), 0))]


def mean_bias(text: ClusteredText, labels: np.ndarray) -> np.ndarray:
    """Return mean |bias| over the words near both groups, for each labelling."""
    first = np.asarray((text.near.T @ (labels == 0).T.astype(np.float64)).T)
    second = text.near.sum(axis=0) - first
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.log(first) - np.log(second)
        score -= (np.log(first.sum(axis=1)) - np.log(second.sum(axis=1)))[:, None]
    return np.nanmean(np.where(np.isfinite(score), np.abs(score), np.nan), axis=1)


def share_rejected(documents: int, length: int, kind: str, association: float, samples: int) -> float:
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(samples):
        text = clustered_text(rng, documents, length, kind, association)
        log = LabelLog(text.labels, text.sizes)
        null = mean_bias(text, PermutedLabels(log, drawn_relabellings(log, 2, 59, rng)).draw(len(text.labels)))
        p_values.append((1 + np.count_nonzero(null >= mean_bias(text, text.labels[None])[0])) / 60)
    return float(np.mean(np.array(p_values) <= 0.05))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["no bursts", "documents lean", "runs", "one group per document"])
@pytest.mark.parametrize(("documents", "length"), [(20, 1500), (100, 400), (300, 100)])
def test_the_size_of_the_test(documents, length, kind):
    assert share_rejected(documents, length, kind, 0.0, 200) <= 0.09  # nominal .05, standard error .015


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["no bursts", "documents lean", "runs"])
def test_an_association_is_found(kind):
    assert share_rejected(100, 400, kind, 1.5, 40) >= 0.6


def test_a_decay_over_a_long_document_says_that_mu_measures_distances():
    rng = np.random.default_rng(0)
    words = rng.choice([f"w{i}" for i in range(300)], 6000).astype("<U4")
    words[::1500], words[700::1500] = "she", "he"
    groups = {"f": ["she"], "m": ["he"]}
    long = corpus.bias(corpus.Texts([" ".join(words)]), groups, decay=0.9, permutations=3)
    assert long.mu > 3
    (note,) = [note for note in long.notes if "distances" in note]
    assert "mark the documents" in note
    near = corpus.Texts([f"she {' '.join(part)} he" for part in words[1:601].reshape(-1, 10)])
    assert not any("distances" in note for note in corpus.bias(near, groups, decay=0.9).notes)
    assert not any("distances" in note for note in corpus.bias(corpus.Texts([" ".join(words)]), groups).notes)
