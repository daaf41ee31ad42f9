"""Intervals over documents, and the baseline of permuted labels."""

import numpy as np
import pytest

from evenhand import corpus
from evenhand.errors import DegenerateError

GROUPS = {"f": ["she"], "m": ["he"]}


def texts(documents, seed=0, lean=0.5):
    """Documents in which `nurse` follows she with a given share, and `x` anyone."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(documents):
        words = []
        for _ in range(20):
            she = rng.random() < 0.5
            words += ["she" if she else "he", "nurse" if rng.random() < (lean if she else 1 - lean) else "x", "."]
        made.append(" ".join(words))
    return corpus.Texts(made)


def scored(source, **options):
    return corpus.bias(source, GROUPS, window=1, tokenizer="whitespace", **options)


@pytest.mark.parametrize("normalisation", ["conditional", "literal", "joint"])
def test_interval_holds_the_score_and_equals_a_plain_bootstrap(normalisation):
    source = texts(30, lean=0.6)
    b = scored(source, bootstrap=4000, normalisation=normalisation)
    low, high = b.interval("nurse")
    assert low < b.scores["nurse"] < high
    rng = np.random.default_rng(1)
    drawn = [rng.integers(30, size=30) for _ in range(300)]
    again = [
        scored(corpus.Texts([source.texts[i] for i in d]), normalisation=normalisation).scores["nurse"] for d in drawn
    ]
    assert [low, high] == pytest.approx(np.quantile(again, [0.025, 0.975]), abs=0.06)


def test_more_documents_than_parts_and_any_piece_size():
    source = texts(250)
    b, cut = scored(source, bootstrap=200), scored(source, bootstrap=200, piece=50)
    np.testing.assert_allclose(b.intervals, cut.intervals, atol=1e-12)
    plain = scored(source)
    assert plain.scores == b.scores
    assert plain.interval("nurse") is None


def test_decay_has_intervals_too():
    source = texts(12)
    b, cut = (corpus.bias(source, GROUPS, decay=0.5, bootstrap=100, piece=piece) for piece in (1 << 20, 30))
    np.testing.assert_allclose(b.intervals, cut.intervals, atol=1e-9)


def test_a_word_in_one_document_has_no_interval():
    b = scored(corpus.Texts(["she rare he"] + ["she x he"] * 20), bootstrap=200)
    assert "rare" in b.scores
    assert b.interval("rare") is None
    assert b.to_dict()["items"][b.words.index("rare")]["interval"] is None


def test_three_groups_have_intervals():
    b = corpus.bias(corpus.Texts(["a x b x c x"] * 5), {"a": ["a"], "b": ["b"], "c": ["c"]}, window=1, bootstrap=50)
    assert b.for_group("c").interval("x") is not None


def test_baseline_separates_bias_from_noise():
    biased, neutral = (scored(texts(60, seed=3, lean=lean), permutations=19) for lean in (0.9, 0.5))
    assert biased.baseline.p_value == pytest.approx(0.05)
    assert biased.baseline.mu < 0.3 < biased.mu
    assert neutral.baseline.p_value > 0.05
    assert biased.baseline.permutations == 19


@pytest.mark.parametrize("reach", [{"window": 3}, {"decay": 0.8}])
def test_baseline_is_seeded(reach):
    one, same, other = (
        corpus.bias(texts(20), GROUPS, permutations=5, seed=seed, **reach).baseline for seed in (1, 1, 2)
    )
    assert one == same
    assert one.mu != other.mu


def test_labellings_in_several_rounds(monkeypatch):
    whole = scored(texts(20), permutations=6).baseline
    monkeypatch.setattr("evenhand.corpus.shuffled_baseline.CELLS", 10)
    assert scored(texts(20), permutations=6).baseline == whole


def test_the_baseline_does_not_depend_on_the_shards(tmp_path, monkeypatch):
    for number, text in enumerate(texts(40, seed=3, lean=0.9).texts):
        (tmp_path / f"{number:02}.txt").write_text(text)
    monkeypatch.setattr("evenhand.corpus.readers.source.SHARD", 400)
    b = scored(tmp_path, permutations=19)
    assert len(corpus.Corpus(tmp_path).shards()) > 5
    whole = scored(texts(40, seed=3, lean=0.9), permutations=19)
    assert b.mu == pytest.approx(whole.mu)
    assert b.baseline.mu == pytest.approx(whole.baseline.mu)
    assert b.baseline.p_value == pytest.approx(0.05)


def test_permutation_p_value_is_uniform_without_bias():
    # Exact by exchangeability: with 4 labellings p is one of 1/5 ... 5/5, each as likely.
    values = [scored(texts(4, seed=seed), permutations=4, seed=seed).baseline.p_value for seed in range(60)]
    counts = np.bincount(np.rint(np.array(values) * 5).astype(int), minlength=6)[1:]
    assert (counts >= 3).all()


def test_too_little_text_for_a_baseline(monkeypatch):
    # Some of 20 labellings give the label of "she" to one of the two b documents; then no word is near both groups.
    monkeypatch.setattr("evenhand.corpus.shuffled_baseline.TRIES", 1)
    text = corpus.Texts(["she a he a", "he b", "he b"])
    with pytest.raises(DegenerateError, match="too small for a baseline"):
        scored(text, permutations=20, stop_words=["b"])


def test_a_clearly_biased_text_has_a_p_value_below_001():
    biased = scored(texts(60, seed=3, lean=0.9), permutations=1999).baseline
    assert biased.p_value == 1 / 2000
    assert (biased.permutations, biased.decided_after, biased.reached) == (1999, 1999, 0)
    assert "at most 1,999" in biased.rule
    neutral = scored(texts(60, seed=3), permutations=1999).baseline
    assert neutral.p_value == 10 / neutral.decided_after
    assert neutral.decided_after <= neutral.permutations <= 500


def test_the_p_value_counts_the_labellings_up_to_the_tenth_that_reaches_mu():
    """The p-value of the first labellings does not change with how many more are allowed."""
    few, many = (scored(texts(60, seed=3), permutations=most).baseline for most in (100, 1999))
    assert few.decided_after == many.decided_after < 100
    assert few.p_value == many.p_value


def test_sequential_p_values_are_uniform_without_bias():
    # Exchangeable texts: P(p <= a) = a at every value that p can take, here 10 / l and k / 40.
    values = np.array([scored(texts(6, seed=seed), permutations=39, seed=seed).baseline.p_value for seed in range(300)])
    for limit in (4 / 40, 10 / 40, 10 / 20, 10 / 13):
        share = np.mean(values <= limit + 1e-12)
        assert abs(share - limit) < 3.5 * np.sqrt(limit * (1 - limit) / len(values))
