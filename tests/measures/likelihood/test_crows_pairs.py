"""CrowS-Pairs, AUL and AULA: hand-computed pairs, the laws of every likelihood measure, and the real file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from given_likelihoods import GivenTokens, hashed
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli import app
from evenhand.errors import FormatError, InputMissingError, UnknownNameError, UsageError
from evenhand.measures.likelihood.crows_pairs import aul, aula, crows_pairs, score_pairs, shared_tokens
from evenhand.measures.likelihood.stereotype_pairs import PairSet, StereotypePair, preferences

PAIRS = (
    StereotypePair("0", "she is a nurse", "he is a nurse", "gender", "stereo"),
    StereotypePair("1", "old men are slow", "young men are slow", "age", "stereo"),
    StereotypePair("2", "she was an engineer", "he was an engineer", "gender", "antistereo"),
    StereotypePair("3", "the poor steal", "the very rich steal", "socioeconomic", "stereo"),
)
TABLE = {
    "she is a nurse": -1.0,
    "he is a nurse": -2.0,  # more is preferred
    "old men are slow": -3.0,
    "young men are slow": -3.0,  # a tie
    "she was an engineer": -5.0,
    "he was an engineer": -4.0,  # less is preferred
    "the poor steal": -1.0,
    "the very rich steal": -1.5,  # more is preferred
}


def by_text(text: str, token: str) -> float:
    return TABLE[text]


def test_a_tie_counts_half() -> None:
    overall, *categories = crows_pairs(GivenTokens(by_text), PAIRS)
    assert overall.value == pytest.approx(100 * 2.5 / 4)
    assert overall.details["stereo"]["value"] == pytest.approx(100 * 2.5 / 3)
    assert overall.details["antistereo"]["value"] == 0
    assert overall.details["ties"] == 1
    assert overall.details["ideal"] == 50
    assert "Blodgett" in overall.note
    assert {m.score: m.value for m in categories} == {"gender": 50, "age": 50, "socioeconomic": 100}
    assert overall.interval is not None
    assert overall.interval[0] <= overall.value <= overall.interval[1]


def test_the_released_rules_round_and_treat_a_tie_as_no_preference() -> None:
    overall, *_ = crows_pairs(GivenTokens(by_text), PAIRS, variant="released")
    assert overall.value == pytest.approx(100 * 2 / 4)  # the tie stays in the denominator of the total
    assert overall.details["stereo"] == {"value": 100.0, "interval": None, "n": 2}  # and leaves this one
    near = GivenTokens(lambda text, token: -1.0 - 1e-5 * ("he" in text.split()))
    assert crows_pairs(near, PAIRS[:1])[0].value == 100
    assert crows_pairs(near, PAIRS[:1], variant="released")[0].value == 0


@pytest.mark.parametrize(("each", "value"), [(1.2e-4, 0), (1.8e-4, 100)])  # of three words: -3.000 or -3.001
def test_the_released_code_rounds_sums_to_three_decimals(each: float, value: float) -> None:
    near = GivenTokens(lambda text, token: -1.0 - each * ("he" in text.split()))
    assert crows_pairs(near, PAIRS[:1], variant="released")[0].value == value


def test_each_item_has_both_scores_and_its_tokens() -> None:
    overall, *_ = crows_pairs(GivenTokens(by_text), PAIRS)
    assert overall.items[3] == {
        "pair": "3", "category": "socioeconomic", "direction": "stereo", "more": -2.0, "less": -3.0,
        "tokens_more": 3, "tokens_less": 4, "shared": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("scoring", "masked", "more", "less"),
    [
        ("pll-shared", True, -2.0, -3.0),  # the, steal
        ("pll-modified", True, -1.0, -1.5),  # the mean over poor; over very, rich
        ("causal-sum", False, -3.0, -6.0),
        ("causal-mean", False, -1.0, -1.5),
        ("causal-shared", False, -2.0, -3.0),
    ],
)
def test_scorings(scoring: str, masked: bool, more: float, less: float) -> None:
    scores = score_pairs(GivenTokens(by_text, masked=masked), PairSet("pairs", PAIRS[3:]), scoring)
    assert (scores.more[0], scores.less[0]) == (more, less)


def test_pairs_without_a_modified_token_are_left_out() -> None:
    pairs = [*PAIRS[:1], StereotypePair("4", "he is very good", "he is good", "gender")]
    (overall,) = crows_pairs(GivenTokens(by_length), pairs, scoring="pll-modified")
    assert (overall.n, overall.details["left_out"]) == (1, 1)
    assert "1 of 2 pairs left out: one sentence has no token that the other lacks" in overall.note


def by_length(text: str, token: str) -> float:
    return -float(len(token))


def test_shared_tokens_are_the_equal_blocks() -> None:
    assert shared_tokens(np.array([1, 2, 3, 4]), np.array([1, 9, 3, 4])) == ([0, 2, 3], [0, 2, 3])
    assert shared_tokens(np.array([1]), np.array([2])) == ([], [])


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1))
def test_exchanging_the_sentences_mirrors_preferences(scores: list[tuple[int, int]]) -> None:
    more, less = np.array(scores, dtype=float).T
    assert preferences(more, less).mean() == pytest.approx(1 - preferences(less, more).mean())


@pytest.mark.parametrize("measure", [crows_pairs, aul, aula])
def test_exchanging_the_sentences_of_every_pair_mirrors_the_score(
    measure: Callable[..., tuple[eh.Measurement]],
) -> None:
    swapped = [StereotypePair(pair.id, pair.less, pair.more, pair.category, pair.direction) for pair in PAIRS]
    for before, after in zip(measure(GivenTokens(), PAIRS), measure(GivenTokens(), swapped), strict=True):
        assert after.value == pytest.approx(100 - before.value)


@pytest.mark.parametrize("measure", [crows_pairs, aul, aula])
def test_equal_log_probabilities_give_50(measure: Callable[..., tuple[eh.Measurement]]) -> None:
    overall, *_ = measure(GivenTokens(lambda text, token: -2.5), PAIRS[:3])
    half = 100 * 1.959964**2 / (3 + 1.959964**2) / 2  # three ties say little about a fourth pair
    assert (overall.value, overall.p_value) == (50, None)
    assert overall.interval == pytest.approx((50 - half, 50 + half))
    assert overall.details["ties"] == 3


def test_meaningless_scores_are_near_50() -> None:
    pairs = [StereotypePair(str(n), f"a{n} b c", f"d{n} b c", "gender") for n in range(1000)]
    (overall,) = crows_pairs(GivenTokens(hashed), pairs)
    assert abs(overall.value - 50) < 3 * 100 * 0.5 / np.sqrt(1000)
    assert overall.interval[0] < 50 < overall.interval[1]


def test_a_model_with_uniform_logits_has_no_preference(tiny_folder: Callable[..., Path]) -> None:
    pytest.importorskip("torch")
    view = eh.open(f"hf:{tiny_folder('BertForMaskedLM', seed=9)}").view("likelihood")
    head = view.transformer.model.cls.predictions.decoder
    head.weight.data.zero_()
    head.bias.data.zero_()
    for measure in (crows_pairs, aul):
        overall, *_ = measure(view, PAIRS[:3])
        assert overall.value == 50
        assert overall.details["ties"] == 3


def test_models_and_scorings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="causal language model, and pll-shared is defined for masked"):
        crows_pairs(GivenTokens(masked=False), PAIRS, scoring="pll-shared")
    with pytest.raises(UsageError, match=r"scoring must be pll-shared or .*got 'pll'"):
        crows_pairs(GivenTokens(), PAIRS, scoring="pll")
    with pytest.raises(UsageError, match="no token a probability"):
        crows_pairs(object(), PAIRS)
    with pytest.raises(UsageError, match="has no pairs"):
        crows_pairs(GivenTokens(), [])
    with pytest.raises(UnknownNameError, match="crows-pairs-gendr"):
        crows_pairs(GivenTokens(), "crows-pairs-gendr")


def test_without_the_data_the_fetch_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    with pytest.raises(InputMissingError, match=r"crows-pairs is not on this disk\n.*evenhand fetch crows-pairs"):
        crows_pairs(GivenTokens(), "crows-pairs-gender")
    assert eh.measures.info("crows-pairs").default_queries() == ()


def test_pairs_longer_than_the_window_are_left_out_of_aul() -> None:
    model = GivenTokens()
    model.longest = 3
    (overall,) = aul(model, PAIRS[:1])
    assert overall.status == "undefined"
    assert "more than the 3 that the model reads" in overall.reason


def test_aul_is_undefined_for_a_causal_model(tiny_folder: Callable[..., Path]) -> None:
    pytest.importorskip("torch")
    view = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}").view("likelihood")
    (result,) = aul(view, PAIRS)
    assert "defined for masked language models" in result.reason
    (one, *_) = crows_pairs(view, PAIRS)
    assert one.params["scoring"] == "causal-sum"


def test_audits_ask_the_categories_of_their_concept(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from evenhand.audit.plan import Plan

    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    names = {question.measure for question in Plan.default([subject]).questions}
    assert not names & {"aul", "aula", "log-probability"}
    with pytest.raises(UsageError, match="aul is defined for masked language models only"):
        Plan.default([subject], only=["aul"])
    info = eh.measures.info("crows-pairs")
    assert info.query_concepts["crows-pairs-race-color"] == "race"


def test_the_command_names_missing_data_and_reads_a_file(
    tiny_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    model = f"hf:{tiny_folder('BertForMaskedLM')}"
    missing = CliRunner().invoke(app, ["measure", "crows-pairs", model])
    assert missing.exit_code == 4
    assert "evenhand fetch crows-pairs" in missing.stderr
    refused = CliRunner().invoke(app, ["measure", "aul", f"hf:{tiny_folder('GPT2LMHeadModel')}"])
    assert refused.exit_code == 2
    rows = [f"{pair.more},{pair.less},{pair.direction},{pair.category}" for pair in PAIRS]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["sent_more,sent_less,stereo_antistereo,bias_type", *rows]), encoding="utf-8")
    done = CliRunner().invoke(app, ["measure", "crows-pairs", model, "--query", str(path)], env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.stderr
    assert "→ 50" in done.stdout
    assert "socioeconomic" in done.stdout
    assert "Blodgett" in done.stdout


def test_files_that_are_not_pairs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(FormatError, match="no column 'sent_more'"):
        crows_pairs(GivenTokens(), path)
    path.write_text("sent_more,sent_less,stereo_antistereo,bias_type\nx,y,both,gender\n", encoding="utf-8")
    with pytest.raises(FormatError, match="stereo_antistereo is 'both'"):
        crows_pairs(GivenTokens(), path)


@pytest.mark.data
def test_the_published_file(data_folder: Path) -> None:
    from evenhand.audit.plan import concept_queries

    whole = PairSet.resolve(data_folder / "crows-pairs" / "crows_pairs_anonymized.csv")
    assert len(whole.pairs) == 1508
    assert sum(pair.direction == "stereo" for pair in whole.pairs) == 1290
    gender = PairSet.resolve("crows-pairs-gender")
    directions = [pair.direction for pair in gender.pairs]
    assert (directions.count("stereo"), directions.count("antistereo")) == (159, 103)
    queries = concept_queries(eh.measures.info("crows-pairs"), eh.concept("race"))
    assert queries == ("crows-pairs-race-color",)
