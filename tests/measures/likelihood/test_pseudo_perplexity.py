"""Masked models have a pseudo-perplexity, under a name of its own."""

import math

import pytest
from given_likelihoods import GivenTokens

from evenhand.measures.likelihood.perplexity import perplexity


def test_a_masked_model_has_a_pseudo_perplexity() -> None:
    texts = ["she is a nurse", "he was"]
    masked, causal = (
        perplexity(GivenTokens(lambda text, token: -2.0, masked=masked), texts) for masked in (True, False)
    )
    assert masked.value == causal.value == pytest.approx(math.exp(2))
    assert (masked.score, causal.score) == ("pseudo", "")
    assert masked.label != causal.label
