"""Evidence, intervals and the record of the scores against plain recomputation."""

from collections import Counter

import numpy as np
import pytest
from scipy.sparse import csr_array

from evenhand.corpus import Texts, bias
from evenhand.corpus import word_scores as module
from evenhand.corpus.counting.windows import FoldCounts
from evenhand.corpus.word_scores import evidence, log_ratio, normalising_shift, one_against_rest, word_intervals
from evenhand.errors import VocabularyError

GROUPS = {"f": ["she", "lady"], "m": ["he"]}


def test_evidence_is_the_log_odds_under_an_informative_prior():
    counts = np.array([[30, 0, 5, 40, 25], [10, 4, 5, 60, 0]])
    words = np.array([3, 0, 1, 4])
    totals = counts.sum(axis=1)
    for place, word in enumerate(words):
        prior = 500 * counts[:, word].sum() / totals.sum()
        sides = [counts[side, word] + prior for side in (0, 1)]
        odds = [np.log(sides[side] / (totals[side] + 500 - sides[side])) for side in (0, 1)]
        z = (odds[0] - odds[1]) / np.sqrt(1 / sides[0] + 1 / sides[1])
        assert evidence(counts, words)[place] == pytest.approx(z)


def test_a_group_near_nothing_gives_no_evidence():
    assert evidence(np.array([[0, 0, 0], [4, 5, 6]]), np.array([0, 2])).tolist() == [0, 0]


def test_a_weight_without_a_finite_inverse_has_no_evidence():
    counts = np.array([[1e-310, 1.0], [1e-310, 2.0]])
    assert evidence(counts, np.array([0]))[0] == pytest.approx(0, abs=1e-100)


def test_scores_subtract_the_shift_and_are_undefined_at_zero():
    found = log_ratio(np.array([[2, 0, 3, 0], [5, 1, 0, 0]]), np.float64(0.25))
    assert found[0] == pytest.approx(np.log(2 / 5) - 0.25)
    assert [found[1], found[2], np.isnan(found[3])] == [-np.inf, np.inf, True]
    smoothed = log_ratio(np.array([[2, 0], [5, 1]]), np.float64(0.0), 0.5)
    assert smoothed == pytest.approx([np.log(2.5 / 5.5), np.log(0.5 / 1.5)])


def test_the_three_normalisations():
    totals, hits = np.array([30, 50]), np.array([7, 3])
    by_sum, by_hits = np.log((30 + 4) / (50 + 4)), np.log(7 / 3)
    given = {"smoothing": 0.5, "vocabulary": 8}
    assert normalising_shift("conditional", totals, hits, **given) == pytest.approx(by_sum)
    assert normalising_shift("literal", totals, hits, **given) == pytest.approx(by_sum + by_hits)
    assert normalising_shift("joint", totals, hits, **given) == pytest.approx(by_hits)


def test_a_group_stands_against_the_sum_of_the_others():
    assert one_against_rest(np.array([[1, 2], [3, 4], [5, 6]]), 1).tolist() == [[3, 4], [6, 8]]


def folded(tables, hits):
    return FoldCounts(tuple(csr_array(np.array(table, dtype=float)) for table in tables), np.array(hits))


@pytest.mark.parametrize("group", [0, 1, 2])
@pytest.mark.parametrize("normalisation", ["conditional", "literal", "joint"])
@pytest.mark.parametrize("at_once", [2, 100])
def test_intervals_are_quantiles_over_weighted_folds(monkeypatch, group, normalisation, at_once):
    monkeypatch.setattr(module, "WORDS_AT_ONCE", at_once)
    draw = np.random.default_rng(0)
    tables = draw.poisson(2.0, (3, 6, 8))
    tables[:, :, 5] = [[0, 0, 9, 0, 0, 0]] * 3  # a word of one fold
    tables[:, :, 6] = [[5, 4, 0, 3, 3, 2]] * 3
    hits = np.array([[3, 0, 1, 0, 2, 2], [2, 0, 4, 1, 3, 1], [1, 0, 2, 5, 1, 1]])  # fold 1 has no group word
    words = np.array([6, 0, 5, 7, 3])
    found = word_intervals(
        folded(tables, hits), words, group, normalisation=normalisation, smoothing=0.0, resamples=60, seed=9
    )
    used = [0, 2, 3, 4, 5]
    drawn = np.random.default_rng(9).multinomial(5, np.full(5, 1 / 5), size=60)
    scores = np.full((60, len(words)), np.nan)
    others = [g for g in range(3) if g != group]
    for row, weights in enumerate(drawn):
        near = np.einsum("gfw,f->gw", tables[:, used], weights)
        seen = hits[:, used] @ weights
        sums = np.log(near[group].sum()) - np.log(near[others].sum())
        shift = {"conditional": sums, "literal": sums + np.log(seen[group]) - np.log(seen[others].sum())}.get(
            normalisation, np.log(seen[group]) - np.log(seen[others].sum())
        )
        for column, word in enumerate(words):
            one, rest = near[group, word], near[others, word].sum()
            if one and rest:
                scores[row, column] = np.log(one) - np.log(rest) - shift
    for column in range(len(words)):
        kept = scores[:, column][~np.isnan(scores[:, column])]
        enough = len(kept) >= 0.9 * 60
        expected = np.quantile(kept, [0.025, 0.975]) if enough else [np.nan, np.nan]
        assert found[:, column] == pytest.approx(expected, nan_ok=True)
    assert np.isnan(found).all(axis=0).tolist().count(True) == 1


def test_smoothing_of_intervals_counts_all_words():
    tables, hits = [[[2, 1, 0], [1, 3, 1]], [[4, 1, 2], [2, 2, 0]]], [[2, 1], [3, 3]]
    found = word_intervals(
        folded(tables, hits), np.array([0, 2]), 0, normalisation="conditional", smoothing=0.5, resamples=40, seed=1
    )
    drawn = np.random.default_rng(1).multinomial(2, [0.5, 0.5], size=40)
    near = np.einsum("gfw,rf->grw", np.array(tables), drawn)
    shift = np.log((near[0].sum(axis=1) + 1.5) / (near[1].sum(axis=1) + 1.5))
    scores = np.log((near[0] + 0.5) / (near[1] + 0.5)) - shift[:, None]
    assert found == pytest.approx(np.quantile(scores[:, [0, 2]], [0.025, 0.975], axis=0))


@pytest.mark.parametrize(("undefined", "defined"), [(2, True), (3, False)])
def test_a_tenth_of_the_resamples_may_leave_a_word_without_a_score(undefined, defined, monkeypatch):
    weights = np.ones((20, 2))
    weights[:undefined, 0] = 0
    weights[undefined:, 1] = np.arange(20 - undefined)
    monkeypatch.setattr(module, "_fold_weights", lambda *_: weights)
    folds = folded([[[1, 1], [0, 1]], [[1, 1], [0, 1]]], [[1, 1], [1, 1]])
    found = word_intervals(folds, np.array([0, 1]), 0, normalisation="conditional", smoothing=0.0, resamples=20, seed=0)
    assert np.isfinite(found).all(axis=0).tolist() == [defined, True]


def test_group_words_in_one_fold_leave_no_interval():
    folds = folded([[[1, 1], [0, 1]], [[1, 1], [0, 1]]], [[1, 0], [1, 0]])
    found = word_intervals(folds, np.array([0, 1]), 0, normalisation="joint", smoothing=0.0, resamples=5, seed=0)
    assert found.shape == (2, 2)
    assert np.isnan(found).all()
    none = word_intervals(
        folded([[[1], [1]], [[1], [1]]], [[1, 1], [1, 1]]), np.array([], dtype=int), 0, normalisation="joint",
        smoothing=0.0, resamples=5, seed=0,
    )  # fmt: skip
    assert none.shape == (2, 0)


TEXTS = ["she is <unk> kind N and he is kind", "", "he is . strong she rare", "far out", "the lady the the he"]


def test_the_record_counts_each_word_that_has_no_score_once():
    found = bias(
        Texts(TEXTS), {"f": ["she", "lady", "girl"], "m": ["he"]}, window=2, tokenizer="whitespace", min_count=2,
        stop_words=("the", "far"), special_tokens="drop", seed=3,
    )  # fmt: skip
    assert dict(found.lost) == {
        "stop_words": 2,
        "special_tokens": 3,
        "below_min_count": 4,  # and, strong, rare, out
        "never_near_any_group": 0,
        "zero_count": 1,  # kind
    }
    assert found.words == ("is",)
    assert dict(found.hits) == {"f": 3, "m": 3}
    assert dict(found.missing) == {"f": ("girl",), "m": ()}
    words = " ".join(TEXTS).split()
    assert (found.tokens, found.documents, found.empty_documents) == (len(words), 5, 1)
    assert found.vocabulary == len(set(words))
    assert found.occurrences.tolist() == [Counter(words)[word] for word in found.words]
    assert (found.positive, found.other, found.seed, found.name) == ("f", "m", 3, "5 texts")
    assert found.intervals is None
    kept = bias(
        Texts(TEXTS), {"f": ["she", "lady"], "m": ["he"]}, window=2, tokenizer="whitespace", special_tokens="keep"
    )
    assert dict(kept.lost) == {
        "stop_words": 0,
        "below_min_count": 0,
        "never_near_any_group": 2,  # far, out
        "zero_count": len(set(words)) - 3 - 2 - kept.n,
    }
    assert kept.lost["zero_count"] > 0


def test_special_tokens_are_lower_case_where_the_text_is():
    found = bias(Texts(["she n x he n x"]), GROUPS, window=3, tokenizer="whitespace", lower=True, special_tokens="drop")
    assert found.words == ("x",)
    found = bias(Texts(["she n x he n x"]), GROUPS, window=3, tokenizer="whitespace", special_tokens="drop")
    assert found.words == ("n", "x")


def test_min_count_keeps_words_that_occur_just_often_enough():
    text = Texts(["she a b he a b she a he"])
    assert bias(text, GROUPS, window=5, min_count=2).words == ("a", "b")
    assert bias(text, GROUPS, window=5, min_count=3).words == ("a",)


def test_group_words_come_before_the_scored_ones():
    found = bias(Texts(["lady a he b"]), GROUPS, window=4)
    assert found.words == ("a", "b")
    assert dict(found.missing) == {"f": ("she",), "m": ()}
    assert dict(found.hits) == {"f": 1, "m": 1}


def test_a_group_that_does_not_occur_is_named_with_what_was_read():
    with pytest.raises(VocabularyError) as error:
        bias(Texts(["she a b", "lady"]), GROUPS, window=4)
    assert error.value.message == "none of the words of group 'm' occurs in the text (he)"
    assert error.value.hint == "check the lists, the tokenizer (words) and lower=True; 4 words were read"


def test_scores_of_three_groups_are_against_the_other_two():
    groups = {"a": ["x"], "b": ["y"], "c": ["z"]}
    found = bias(Texts(["x w y w v z w v x v"]), groups, window=1, bootstrap=3)
    near = {"w": (1, 2, 1), "v": (2, 0, 1)}
    sums = np.array([3, 2, 2])
    for place, name in enumerate(groups):
        record = found.for_group(name)
        for word, value in record.scores.items():
            one, rest = near[word][place], sum(near[word]) - near[word][place]
            assert value == pytest.approx(np.log(one / sums[place]) - np.log(rest / (sums.sum() - sums[place])))
        assert record.cooccurrence.tolist() == [[near[word][group] for word in record.words] for group in range(3)]
        assert record.intervals.shape == (2, record.n)
    assert found.other == "the other groups"
    assert set(found.against) == {"b", "c"}
