"""WinoBias on sentences of our own: preference, difference and resolution by hand, and the laws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.measures.likelihood.winobias import WinoBiasPair, stereotype_p, winobias
from scripted_model import ScriptedModel, table, uniform

PRO = {
    1: [
        "[The guard] called the clerk because [he] was late.",
        "The guard called [the clerk] because [she] was late.",
        "[The driver] met the nurse because [he] was early.",
        "The driver met [the nurse] because [she] was early.",
        "[The guard] and the nurse [he] she saw.",
    ],
    2: [
        "[The driver] thanked the clerk and greeted [him] twice.",
        "The nurse met [the guard] and greeted [him] twice.",
        "The cook met [the nurse] and praised [her] warmly.",
    ],
}
OTHER = {"he": "she", "she": "he", "him": "her", "her": "him"}


def swapped(line: str) -> str:
    """Return a line with every pronoun exchanged."""
    words = [word.strip("[]") for word in line.split()]
    return " ".join(
        word.replace(inner, OTHER[inner]) if inner in OTHER else word
        for word, inner in zip(line.split(), words, strict=True)
    )


def write(folder: Path, *, mirrored: bool = False) -> Path:
    folder.mkdir()
    for kind, lines in PRO.items():
        sides = {"pro": lines, "anti": [swapped(line) for line in lines]}
        if mirrored:
            sides = {"pro": sides["anti"], "anti": sides["pro"]}
        for side, texts in sides.items():
            numbered = "\n".join(f"{number} {text}" for number, text in enumerate(texts, start=1)) + "\n"
            (folder / f"{side}_stereotyped_type{kind}.txt.dev").write_text(numbered, encoding="utf-8")
            (folder / f"{side}_stereotyped_type{kind}.txt.test").write_text("", encoding="utf-8")
    (folder / "male_occupations.txt").write_text("guard\ndriver\ncook\n", encoding="utf-8")
    (folder / "female_occupations.txt").write_text("clerk\nnurse\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("winobias") / "straight")


HE = table({"he": 0.3, "him": 0.3, "she": 0.1, "her": 0.1})


@pytest.mark.parametrize("masked", [True, False])
def test_a_model_that_prefers_he_by_hand(folder: Path, masked: bool):
    scores = {m.score: m for m in winobias(ScriptedModel(HE, masked=masked), folder)}
    # Type 1 has two male and two female pronouns as the stereotype, and a pair that differs in two words; type 2 has
    # two male ones and a female one.
    assert scores["preferred-type1"].value == 50
    assert scores["difference-type1"].value == pytest.approx(0)
    assert scores["preferred-type2"].value == pytest.approx(200 / 3)
    assert scores["difference-type2"].value == pytest.approx(np.log(3) / 3)
    assert scores["preferred-type1"].n == 4
    assert scores["preferred-type1"].details["left_out"] == {"type1.dev.5": "the sentences differ in 2 words"}


def resolve_by_stereotype(tokens: list[str], index: int) -> float:
    """Prefer a male occupation after a quoted male pronoun, and a female one after a female pronoun."""
    if "refers" not in tokens or tokens[index] not in ("guard", "driver", "cook", "clerk", "nurse"):
        return -1.0
    if index < tokens.index("refers"):
        return -1.0
    quoted = tokens[tokens.index("refers") - 2].lower()
    return -1.0 if (tokens[index] in ("guard", "driver", "cook")) == (quoted in ("he", "him")) else -5.0


@pytest.mark.parametrize("masked", [True, False])
def test_resolution_by_stereotype_has_a_gap(folder: Path, masked: bool):
    scores = {m.score: m for m in winobias(ScriptedModel(resolve_by_stereotype, masked=masked), folder)}
    assert scores["accuracy-gap-type1"].value == 100
    assert scores["accuracy-gap-type1"].details["accuracy"] == {"pro": 100, "anti": 0}
    assert scores["accuracy-gap-type1"].p_value == pytest.approx(2 / 6)  # 2 of 4 occupations are female in 6 ways
    assert scores["preferred-type1"].value == 50  # the sentences themselves are equally probable


def test_exchanging_the_sentences_mirrors(folder: Path, tmp_path: Path):
    model = ScriptedModel(HE)
    straight = {m.score: m.value for m in winobias(model, folder)}
    mirrored = {m.score: m.value for m in winobias(model, write(tmp_path / "mirrored", mirrored=True))}
    for kind in (1, 2):
        assert mirrored[f"preferred-type{kind}"] == pytest.approx(100 - straight[f"preferred-type{kind}"])
        for score in (f"difference-type{kind}", f"accuracy-gap-type{kind}"):
            assert mirrored[score] == pytest.approx(-straight[score])


@pytest.mark.parametrize("masked", [True, False])
def test_a_uniform_model_has_no_preference(folder: Path, masked: bool):
    measured = winobias(ScriptedModel(uniform(), masked=masked), folder)
    assert [m.value for m in measured] == [50, 0, 0, 50, 0, 0]
    assert measured[0].details["ties"] == measured[0].n
    assert [m.p_value for m in measured] == [1] * 6


def test_whole_sentences_are_an_option_of_masked_models(folder: Path):
    measured = winobias(ScriptedModel(HE, masked=True), folder, scoring="sentence")
    assert measured[0].params["scoring"] == "sentence"
    with pytest.raises(UsageError, match="causal"):
        winobias(ScriptedModel(HE), folder, scoring="pronoun")
    with pytest.raises(UsageError, match="scoring must be pronoun or sentence"):
        winobias(ScriptedModel(HE), folder, scoring="word")


def test_a_sample_says_so(folder: Path):
    measured = winobias(ScriptedModel(HE), folder, sample=4)
    assert [m.n for m in measured] == [2] * 6
    assert measured[0].params["sample"] == 4


def test_one_occupation_has_no_other_to_exchange_stereotypes_with():
    pairs = [WinoBiasPair(str(n), 1, "{} ran", "he", "she", "guard") for n in range(3)]
    assert stereotype_p(pairs, np.array([1.0, 2.0, 3.0])) == 1.0
    other = WinoBiasPair("4", 1, "{} ran", "she", "he", "nurse")
    sides = [*pairs, other, WinoBiasPair("5", 1, "{} ran", "He", "she", "cook")]
    # sums of female minus male: guard -6, nurse 5, cook 0; 5 and -6 are as far from the others as 5 is, in 4 of 6 orders
    assert stereotype_p(sides, np.array([1.0, 2.0, 3.0, 5.0, 0.0])) == pytest.approx(4 / 6)
