"""Judges of what models write: scores counted by hand, groups, judges that react to the group themselves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import EvenhandError, FormatError, UsageError
from evenhand.measures import Measurement
from evenhand.measures.text.judged_generations import kappa, prompt_set
from evenhand.subjects.judges import Lexicon, judge_sources, open_judge
from evenhand.words import as_concept


class Writer:
    """Writes what a function of the prompt and the number of the sample says."""

    name = "writer"

    def __init__(self, write: Any) -> None:
        self.write = write

    def continuations(
        self, prompts: Sequence[str], *, samples: int, tokens: int, temperature: float = 1.0, seed: int = 0
    ) -> list[list[str]]:
        return [[self.write(prompt, number) for number in range(samples)] for prompt in prompts]


def scores(writer: Any, *arguments: Any, **options: Any) -> dict[str, Measurement]:
    return {m.score: m for m in eh.measures.judged_generations(writer, *arguments, **options)}


def test_expected_maximum_and_share_by_hand() -> None:
    judge = Lexicon("words", {"bad": 0.4, "awful": 1.0})
    texts = {("She said", 0): "a bad day", ("She said", 1): "bad bad", ("He said", 0): "fine", ("He said", 1): "awful"}
    found = scores(Writer(lambda prompt, number: texts[prompt, number]), ["She said"], judge=judge, samples=2)
    # maxima: she .8 (two words of .4), he 1.0
    assert found["expected-maximum"].value == pytest.approx(0.9)
    assert found["share-above"].value == 1.0
    assert found["gap"].value == pytest.approx((0.4 + 0.8) / 2 - 0.5)
    assert found["gap"].positive == "female"
    assert found["judge-gap"].value == 0
    assert "the judge alone gives the same sentences +0.000" in found["gap"].reading
    assert found["gap"].details["judges"]["words"]["by_group"]["male"]["mean"] == pytest.approx(0.5)


def test_texts_that_ignore_the_group_have_no_gap() -> None:
    writer = Writer(lambda prompt, number: "awful" if number % 2 else "fine")
    found = scores(writer, judge=Lexicon("words", {"awful": 1.0}))
    assert found["gap"].value == 0
    assert found["gap"].p_value == 1.0
    assert found["expected-maximum"].value == 1.0


def test_texts_that_follow_the_group_are_found() -> None:
    female = set(prompt_set("person-prompts", as_concept("gender"), rows=None, sample=None, seed=0).prompts[::2])
    writer = Writer(lambda prompt, number: "awful" if prompt in female else "fine")
    found = scores(writer, judge=Lexicon("words", {"awful": 1.0}), rows=None)
    assert found["gap"].value == 1.0
    assert found["gap"].p_value < 0.05
    swapped = Writer(lambda prompt, number: "fine" if prompt in female else "awful")
    assert scores(swapped, judge=Lexicon("words", {"awful": 1.0}), rows=None)["gap"].value == -1.0


def test_a_judge_that_reacts_to_the_group_itself_makes_the_gap_meaningless() -> None:
    writer = Writer(lambda prompt, number: prompt)
    found = scores(writer, judge=Lexicon("women", {"she": 1.0, "woman": 1.0, "girl": 1.0, "mary": 1.0, "female": 1.0,
                                                   "lady": 1.0, "mother": 1.0, "sister": 1.0, "daughter": 1.0,
                                                   "wife": 1.0, "aunt": 1.0, "her": 1.0}), rows=None)  # fmt: skip
    assert found["judge-gap"].value > 0.4
    assert found["judge-gap"].p_value is None
    assert found["gap"].not_interpretable.startswith("the judge by itself prefers a group as much")


def test_several_judges_and_their_agreement() -> None:
    one, other = Lexicon("one", {"bad": 1.0}), Lexicon("other", {"bad": 1.0, "sad": 1.0})
    texts = ["bad", "sad", "fine", "fine"]
    found = scores(Writer(lambda prompt, number: texts[number]), ["She said"], judge=[one, other])
    first, second = np.array([1, 0, 0, 0] * 2), np.array([1, 1, 0, 0] * 2)
    assert found["judge-correlation"].value == pytest.approx(np.corrcoef(first, second)[0, 1])
    # 3 of 4 agree; by chance .25 * .5 + .75 * .5
    assert found["judge-kappa"].value == pytest.approx((0.75 - 0.5) / 0.5)
    assert set(found["gap"].details["judges"]) == {"one", "other"}
    assert kappa(np.zeros(3), np.zeros(3)) is None


def test_records_of_prompts_with_groups(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    lines = [{"prompt": f"{group} person {n} was", "group": group} for group in ("old", "young") for n in range(8)]
    file.write_text("\n".join(map(json.dumps, lines)))
    writer = Writer(lambda prompt, number: "awful" if prompt.startswith("old") else "fine")
    found = scores(writer, str(file), judge=Lexicon("words", {"awful": 1.0}), concept="age")
    assert found["gap"].value == 1.0
    assert found["gap"].p_value == pytest.approx(2 / 12870, abs=2e-3)
    file.write_text('{"prompt": "x"}\n')
    with pytest.raises(FormatError, match="line 1: not a record"):
        scores(writer, str(file))


def test_own_prompts_are_asked_about_every_group(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("The man was known for\nNobody knows\n")
    asked = prompt_set(str(file), as_concept("gender"), rows=None, sample=None, seed=0)
    assert asked.prompts == ["The woman was known for", "The man was known for"]
    assert asked.details == {"without_group": 1}


@pytest.mark.filterwarnings("ignore:.*differs from the catalog")
def test_bold_compares_persons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenhand.data import catalog
    from evenhand.data.local_copies import data_path

    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    folder = tmp_path / data_path(catalog()["bold"])
    folder.mkdir(parents=True)
    for file in catalog()["bold"].files:
        (folder / file.name).write_text("{}")
    people = {
        "American_actresses": {f"A{n}": ["A is ", "A was "] for n in range(6)},
        "American_actors": {f"B{n}": ["B is "] for n in range(6)},
    }
    (folder / "gender_prompt.json").write_text(json.dumps(people))
    asked = prompt_set("bold", as_concept("gender"), rows=None, sample=10, seed=0)
    assert np.bincount(asked.codes).tolist() == [5, 5]
    found = scores(
        Writer(lambda prompt, number: "awful" if prompt[0] == "A" else ""), "bold", judge=Lexicon("w", {"awful": 1.0})
    )
    assert found["gap"].value == 1.0
    assert found["expected-maximum"].details["empty"] == 6 * 4
    undefined = scores(Writer(str), "bold", concept="age")
    assert undefined["expected-maximum"].status == "undefined"


def test_judges_that_cannot_judge_are_refused(tmp_path: Path) -> None:
    for source, label, message in (
        ("glove-embedded", "", "labels no texts, so it cannot be a judge"),
        ("unpleasant-words", "toxic", "there is no label of unpleasant-words"),
        (f"lexicon:{tmp_path / 'none.txt'}", "", "does not exist"),
    ):
        with pytest.raises(EvenhandError) as refused:
            open_judge(source, label)
        assert message in refused.value.message
    (tmp_path / "bad.txt").write_text("word\tmuch\n")
    with pytest.raises(FormatError, match="'much' is not a weight"):
        open_judge(f"lexicon:{tmp_path / 'bad.txt'}")
    with pytest.raises(UsageError, match="1 judges and 2 labels"):
        scores(Writer(str), judge="unpleasant-words", judge_label="a,b")


def test_a_word_list_with_signs_has_two_labels(tmp_path: Path) -> None:
    file = tmp_path / "words.tsv"
    file.write_text("# weights\ngood\t2.5\t0.3\nbad\t-0.75\n")
    judge = open_judge(f"lexicon:{file}", "negative")
    assert judge.scores(["Bad, good", "bad bad", "", "goodness"]).tolist() == [0.75, 1.0, 0.0, 0.0]
    assert judge_sources(f"lexicon:{file}, unpleasant-words") == [str(file), "unpleasant-words"]


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_prompts_changes_nothing(order: int) -> None:
    rng = np.random.default_rng(0)
    kept = {}
    writer = Writer(lambda prompt, number: kept.setdefault((prompt, number), "awful" if rng.random() < 0.5 else "x"))
    prompts = [f"The man met person {n}" for n in range(12)]
    first = scores(writer, prompts, judge=Lexicon("w", {"awful": 1.0}), seed=1)
    second = scores(writer, prompts[::order], judge=Lexicon("w", {"awful": 1.0}), seed=1)
    for score in ("gap", "expected-maximum", "share-above"):
        assert second[score].value == pytest.approx(first[score].value)
