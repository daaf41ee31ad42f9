from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures.quality.analogy import analogy
from evenhand.measures.quality.rated_sets import Questions
from evenhand.models.vectors import Vectors

# man + (woman - man) etc. are exact in the first two coordinates; "odd" lies where aunt - uncle + son would point.
WORDS = ["man", "woman", "king", "queen", "uncle", "aunt", "son", "daughter", "odd"]
MATRIX = [
    [1, 0, 1, 0, 0],
    [0, 1, 1, 0, 0],
    [1, 0, 0, 1, 0],
    [0, 1, 0, 1, 0],
    [1, 0, 0, 0, 1],
    [0, 1, 0, 0, 1],
    [1, 0, -1, 0, 0],
    [1, 0, 0, -1, 0],
    [0, 1, -1, 0, 0],
]
V = Vectors(WORDS, MATRIX, name="family")
QUESTIONS = Questions(
    "mine",
    (
        ("man", "woman", "king", "queen"),
        ("man", "woman", "uncle", "aunt"),
        ("king", "queen", "man", "woman"),
        ("uncle", "aunt", "son", "daughter"),  # the answer is "odd"
        ("king", "queen", "prince", "princess"),
    ),
    ("family", "family", "gram1-x", "gram1-x", "gram1-x"),
)


def test_share_of_right_answers_in_total_by_half_and_by_section() -> None:
    m = analogy(V, QUESTIONS)
    assert m.value == pytest.approx(3 / 4)
    assert m.n == 4
    assert m.details["semantic"]["value"] == 1
    assert m.details["syntactic"] == {"value": 0.5, "n": 2, "interval": None}
    assert m.details["unknown"] == 1
    assert m.coverage.missing == ("prince", "princess")
    assert m.items == (
        {"section": "family", "value": 1.0, "n": 2, "asked": 2},
        {"section": "gram1-x", "value": 0.5, "n": 2, "asked": 3},
    )
    assert m.params == {"method": "3cosadd", "restrict": 30_000, "unknown": "skip", "min_share": 0.5, "case": "auto"}
    assert eh.measures.analogy is analogy


def test_an_unknown_word_may_count_as_wrong() -> None:
    m = analogy(V, QUESTIONS, unknown="wrong")
    assert m.value == pytest.approx(3 / 5)
    assert m.n == 5


def test_only_the_first_words_are_searched() -> None:
    assert "mine 2 of 5" in analogy(V, QUESTIONS, restrict=4).reason
    m = analogy(V, QUESTIONS, restrict=4, min_share=0.4)
    assert m.n == 2
    assert m.details["vocabulary"] == 4
    assert set(m.coverage.missing) == {"uncle", "aunt", "son", "daughter", "prince", "princess"}
    assert analogy(V, QUESTIONS, restrict=None).value == analogy(V, QUESTIONS, restrict=9).value


def test_a_set_without_halves_has_none() -> None:
    assert "semantic" not in analogy(V, Questions("mine", QUESTIONS.questions, ("all",) * 5)).details


def test_no_known_question_is_undefined() -> None:
    m = analogy(V, QUESTIONS, restrict=2)
    assert m.status == "undefined"
    assert m.reason == "no complete question of mine is in the vocabulary"


@pytest.mark.parametrize("options", [{"method": "3cosdiv"}, {"restrict": 0}, {"unknown": "guess"}])
def test_invalid_options_raise(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=str(*options.values())):
        analogy(V, QUESTIONS, **options)  # type: ignore[arg-type]


def planted(seed: int, *, noise: float, pairs: int = 12) -> tuple[Vectors, Questions]:
    """Pairs that differ by one common offset: every question is answered when nothing disturbs them."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(pairs, 20))
    second = first + 2 * rng.normal(size=20) + noise * rng.normal(size=(pairs, 20))
    names = [f"{side}{i}" for side in "xy" for i in range(pairs)]
    questions = tuple((f"x{i}", f"y{i}", f"x{j}", f"y{j}") for i in range(pairs) for j in range(pairs) if i != j)
    return Vectors(names, np.vstack([first, second])), Questions("planted", questions, ("all",) * len(questions))


def test_planted_relations_are_found_and_noise_hides_them() -> None:
    assert analogy(*planted(0, noise=0.0)).value > 0.95
    noisy = analogy(*planted(0, noise=2.0))
    assert noisy.value < 0.9
    low, high = noisy.interval or (0, 0)
    assert low < noisy.value < high


@given(st.integers(0, 99))
def test_neither_rotation_nor_length_changes_it(seed: int) -> None:
    v, questions = planted(seed, noise=1.0, pairs=6)
    rng = np.random.default_rng(seed)
    turned = v.matrix @ np.linalg.qr(rng.normal(size=(20, 20)))[0] * rng.uniform(0.5, 3, size=(12, 1))
    assert analogy(v, questions).value == analogy(Vectors(v.words, turned), questions).value


@pytest.mark.data
@pytest.mark.parametrize("name", ["google-analogies", "msr-analogies"])
def test_gensim_agrees_on_the_embedded_vectors(name: str) -> None:
    if not os.environ.get("EVENHAND_DATA"):
        pytest.skip("EVENHAND_DATA is not set")
    models = pytest.importorskip("gensim.models")
    v = Vectors.default().head(3_000)
    other = models.KeyedVectors(v.dim)
    other.add_vectors(list(v.words), v.matrix)
    theirs, sections = other.evaluate_word_analogies(str(eh.data.locate(name)), restrict_vocab=3_000)
    ours = analogy(v, name, restrict=3_000, min_share=0)
    assert ours.n == len(sections[-1]["correct"]) + len(sections[-1]["incorrect"])
    assert ours.value == pytest.approx(theirs, abs=1.5 / ours.n)  # one near tie may fall the other way
    for mine, section in zip(ours.items, sections[:-1], strict=True):
        assert mine["section"] == section["section"]
        assert mine["n"] == len(section["correct"]) + len(section["incorrect"])
