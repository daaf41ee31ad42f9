"""Special tokens of tokenised text are not scored by default, and the record counts them."""

import polars as pl
import pytest

from evenhand import corpus
from evenhand.corpus.comparison import SPECIAL_TOKENS, against_training
from evenhand.corpus.counting.tokens import are_special_tokens
from evenhand.errors import UsageError

GROUPS = {"f": ["she"], "m": ["he"]}
NEAR = {"fixed": {"window": 2}}
TEXT = corpus.Texts(["she nurse <unk> N $ 's 1987 <eos> , he nurse <unk> N $ 's 1987 <eos> ,"])


@pytest.mark.parametrize("mark", [*SPECIAL_TOKENS, "<num>", "$", "--", "@-@", "...", "“"])
def test_special_tokens(mark):
    assert are_special_tokens(pl.Series([mark]), lower=False).all()


@pytest.mark.parametrize("word", ["nurse", "'s", "1987", "n't", "naïve", "語", "n", "<", "a>b"])
def test_words(word):
    assert are_special_tokens(pl.Series([word]), lower=False).tolist() == [word == "<"]


def test_whitespace_drops_special_tokens_and_counts_them():
    b = corpus.bias(TEXT, GROUPS, tokenizer="whitespace")
    assert set(b.scores) == {"nurse", "'s", "1987"}
    assert b.lost["special_tokens"] == 5
    assert b.params["special_tokens"] == "drop"
    kept = corpus.bias(TEXT, GROUPS, tokenizer="whitespace", special_tokens="keep")
    assert set(kept.scores) == set(b.scores) | {"<unk>", "N", "$", "<eos>", ","}
    assert "special_tokens" not in kept.lost
    assert {word: kept.scores[word] for word in b.scores} == dict(b.scores)  # windows and sums are the same


def test_other_tokenizers_keep_special_tokens_by_default():
    def split(text):
        return text.split()

    assert "$" in corpus.bias(TEXT, GROUPS, tokenizer=split).scores
    assert "$" not in corpus.bias(TEXT, GROUPS, tokenizer=split, special_tokens="drop").scores
    lowered = corpus.bias(TEXT, GROUPS, tokenizer="whitespace", lower=True)
    assert "n" not in lowered.scores
    with pytest.raises(UsageError, match=r"unknown special_tokens 'no'\n.*drop or keep"):
        corpus.bias(TEXT, GROUPS, special_tokens="no")


def test_both_texts_of_a_comparison_and_their_intervals_have_the_same_words():
    texts = corpus.Texts([f"she a{i % 5} $ he a{i % 3} $" for i in range(30)])
    found = corpus.compare(texts, texts, GROUPS, tokenizer="whitespace", window=2)
    kept = corpus.compare(texts, texts, GROUPS, tokenizer="whitespace", window=2, special_tokens="keep")
    assert {point["word"] for point in kept.points()} - {point["word"] for point in found.points()} == {"$"}
    assert found.errors["mu"] != kept.errors["mu"]


def test_generated_text_keeps_signs_and_drops_named_tokens():
    """There the named marks are stop words and signs count as words, as in the kept results of the experiments."""
    samples = [f"she a{i % 5} $ he a{i % 3} <unk>".split() for i in range(30)]
    found = against_training(corpus.Texts([" ".join(sample) for sample in samples]), samples, GROUPS, contexts=NEAR)
    assert "$" in found["fixed"].second.scores
    assert "<unk>" not in found["fixed"].second.scores
