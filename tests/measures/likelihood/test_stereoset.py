"""StereoSet: scores by hand, the released predictions, and the blank of each sentence."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from given_likelihoods import GivenTokens, hashed

import evenhand as eh
from evenhand.errors import FormatError, InputMissingError, UsageError
from evenhand.measures.call import Call
from evenhand.measures.likelihood.stereoset import (
    StereoExample,
    StereoScores,
    StereoSentence,
    TermTable,
    choice_measurements,
    read_stereoset,
    stereoset,
    stereoset_scores,
)
from evenhand.measures.likelihood.stereotype_pairs import PairVariant
from evenhand.models.lm.likelihood import TextScores

# Published predictions of the authors, with the scores that encoders.md computed from them.
ORACLE = [
    ("gpt2_ModelNSP_GPT2LM", "all", "term-mean", (83.65, 57.03, 71.89)),
    ("gpt2_ModelNSP_GPT2LM", "intra", "term-mean", (91.11, 61.93, 69.37)),
    ("gpt2_ModelNSP_GPT2LM", "inter", "term-mean", (76.26, 52.28, 72.79)),
    ("gpt2_ModelNSP_GPT2LM", "all", "pooled", (83.62, 56.92, 72.06)),
    ("bert-base-cased_BertNextSentence_BertLM", "all", "term-mean", (85.77, 59.56, 69.38)),
]


def example(number: int, target: str, word: str = "kind", task: str = "intra") -> StereoExample:
    texts = [f"The {target} was {kind}{number}." for kind in ("rude", word, "fish")]
    sentences = [StereoSentence(f"{number}-{place}", text) for place, text in enumerate(texts)]
    context = f"The {target} was BLANK." if task == "intra" else "They met."
    return StereoExample(str(number), task, target, "gender", context, *sentences)


# Terms of different size: the first always prefers the stereotype, the second never.
EXAMPLES = [example(0, "nurse"), example(1, "nurse"), example(2, "nurse"), example(3, "boss")]


def predictions(stereotype: dict[int, float]) -> dict[str, float]:
    return {
        f"{number}-{place}": value
        for number, score in stereotype.items()
        for place, value in enumerate((score, 2.0, 1.0))
    }


def test_scores_by_hand() -> None:
    given = predictions({0: 3.0, 1: 3.0, 2: 0.0, 3: 0.0})
    # nurse: related 3 anti + 2 stereotypes of 6, stereotype preferred in 2 of 3; boss: 1 of 2, 0 of 1.
    expected = 100 * (5 / 6 + 1 / 2) / 2, 100 * (2 / 3 + 0) / 2
    assert stereoset_scores(EXAMPLES, given) == pytest.approx((*expected, expected[0] * expected[1] / 50))
    pooled = stereoset_scores(EXAMPLES, given, averaging="pooled")
    assert pooled == pytest.approx((100 * 6 / 8, 100 * 2 / 4, 75.0))
    tie = stereoset_scores(EXAMPLES[3:], predictions({3: 2.0}))
    assert tie == StereoScores(100, 50, 100)
    assert stereoset_scores(EXAMPLES[3:], predictions({3: 2.0}), variant="released") == StereoScores(100, 0, 0)


def test_an_ideal_model_and_a_random_one() -> None:
    examples = [example(number, f"term{number % 40}") for number in range(2000)]
    ideal = predictions({number: 3.0 if number // 40 % 2 else 1.5 for number in range(2000)})
    assert stereoset_scores(examples, ideal) == pytest.approx((100, 50, 100))
    random = {sentence.id: hashed(sentence.id, "") for one in examples for sentence in one.sentences}
    assert np.allclose(stereoset_scores(examples, random), 50, atol=5)


def test_measurements_of_a_masked_model() -> None:
    results = {m.score: m for m in stereoset(GivenTokens(hashed), EXAMPLES)}
    assert list(results) == ["intra-lms", "intra-ss", "intra-icat", "inter-lms", "inter-ss", "inter-icat"]
    given = {s.id: hashed(s.text, s.text.split()[-1].rstrip(".")) for one in EXAMPLES for s in one.sentences}
    expected = stereoset_scores(EXAMPLES, given)
    assert [results[f"intra-{name}"].value for name in StereoScores._fields] == pytest.approx(list(expected))
    assert results["intra-ss"].interval is None  # two terms say nothing about others
    assert results["intra-ss"].details["ideal"] == 50
    assert results["inter-ss"].reason == "no examples"
    info = eh.measures.info("stereoset")
    assert (info.better_score("intra-ss"), info.better_score("intra-lms")) == ("fifty", "higher")


def test_between_sentences_needs_a_head_or_a_causal_model() -> None:
    examples = [example(number, f"t{number}", task="inter") for number in range(4)]
    results = {m.score: m for m in stereoset(GivenTokens(), examples)}
    assert results["inter-ss"].reason == "given is a masked language model without a next-sentence head"
    causal = {m.score: m for m in stereoset(GivenTokens(masked=False), examples)}
    assert causal["inter-ss"].n == 4
    # Only the sentence after the context is scored: a context of any probability gives the same.
    shifted = GivenTokens(lambda text, token: hashed(text, token) - 9 * (token in ("They", "met.")), masked=False)
    assert stereoset(shifted, examples)[4].value == causal["inter-ss"].value


def test_exchanging_stereotypes_and_anti_stereotypes_mirrors_the_score() -> None:
    swapped = [
        StereoExample(e.id, e.task, e.target, e.domain, e.context, e.anti, e.stereotype, e.unrelated) for e in EXAMPLES
    ]
    before, after = (stereoset(GivenTokens(), examples) for examples in (EXAMPLES, swapped))
    assert after[0].value == pytest.approx(before[0].value)
    assert after[1].value == pytest.approx(100 - before[1].value)


def test_the_blank_of_a_sentence() -> None:
    one = StereoExample(
        "0", "intra", "t", "race", "the man is BLANK and BLANK.", *(StereoSentence(str(n), "x") for n in range(3))
    )
    assert one.blank(StereoSentence("0", "The man is kind and kind.")) is None
    two = StereoExample("0", "intra", "t", "race", "the BLANK-man is here.", *one.sentences)
    sentence = StereoSentence("0", "The Snow-man is here.")
    assert sentence.text[slice(*two.blank(sentence))] == "Snow"
    assert two.blank(StereoSentence("0", "Something else.")) is None
    assert two.refilled(sentence) == "the Snowman-man is here."  # the released code's word is the whole Snow-man


def test_a_masked_model_with_a_next_sentence_head(tiny_folder: Callable[..., Path]) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    folder = tiny_folder("BertForPreTraining")
    view = eh.open(f"hf:{folder}").view("likelihood")
    logs = view.next_sentence.log_probabilities(["she is here", "he"], ["he was not", "x " * 70])
    whole = transformers.BertForPreTraining.from_pretrained(folder).eval()
    ids = view.transformer.tokenizer("she is here", "he was not", return_tensors="pt")
    with torch.no_grad():
        expected = whole(**ids).seq_relationship_logits.log_softmax(-1)[0, 0].item()
    assert logs[0] == pytest.approx(expected, abs=1e-5)
    assert np.isnan(logs[1])  # longer than the window
    examples = [example(number, f"t{number}", task="inter") for number in range(4)]
    assert stereoset(view, examples)[4].value is not None
    assert eh.open(f"hf:{tiny_folder('BertForMaskedLM')}").view("likelihood").next_sentence is None


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.json").write_text("[]", encoding="utf-8")
    with pytest.raises(FormatError, match="not a part of StereoSet"):
        read_stereoset(tmp_path / "bad.json")
    with pytest.raises(UsageError, match="averaging must be term-mean or pooled, got 'mean'"):
        stereoset(GivenTokens(), EXAMPLES, averaging="mean")
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    with pytest.raises(InputMissingError, match="evenhand fetch stereoset-test"):
        stereoset(GivenTokens(), "stereoset-test-gender")


@pytest.mark.data
@pytest.mark.parametrize(("name", "task", "averaging", "expected"), ORACLE)
def test_released_predictions_give_the_published_scores(
    name: str, task: str, averaging: str, expected: tuple[float, ...], data_folder: Path
) -> None:
    examples = [e for e in read_stereoset(data_folder / "stereoset" / "dev.json") if task in ("all", e.task)]
    with gzip.open(data_folder / "stereoset-predictions" / f"{name}.json.gz") as file:
        parts = json.load(file)
    given = {item["id"]: item["score"] for part in parts.values() for item in part}
    scores = stereoset_scores(examples, given, averaging=averaging, variant="released")
    assert tuple(round(score, 2) for score in scores) == expected


@pytest.mark.data
def test_the_development_part(data_folder: Path) -> None:
    examples = read_stereoset(data_folder / "stereoset" / "dev.json")
    intra = [one for one in examples if one.task == "intra"]
    assert (len(intra), len(examples) - len(intra)) == (2106, 2123)
    assert len({one.target for one in examples}) == 79
    blanks = [one.blank(sentence) for one in intra for sentence in one.sentences]
    assert blanks.count(None) == 6  # the two contexts with two blanks
    differing = sum(one.refilled(sentence) != sentence.text for one in intra for sentence in one.sentences)
    assert differing == 2385


def test_the_released_code_fills_the_context_by_place_and_averages_probabilities() -> None:
    asked: list[tuple[str, str]] = []

    def score(text: str, token: str) -> float:
        asked.append((text, token))
        return hashed(text, token)

    hyphenated = StereoExample(
        "4", "intra", "nurse", "gender", "The nurse was BLANK.",
        *(StereoSentence(f"4-{n}", f"The nurse was {word}.") for n, word in enumerate(("ill-bred", "Kind", "fish"))),
    )  # fmt: skip
    results = stereoset(GivenTokens(score), [*EXAMPLES, hyphenated], variant="released")
    assert asked[-3:] == [(f"The nurse was {word}.", word) for word in ("illbred", "Kind", "fish")]
    ids = [sentence.id for one in (*EXAMPLES, hyphenated) for sentence in one.sentences]
    given = {id: np.exp(hashed(*one)) for id, one in zip(ids, asked, strict=True)}
    expected = stereoset_scores([*EXAMPLES, hyphenated], given, variant="released")
    assert [m.value for m in results[:3]] == pytest.approx(list(expected))


class TwoTokens(GivenTokens):
    """Every blank has two tokens: those of the first words differ much in probability, those of the others do not."""

    def span_log_probabilities(self, texts: Sequence[str], spans: Sequence[object], **how: object) -> list[np.ndarray]:
        return [np.log([0.9, 0.01]) if "rude" in text else np.log([0.3, 0.3]) for text in texts]


@pytest.mark.parametrize(("variant", "ss"), [("corrected", 0), ("released", 100)])  # 0.09 < 0.3 and 0.455 > 0.3
def test_the_released_code_averages_probabilities_of_tokens(variant: PairVariant, ss: float) -> None:
    results = {m.score: m.value for m in stereoset(TwoTokens(), EXAMPLES, variant=variant)}
    assert results["intra-ss"] == ss


class GivenTexts:
    """A causal model with the log-probabilities of a function; texts have as many tokens as words."""

    name, masked = "given", False
    token_ids = GivenTokens.token_ids
    token_log_probabilities = GivenTokens.token_log_probabilities
    filler_log_probabilities = GivenTokens.filler_log_probabilities

    def log_probabilities(self, texts: list[str], *, batch: int | None = None) -> TextScores:
        counts = np.array([len(text.split()) for text in texts])
        return TextScores(np.array([hashed(text, "") for text in texts]) * counts, counts)


def test_a_causal_model_compares_log_probabilities_per_token() -> None:
    results = stereoset(GivenTexts(), EXAMPLES)
    given = {sentence.id: hashed(sentence.text, "") for one in EXAMPLES for sentence in one.sentences}
    assert [m.value for m in results[:3]] == pytest.approx(list(stereoset_scores(EXAMPLES, given)))


def test_a_text_of_one_word_has_the_log_probability_of_that_word() -> None:
    one = StereoExample(
        "0", "intra", "t", "race", "BLANK", *(StereoSentence(f"0-{n}", text) for n, text in enumerate("abc"))
    )
    given = {sentence.id: hashed(sentence.text, "") for sentence in one.sentences}
    longer = StereoExample(
        "1", "intra", "t", "race", "BLANK", *(StereoSentence(f"1-{n}", f"{text} x") for n, text in enumerate("abc"))
    )
    given |= {sentence.id: hashed(sentence.text, "") for sentence in longer.sentences}
    mixed = StereoExample(
        "2", "intra", "t", "race", "BLANK", longer.sentences[0], one.sentences[1], longer.sentences[2]
    )
    results = stereoset(GivenTexts(), [one, longer, mixed])
    assert [m.value for m in results[:3]] == pytest.approx(list(stereoset_scores([one, longer, mixed], given)))


def test_choices_by_hand() -> None:
    call = Call(eh.measures.info("stereoset"), query="own")
    rows = {m.score: m for m in choice_measurements(call, EXAMPLES, [0, 1, 2, 1])}
    assert set(rows) == {"intra-lms", "intra-ss"}  # there is no example of the other task
    assert rows["intra-lms"].value == pytest.approx(100 * (2 / 3 + 1) / 2)  # nurse: 2 of 3 choices are related
    assert rows["intra-ss"].value == pytest.approx(100 * (1 / 2 + 0) / 2)  # of the related ones, 1 of 2 and 0 of 1
    unrelated = {m.score: m for m in choice_measurements(call, EXAMPLES, [2, 2, 2, 2])}
    assert unrelated["intra-lms"].value == 0
    assert unrelated["intra-ss"].reason == "every answer is the unrelated text"
    silent = choice_measurements(call, EXAMPLES, [None, None, None, None])
    assert [m.reason for m in silent] == ["4 of 4 answers choose none of the three"] * 2


def test_the_p_value_is_the_larger_one_of_terms_and_words_at_50_per_cent() -> None:
    even, all_of_them = [0.0, 0.0, 1.0, 1.0], [1.0] * 4
    for by_term, by_word in ((all_of_them, even), (even, all_of_them)):
        words = tuple((f"word{n}", n, win) for n, win in enumerate(by_word))
        table = TermTable(tuple("abcd"), np.ones(4), np.ones(4), np.array(by_term), words)
        assert table.p_value("term-mean") == table.p_value("pooled") == 1
    assert TermTable(tuple("abcd"), np.ones(4), np.ones(4), np.ones(4), words).p_value("term-mean") == 2 / 16
