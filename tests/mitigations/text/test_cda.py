from __future__ import annotations

import hashlib
import itertools
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
from evenhand.mitigations.text.cda import SPLIT, WordSwap, _agreeing, _in_case_of, name_pairs, one_to_one, pair_names
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


# The swap itself, by hand -------------------------------------------------------------------------------------------

OWN = WordSwap(
    pairs=(("king", "queen"), ("actor", "actress"), ("Jack", "Jill")),
    one_way=(("lad", "girl"),),
    names=(("emma", "noah"),),
)


def counted(swap: WordSwap, text: str) -> tuple[str, SwapCounts]:
    counts = SwapCounts()
    return swap.change(text, counts), counts


def test_spellings_and_counts_by_hand() -> None:
    text, counts = counted(OWN, "A king, AN ACTOR and an Actress; girl LAD jack Jill JACK, Emma emma kINg")
    assert text == "A queen, AN ACTRESS and an Actor; girl GIRL jack Jack JILL, Noah noah kINg"
    assert (counts.documents, counts.words, counts.forms) == (1, 15, 0)
    assert dict(counts.swapped) == {
        ("king", "queen"): 1, ("actor", "actress"): 1, ("actress", "actor"): 1, ("lad", "girl"): 1, ("jill", "jack"): 1,
        ("jack", "jill"): 1, ("emma", "noah"): 2,
    }  # fmt: skip
    assert (dict(counts.kept), counts.uncertain.total()) == ({}, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("an owl A owl AN owl An owl", "a cat A cat A cat A cat"),
        ("a owl", "a cat"),
        ("a cat A cat", "an owl An owl"),
        ("an cat", "an owl"),
        ("a, cat", "a, owl"),
        ("a\ncat", "an\nowl"),
        ("the cat", "the owl"),
        ("cat a", "owl a"),
        ("AN OWL", "A CAT"),
    ],
)
def test_an_article_agrees_with_the_new_word(text: str, expected: str) -> None:
    assert WordSwap(pairs=(("owl", "cat"),))(text) == expected


def test_an_article_keeps_its_case() -> None:
    assert _in_case_of("an", "a") == "a"
    assert [_in_case_of(pattern, "an") for pattern in ("A", "a", "AB", "Ab")] == ["An", "an", "AN", "An"]
    assert [_agreeing(*given) for given in (("a", "cat", "owl"), ("An", "owl", "cat"), ("an", "cat", "owl"), ("a", "cat", "dog"))] == [
        "an", "A", "an", "a",
    ]  # fmt: skip


def test_the_group_of_a_document_is_drawn_by_its_beginning() -> None:
    swap = WordSwap(sets=(("x", "y", "z", "w"), ("p", "q", "r", "s")), seed=5)
    assert (swap.groups, OWN.groups) == (4, 0)
    shifts = set()
    for number in range(40):
        text = f"{number} x r"
        digest = hashlib.blake2b(f"5\0{text}".encode(), digest_size=8).digest()
        shift = int.from_bytes(digest, "big") % 3 + 1
        shifts.add(shift)
        assert swap(text) == f"{number} {'xyzw'[shift]} {'pqrs'[(2 + shift) % 4]}"
        assert swap.change("x", key=text) == "xyzw"[shift]
    assert shifts == {1, 2, 3}
    long = "x" + " a" * 600
    assert swap(long + " one")[0] == swap(long + " two")[0] == swap(long[:1000])[0]


def test_a_stream_of_small_fragments_is_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cda, "PIECE", 5)
    text = "an owl " * 3 + "said a cat and A CAT an an owl" + " word" * 20 + " a\0cat owl\0\0" + "owl a an cat"
    for swap in (WordSwap(pairs=(("owl", "cat"),)), WordSwap(sets=(("owl", "cat", "elk"),), seed=2)):
        expected = "\0".join(swap(part) for part in text.split("\0"))
        for size in (1, 3, 8, 1000):
            counts = SwapCounts()
            fragments = [text[start : start + size] for start in range(0, len(text), size)]
            assert "".join(swap.stream(_whole_words(fragments), counts)) == expected
            assert counts.words == len(text.replace("\0", " ").split())
            assert counts.swapped.total() == sum(
                text.lower().replace("\0", " ").split().count(word) for word in ("owl", "cat")
            )
    counts = SwapCounts()
    assert list(OWN.stream([], counts)) == [""]
    assert (counts.documents, counts.words) == (0, 0)


def _whole_words(fragments: list[str]) -> list[str]:
    """Join fragments so that each ends at white space or at the end of a document."""
    joined, held = [], ""
    for fragment in fragments:
        held += fragment
        if held[-1] in " \0":
            joined.append(held)
            held = ""
    return [*joined, held] if held else joined


def test_the_settings_are_what_is_hashed_and_saved() -> None:
    swap = WordSwap(
        sets=(("x", "y", "z"),), sides="one", seed=3, pronouns=True, titles=("king",), keep_proper_nouns=True
    )
    state = swap.state()
    assert {name: state[name] for name in state if name != "pronoun_weights"} == {
        "pairs": [], "one_way": [], "names": [], "titles": ["king"], "sets": [["x", "y", "z"]], "pronouns": True,
        "keep_proper_nouns": True, "sides": "one", "seed": 3, "rules": 2,
    }  # fmt: skip
    assert WordSwap.from_state(state) == swap
    assert OWN.state() == {
        "pairs": [["king", "queen"], ["actor", "actress"], ["Jack", "Jill"]], "one_way": [["lad", "girl"]],
        "names": [["emma", "noah"]], "titles": [], "sets": [], "pronouns": False, "keep_proper_nouns": False, "sides": "two",
        "seed": 0,
    }  # fmt: skip
    assert (OWN.keeps_original, swap.keeps_original) == (True, False)


def test_what_a_swap_refuses() -> None:
    for arguments, message in (
        ({"sides": "three"}, "'two' or 'one', got 'three'"), ({"sets": (("a", "b"), ("c",))}, "one word for each group"),
        ({"pairs": (("a", "b"), ("c", "a"))}, "'a' has several counterparts"),
        ({"one_way": (("a", "b"), ("a", "c"))}, "'a' has several counterparts"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            WordSwap(**arguments)  # type: ignore[arg-type]
    assert WordSwap(one_way=(("x", "z"), ("y", "z")))("x y z") == "z z z"


def test_what_each_option_adds_to_the_swap_of_gender() -> None:
    options = ({}, {"names": False}, {"lists": False}, {"sides": "one", "seed": 4})
    whole, nameless, plain, one = (CounterfactualAugmentation(**given).fit(None, "gender") for given in options)  # type: ignore[arg-type]
    pairs = eh.concept("gender").pairs.pairs
    assert plain.pairs == tuple(pair for pair in pairs if not {"her", "his", "him", "hers"} & set(pair))
    assert (plain.names, plain.titles, plain.one_way) == ((), (), ())
    assert (plain.pronouns, plain.keep_proper_nouns, plain.seed, plain.sides) == (True, True, 0, "two")
    assert len(whole.names) - len(nameless.names) > 600
    assert nameless.pairs == whole.pairs == one.pairs
    assert (one.sides, one.seed) == ("one", 4)
    assert dict(plain.report) == {
        "method": "cda", "definition": 2, "params": {"sides": "two", "names": True, "lists": False, "seed": 0}, "seed": 0,
        "concept": "gender", "pairs": len(plain.pairs), "names": 0, "pairs_unused": [],
    }  # fmt: skip
    assert whole.report["pairs"] == len(whole.pairs) + len(whole.one_way)
    taken = {word for pair in whole.pairs for word in pair}
    assert not taken & {word for word, _ in whole.one_way}
    religion = CounterfactualAugmentation(seed=7).fit(None, "religion")
    assert religion.report["pairs"] == len(religion.sets) == len(eh.concept("religion").groups["islam"])
    assert (religion.pronouns, religion.keep_proper_nouns, religion.seed) == (False, False, 7)
    assert religion.sets[0] == tuple(group.words[0] for group in eh.concept("religion").groups.values())


def test_pairs_of_names_are_the_best_of_all_pairings() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(3, 2)) * [1, 9], rng.normal(size=(4, 2)) * [1, 9]
    scale = np.vstack([first, second]).std(axis=0)
    costs = [
        sum(float((((a - second[place]) / scale) ** 2).sum()) for a, place in zip(first, order, strict=True))
        for order in itertools.permutations(range(4), 3)
    ]
    best = list(itertools.permutations("WXYZ", 3))[int(np.argmin(costs))]
    assert pair_names("ABC", "WXYZ", first, second) == tuple(zip("ABC", best, strict=True))
    flat = np.array([[1.0, 0.0], [2.0, 0.0]])
    assert pair_names("AB", "XY", flat, flat[::-1]) == (("A", "Y"), ("B", "X"))


def test_features_of_names() -> None:
    names = words.wordset("counterfactual-names-female")
    found = cda._features(names, own=1)
    assert found[:, 0].tolist() == pytest.approx(np.log(names.scores["births"]).tolist())
    assert found[:, 1].tolist() == list(names.scores["share-female"])
    assert cda._features(names, own=0)[:, 1] == pytest.approx(1 - found[:, 1])
