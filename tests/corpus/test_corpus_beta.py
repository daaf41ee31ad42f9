"""The regression between two corpora."""

from dataclasses import replace

import numpy as np
import pytest

from evenhand import corpus
from evenhand.corpus import Beta
from evenhand.errors import DegenerateError, UsageError

GROUPS = {"f": ["she"], "m": ["he"]}


def scored(seed, size=400):
    words = np.random.default_rng(seed).choice(["she", "he", *"abcdefghij"], size=size)
    return corpus.bias(corpus.Texts([" ".join(words)]), GROUPS, window=2)


def test_exact_line_is_found_by_all_three():
    x = np.linspace(-1, 1, 30)
    beta = Beta(x, 0.5 * x + 0.2)
    assert float(beta) == pytest.approx(0.5)
    assert (beta.trimmed, beta.untrimmed, beta.theil_sen) == pytest.approx((0.5, 0.5, 0.5))
    assert beta.intercept == pytest.approx(0.2)
    assert (beta.words, beta.removed) == (30, 0)


def test_an_outlier_moves_only_the_untrimmed_slope():
    x = np.append(np.linspace(-1, 1, 60), 0.9)
    y = np.append(np.linspace(-1, 1, 60), 40.0)
    beta = Beta(x, y)
    assert beta.removed == 1
    assert beta.trimmed == pytest.approx(1.0)
    assert beta.untrimmed > 1.5
    assert beta.theil_sen == pytest.approx(1.0, abs=0.05)


def test_a_corpus_on_itself_has_slope_one():
    b = scored(0)
    assert b.beta(b) == pytest.approx(1.0)
    assert b.beta(b).words == b.n


def test_beta_regresses_this_corpus_on_the_other():
    b = scored(1)
    half = replace(b, values=b.values / 2)
    assert half.beta(b) == pytest.approx(0.5)
    assert b.beta(half) == pytest.approx(2.0)


def test_different_groups_are_not_compared():
    other = corpus.bias(corpus.Texts(["a b c a b c"]), {"x": ["a"], "y": ["b"]}, window=2)
    with pytest.raises(UsageError, match="different groups"):
        scored(0).beta(other)


def test_too_few_common_words():
    b = scored(0)
    few = replace(b, words=b.words[:2], values=b.values[:2])
    with pytest.raises(DegenerateError, match="only 2 words"):
        few.beta(b)
    with pytest.raises(DegenerateError, match="same score"):
        Beta(np.zeros(5), np.arange(5.0))


def test_plain_data():
    record = scored(0).beta(scored(0)).to_dict()
    assert set(record) == {"trimmed", "untrimmed", "theil_sen", "theil_sen_interval", "intercept", "words", "removed"}
