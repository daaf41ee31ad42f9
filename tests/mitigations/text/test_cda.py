from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand import words
from evenhand.corpus import Texts
from evenhand.errors import FormatError, UsageError
from evenhand.mitigations import CounterfactualAugmentation, TextChange
from evenhand.mitigations.text import cda
from evenhand.mitigations.text.cda import SPLIT, WordSwap, name_pairs, one_to_one, pair_names
from evenhand.mitigations.text.text_change import SwapCounts
from evenhand.words import Concept

SWAP = CounterfactualAugmentation().fit(None, "gender")
TWO_WAY = [word for pair in SWAP.pairs for word in pair if word not in ("mr", "mrs")]
NEUTRAL = ["the", "nurse", "saw", "a", "red", "house", "and", "it", "was", "old", "don't", "42", "well-known"]
MARKS = [" ", ", ", ". ", "\n", "'s ", " (", ") ", "; ", " — ", '" ', "\n\n"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He met his sister; HE knew her.", "She met her brother; SHE knew him."),
        ("The girl's mother-in-law isn't here: she's ill.", "The boy's father-in-law isn't here: he's ill."),
        ("Mr. King met Mrs. Smith.", "Mrs. King met Mr. Smith."),
        ("Queen Mary and Queen Beatrix", "King John and Queen Beatrix"),
        ("The King spoke, and the king left.", "The Queen spoke, and the queen left."),
        ("Stephen King, the Isle of Man", "Tessa King, the Isle of Man"),
        ("I asked Dad. Dear Sir, thanks.", "I asked Mom. Dear Madam, thanks."),
        ("I miss Miss Jones.", "I miss Mr Jones."),
        ("Everyone brings his or her ticket.", "Everyone brings her or his ticket."),
        ("LeBron James in San Antonio", "LeBron James in San Antonio"),
        ("Chairman Lee and an uncle of hers", "Chairwoman Lee and an aunt of his"),
        ("theatre, shepherd, heroic, human", "theatre, shepherd, heroic, human"),
        ("", ""),
    ],
)
def test_examples(text: str, expected: str) -> None:
    assert SWAP(text) == expected


@pytest.mark.parametrize(("half", "right", "count"), [("tuning", 54, 55), ("held-out", 44, 50)])
def test_the_documented_accuracy_on_hard_sentences(half: str, right: int, count: int) -> None:
    """Capitals, of his, his alone, elected her president, and names with a gender word.

    The held-out sentences were written before the rules, and no rule was changed after a look at them.
    """
    lines = (Path(__file__).parent / f"hard-sentences-{half}.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert len(rows) == count
    assert sum(SWAP(text) == expected for text, expected in rows) == right


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HE LEFT HIS HOUSE, AND MR. KING WAITED.", "SHE LEFT HER HOUSE, AND MRS. KING WAITED."),
        ("She heard Queen and Bowie, and a song by Prince.", "He heard Queen and Bowie, and a song by Prince."),
        ("For King and country, he became King.", "For Queen and country, she became Queen."),
        ("The exiled King held the rank of Prince.", "The exiled Queen held the rank of Princess."),
        ("He-Man met She-Hulk and a she-wolf.", "He-Man met She-Hulk and a he-wolf."),
        ("The Vice-Chairman saw The King's Speech.", "The Vice-Chairwoman saw The King's Speech."),
    ],
)
def test_names_and_capitals(text: str, expected: str) -> None:
    assert SWAP(text) == expected


def test_without_names_a_queen_with_a_name_stays() -> None:
    swap = CounterfactualAugmentation(names=False).fit(None, "gender")
    assert swap("Queen Anne told Emma that the queen left.") == "Queen Anne told Emma that the king left."


def test_the_pairs_alone() -> None:
    swap = CounterfactualAugmentation(lists=False).fit(None, "gender")
    assert swap("Her uncle is a man.") == "His uncle is a woman."


def documents() -> st.SearchStrategy[str]:
    word = st.sampled_from(TWO_WAY + NEUTRAL + ["she", "he", "him", "hers"])
    cased = st.builds(lambda text, how: getattr(text, how)(), word, st.sampled_from(["lower", "upper"]))
    return st.lists(st.tuples(cased, st.sampled_from(MARKS)), max_size=40).map(
        lambda items: "".join(part for item in items for part in item)
    )


@settings(max_examples=150, deadline=None)
@given(documents())
def test_swapping_twice_restores_what_has_one_counterpart(text: str) -> None:
    text = text.replace("HERS", "").replace("hers", "").replace("HIM", "").replace("him", "")
    assert SWAP(SWAP(text)) == text


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(NEUTRAL + MARKS), max_size=30).map("".join))
def test_a_document_without_listed_words_is_unchanged(text: str) -> None:
    counts = SwapCounts()
    assert SWAP.change(text, counts) == text
    assert not counts.swapped


@settings(max_examples=100, deadline=None)
@given(documents())
def test_length_in_words_and_all_marks_are_kept(text: str) -> None:
    before, after = SPLIT.split(text), SPLIT.split(SWAP(text))
    assert len(before) == len(after)
    assert before[::2] == after[::2]


@settings(max_examples=100, deadline=None)
@given(st.lists(documents(), max_size=6), st.integers(1, 60))
def test_a_stream_gives_the_same_as_whole_documents(texts: list[str], piece: int) -> None:
    stream = "".join(f"{text} her book. She gave his\0" for text in texts)
    pieces = [stream[start : start + 7] for start in range(0, len(stream), 7)]
    counts, whole = SwapCounts(), SwapCounts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cda, "PIECE", piece)
        streamed = "".join(SWAP.stream(pieces, counts))
    expected = "".join(SWAP.change(text, whole) + "\0" for text in stream.split("\0")[:-1])
    assert streamed == expected
    assert counts.to_dict() == whole.to_dict()


def test_articles_follow_the_new_word() -> None:
    swap = CounterfactualAugmentation(seed=1).fit(None, "nationality")
    for text in ("an American with a Chinese friend", "A german and an egyptian"):
        changed = swap(text).lower().split()
        for article, word in pairwise(changed):
            if article in ("a", "an"):
                assert article == ("an" if word[0] in "ae" else "a")


def sides(texts: list[str]) -> tuple[int, int]:
    female = {a for a, _ in SWAP.pairs} | {"she", "her", "hers", "herself"}
    male = {b for _, b in SWAP.pairs} | {"he", "him", "his", "himself"}
    tokens = [word.lower() for text in texts for word in SPLIT.findall(text)]
    return sum(word in female for word in tokens), sum(word in male for word in tokens)


TEXTS = [
    "She is a nurse and her brother is a doctor. He likes his work.",
    "The man fixed the car while the women watched him.",
    "His mother taught her son to cook; the boy loved it.",
] * 40


def test_a_two_sided_corpus_has_both_sides_equally_often() -> None:
    assert SWAP.keeps_original
    augmented = list(SWAP.documents(TEXTS))
    assert augmented[::2] == TEXTS
    female, male = sides(augmented)
    assert female == male > 0
    one_sided = CounterfactualAugmentation(sides="one").fit(None, "gender")
    assert list(one_sided.documents(TEXTS)) == augmented[1::2]


def test_the_corpus_bias_of_a_two_sided_corpus_is_zero() -> None:
    before = eh.corpus.bias(Texts(TEXTS), lists="bordia2019-cnn-dm")
    assert before.mu > 0.1
    after = eh.corpus.bias(Texts(list(SWAP.documents(TEXTS))), lists="bordia2019-cnn-dm")
    listed = {word for pair in (*SWAP.pairs, *SWAP.names) for word in pair}
    scores = {word: score for word, score in after.scores.items() if word not in listed}
    assert len(scores) > 15
    assert max(map(abs, scores.values())) < 1e-12


def test_every_word_of_the_measure_has_a_counterpart() -> None:
    table = SWAP._tables[0]
    assert all(word in table for pair in words.pairs("bordia2019-cnn-dm") for word in pair)


def test_three_groups_draw_the_group_per_document() -> None:
    swap = CounterfactualAugmentation().fit(None, "religion")
    texts = [f"{number}: a Jew, a Christian and a MUSLIM in the church" for number in range(60)]
    changed = [swap(text).split(": ")[1] for text in texts]
    assert set(changed) == {
        "a Christian, a Muslim and a JEW in the mosque",
        "a Muslim, a Jew and a CHRISTIAN in the synagogue",
    }
    streamed = "".join(swap.stream(["".join(text + "\0" for text in texts)]))
    assert streamed == "".join(swap(text) + "\0" for text in texts)
    other = CounterfactualAugmentation().fit(None, "religion", seed=3)
    assert [other(text) for text in texts] != [swap(text) for text in texts]
    assert {swap.change(text, key="one record").split(": ")[1] for text in texts[:9]} <= {changed[0], *changed}


def test_concepts_that_cannot_be_swapped_are_refused() -> None:
    with pytest.raises(UsageError, match="differ in length"):
        CounterfactualAugmentation().fit(None, Concept("three", groups={"a": ["x"], "b": ["y", "z"], "c": ["w"]}))
    with pytest.raises(UsageError, match="unknown sides 'both'"):
        CounterfactualAugmentation(sides="both").fit(None, "gender")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="several counterparts"):
        WordSwap(pairs=(("a", "b"), ("b", "c")))


def test_gender_is_known_by_its_pronouns_in_either_order() -> None:
    groups = {"a": ["he"], "b": ["she"]}
    for pair in (("he", "she"), ("she", "he")):
        swap = CounterfactualAugmentation().fit(None, Concept("own", groups=groups, pairs=[pair]))
        assert swap("The actress is his aunt.") == "The actor is her uncle."
    other = CounterfactualAugmentation().fit(None, Concept("own", groups=groups, pairs=[("it", "they")]))
    assert other("The actress is his aunt.") == "The actress is his aunt."


def test_the_second_counterpart_of_a_word_is_not_used_and_reported() -> None:
    assert one_to_one([("black", "white"), ("black", "caucasian"), ("white", "black")]) == (
        [("black", "white")],
        [("black", "caucasian")],
    )
    assert ["african", "caucasian"] in CounterfactualAugmentation().fit(None, "race").report["pairs_unused"]


def test_a_change_is_saved_loaded_and_composed(tmp_path: Path) -> None:
    religion = CounterfactualAugmentation().fit(None, "religion")
    chain = religion @ SWAP
    text = "She met a rabbi."
    assert chain(text) == religion(SWAP(text))
    assert list(chain.documents([text])) == [text, religion(text), SWAP(text), religion(SWAP(text))]
    for change in (SWAP, religion, chain):
        back = TextChange.load(change.save(tmp_path / "change.json"))
        assert back == change
        assert back.report == json.loads(json.dumps(dict(change.report)))
        assert back(text) == change(text)
    assert len({SWAP.digest, religion.digest, chain.digest}) == 3
    assert SWAP.report["method"] == "cda"
    assert SWAP.report["concept"] == "gender"


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    file = SWAP.save(tmp_path / "change.json")
    file.write_text(file.read_text(encoding="utf-8").replace('"she"', '"sheep"'), encoding="utf-8")
    with pytest.raises(FormatError, match="checksum"):
        TextChange.load(file)
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(FormatError, match="not a text change"):
        TextChange.load(file)


def test_names_are_paired_by_frequency_and_specificity() -> None:
    first = np.array([[1.0, 1.0], [5.0, 1.0], [9.0, 0.8]])
    second = np.array([[9.1, 0.8], [1.1, 1.0], [5.1, 0.9]])
    assert pair_names("ABC", "XYZ", first, second) == (("A", "Y"), ("B", "Z"), ("C", "X"))
    pairs = name_pairs()
    assert len(pairs) == len({name for pair in pairs for name in pair}) / 2 == 700
    births = {n: b for id in ("female", "male") for n, b in _births(id)}
    ratios = [max(births[a], births[b]) / min(births[a], births[b]) for a, b in pairs]
    assert np.median(ratios) < 1.4


def _births(side: str) -> list[tuple[str, float]]:
    names = words.wordset(f"counterfactual-names-{side}")
    return list(zip(names.words, names.scores["births"], strict=True))
