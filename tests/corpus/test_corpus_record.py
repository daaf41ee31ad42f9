"""The record of a corpus's bias in a notebook, on a terminal and as a data frame; the options behind it."""

import io
import sys

import numpy as np
import pytest
from rich.console import Console

from evenhand import corpus
from evenhand.corpus import CorpusOptions, score_corpus
from evenhand.corpus.word_scores import UNIT
from evenhand.errors import UsageError

GROUPS = {"female": ["she"], "male": ["he"]}
TEXTS = corpus.Texts(["she nurse x he nurse doctor", "he doctor x she x nurse"] * 5)


def scored(**options):
    return corpus.bias(TEXTS, GROUPS, window=2, **options)


def test_repr_is_one_line():
    b = scored()
    assert repr(b) == f"CorpusBias('10 texts', 60 tokens, 3 words scored, mu {b.mu:.3f}, sigma {b.sigma:.3f})"
    assert "undefined" in repr(corpus.bias(corpus.Texts(["she a", "he b"]), GROUPS))


def test_rich_and_html_show_the_leading_words():
    b = corpus.bias(corpus.Texts(["she <i>nurse\x1b[31m he", "she <i>nurse\x1b[31m"] * 5), GROUPS, tokenizer=str.split)
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(b)
    text = console.export_text()
    assert "leaning female" in text
    assert r"<i>nurse\x1b[31m" in text
    html = b._repr_html_()
    assert "&lt;i&gt;nurse" in html
    assert "\x1b" not in html + text
    assert html.count("<table>") == 2


def test_to_frame_has_a_row_for_each_word(monkeypatch):
    b = scored(bootstrap=20)
    frame = b.to_frame()
    assert type(frame).__module__.startswith("polars")
    assert frame["word"].to_list() == list(b.words)
    assert frame["near_male"].to_list() == b.cooccurrence[1].tolist()
    assert frame["low"].to_numpy() == pytest.approx(b.intervals[0], nan_ok=True)
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=r"no data frame library is installed\n.*pip install polars"):
        b.to_frame()


def test_one_options_object_gives_the_same_scores_everywhere():
    options = CorpusOptions(GROUPS, window=2, stop_words=iter(["x"]))
    assert options.stop_words == ("x",)
    assert score_corpus(TEXTS, options).scores == scored(stop_words=["x"]).scores
    compared = corpus.compare_corpora(TEXTS, TEXTS, CorpusOptions(GROUPS, window=2))
    assert compared.first.scores == scored().scores
    assert CorpusOptions().window == 10
    assert CorpusOptions(decay=0.9).window is None


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"bootstrap": -1}, {"permutations": -1}, {"piece": 0}])
def test_wrong_numbers_are_named_before_anything_is_read(wrong):
    (name, value), *_ = wrong.items()
    with pytest.raises(UsageError, match=f"{name} must be at least . got {value}".replace(". got", "., got")):
        CorpusOptions(GROUPS, **wrong)


def test_evidence_grows_with_the_text_and_ratio_does_not():
    small, large = (corpus.bias(corpus.Texts(TEXTS.texts * n), GROUPS, window=2) for n in (1, 10))
    assert large.scores == pytest.approx(dict(small.scores))
    leaning = np.abs(small.values) > 0.1
    assert (np.abs(large.evidence) > 2 * np.abs(small.evidence))[leaning].all()
    assert (np.sign(large.evidence) == np.sign(large.values))[leaning].all()
    with pytest.raises(UsageError, match="unknown order 'count'"):
        small.top(order="count")


@pytest.mark.parametrize("reach", [{"window": 3}, {"decay": 0.9}])
def test_a_long_document_is_resampled_in_stretches(reach):
    rng = np.random.default_rng(0)
    words = rng.choice(["she", "he", "a", "b", "c"], size=6 * UNIT)
    text = " ".join(words)
    b = corpus.bias(corpus.Texts([text]), GROUPS, bootstrap=200, **reach)
    low, high = b.interval("a")
    assert low < b.scores["a"] < high
    cut = corpus.bias(corpus.Texts([text]), GROUPS, bootstrap=200, piece=1000, **reach)
    np.testing.assert_allclose(b.intervals, cut.intervals, atol=1e-9)
    short = corpus.bias(corpus.Texts([" ".join(words[: UNIT - 1])]), GROUPS, bootstrap=200, **reach)
    assert short.interval("a") is None


def test_draws_are_chosen_by_the_size_of_the_text(monkeypatch):
    b = scored(bootstrap=None, permutations=None)
    assert (b.params["bootstrap"], b.params["permutations"]) == (1000, 1999)
    assert b.baseline.permutations == 1999  # p = .0025: four of them reach mu
    assert (b.baseline.reached, b.baseline.p_value) == (4, 5 / 2000)
    monkeypatch.setattr(sys.modules["evenhand.corpus.bias"], "AFFORDABLE", 10)  # a function has the same name
    large = scored(bootstrap=None, permutations=None)
    assert large.baseline is large.intervals is None
    assert any("`permutations=1999`" in note and "`bootstrap=1000`" in note for note in large.notes)
    assert scored(permutations=2).baseline.permutations == 2
