"""Log-probability bias: by hand, its laws, and against a masked model called one mask at a time."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from given_likelihoods import GivenTokens

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures.likelihood.log_probability import Roles, log_probability

QUERY = eh.Query(
    "q",
    targets={"female": ["she", "woman"], "male": ["he", "man"]},
    attributes={"art": ["art", "poetry", "dance"], "science": ["science", "math", "physics"]},
)
SHIFTS = {"art": 1.0, "poetry": 1.2, "dance": 0.9, "science": -1.0, "math": -0.8, "physics": -1.1}


def gendered(context: str, filler: str) -> float:
    """Female words gain the shift of the attribute; the prior favours male words by a constant, which must cancel."""
    shift = next((value for word, value in SHIFTS.items() if word in context.split(".")[0].split()), 0.0)
    return -3.0 + (shift if filler.lower() in ("she", "woman") else 0.7)


def test_the_prior_cancels_and_groups_are_summed() -> None:
    result = log_probability(GivenTokens(gendered), QUERY, templates=["{target} likes {attribute}."])
    assert {item["word"]: item["value"] for item in result.items} == pytest.approx(SHIFTS)
    first, second = (np.array([SHIFTS[word] for word in words]) for words in QUERY.attributes)
    assert result.value == pytest.approx((first.mean() - second.mean()) / np.concatenate([first, second]).std())
    assert result.interval is not None
    assert result.p_value == pytest.approx(2 / math.comb(6, 3))
    assert result.coverage.asked == 4


def test_exchanging_groups_or_attributes_turns_the_sign() -> None:
    model, templates = GivenTokens(), ["{target} is {attribute}."]
    value = log_probability(model, QUERY, templates=templates).value
    groups = eh.Query("q", QUERY.targets[::-1], QUERY.attributes)
    attributes = eh.Query("q", QUERY.targets, QUERY.attributes[::-1])
    assert log_probability(model, groups, templates=templates).value == pytest.approx(-value)
    assert log_probability(model, attributes, templates=templates).value == pytest.approx(-value)


def test_equal_probabilities_have_no_effect_size() -> None:
    result = log_probability(GivenTokens(lambda context, filler: -2.0), QUERY)
    assert result.status == "undefined"
    assert "do not vary" in result.reason


def test_the_side_with_words_of_the_concept_holds_the_groups() -> None:
    gender = eh.concept("gender")
    assert Roles.of(eh.query("weat-8"), gender).groups == eh.query("weat-8").attributes
    assert Roles.of(eh.query("weat-6"), gender).groups == eh.query("weat-6").targets
    assert Roles.of(QUERY, None).groups == QUERY.targets
    assert "is" in Roles.of(eh.query("weat-3"), eh.concept("race")).templates[0]


def test_words_of_several_tokens_are_left_out_or_multiplied() -> None:
    query = eh.Query("q", {"a": ["she", "old woman"], "b": ["he"]}, QUERY.attributes)
    skipped = log_probability(GivenTokens(), query)
    assert skipped.coverage.missing == ("old woman",)
    assert log_probability(GivenTokens(), query, pieces="product").coverage.missing == ()
    none = log_probability(GivenTokens(), eh.Query("q", {"a": ["old woman"], "b": ["he"]}, QUERY.attributes))
    assert "no word of a is a single token" in none.reason


def test_bad_input() -> None:
    with pytest.raises(UsageError, match=r"needs \{target\} and \{attribute\} once"):
        log_probability(GivenTokens(), QUERY, templates=["{target} runs"])
    with pytest.raises(UsageError, match="two targets"):
        log_probability(GivenTokens(), eh.Query("q", [["a"]], [["b"], ["c"]]))
    with pytest.raises(UsageError, match="pieces must be skip or product, got 'mean'"):
        log_probability(GivenTokens(), QUERY, pieces="mean")


def test_against_a_model_with_both_masks_in_place(tiny_folder: Callable[..., Path]) -> None:
    torch = pytest.importorskip("torch")
    view = eh.open(f"hf:{tiny_folder('BertForMaskedLM')}").view("likelihood")
    query = eh.Query("q", {"f": ["she", "woman"], "m": ["he"]}, {"x": ["art", "nurses"], "y": ["math", "war"]})
    result = log_probability(view, query, templates=["{target} likes {attribute} ."])
    tokenizer, network = view.transformer.tokenizer, view.transformer.model

    def group(ids: Sequence[int], words: Sequence[str]) -> float:
        with torch.no_grad():
            probabilities = network(torch.tensor([ids])).logits[0, 1].softmax(-1)
        return math.log(sum(probabilities[tokenizer.convert_tokens_to_ids(word)].item() for word in words))

    for item in result.items:
        ids = tokenizer(f"[MASK] likes {item['word']} .")["input_ids"]
        masked = [4 if 3 <= place < len(ids) - 2 else token for place, token in enumerate(ids)]
        biases = [group(sentence, ["she", "woman"]) - group(sentence, ["he"]) for sentence in (ids, masked)]
        assert item["value"] == pytest.approx(biases[0] - biases[1], abs=1e-4)
