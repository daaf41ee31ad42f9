"""Generated analogies and SemBias."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures import get
from evenhand.measures.geometry import analogies as module
from evenhand.measures.geometry.analogies import GeneratedAnalogy, analogy_generation, generate_analogies
from evenhand.models.vectors import Vectors
from evenhand.words import Table

# queen and king differ exactly along she - he; nurse and doctor mostly; cup and lid not at all.
ROWS = {
    "she": [1, 0, 0, 0],
    "he": [-1, 0, 0, 0],
    "queen": [0.4, 1, 0, 0],
    "king": [-0.4, 1, 0, 0],
    "nurse": [0.4, 0, 1.0, 0.1],
    "doctor": [-0.4, 0, 1.0, -0.1],
    "cup": [0, 0, 0.3, 1],
    "lid": [0, 0, -0.3, 1],
}
V = Vectors(ROWS, [*ROWS.values()], name="toy")
GENDER = eh.Concept("gender", {"f": ["she"], "m": ["he"]}, specific=["she", "he", "queen", "king"])


def brute_force(vectors: Vectors, delta: float) -> dict[str, tuple[str, float]]:
    """Return the best second word of each first word, and the score."""
    words = [word for word in vectors.words if word not in ("she", "he")]
    unit = {word: vectors[word] / np.linalg.norm(vectors[word]) for word in vectors.words}
    axis = unit["she"] - unit["he"]
    best = {}
    for x in words:
        scores = {}
        for y in words:
            difference = unit[x].astype(float) - unit[y]
            length = np.linalg.norm(difference)
            if y != x and length <= delta:
                scores[y] = float(difference @ axis / length / np.linalg.norm(axis))
        winner = max(scores, key=lambda y: scores[y]) if scores else None
        if winner is not None and scores[winner] > 0:
            best[x] = (winner, scores[winner])
    return best


def test_by_hand() -> None:
    analogies = generate_analogies(V, k=2)
    assert [(x, y) for x, y, _ in analogies] == [("queen", "king"), ("nurse", "doctor")]
    # unit nurse and doctor differ by (.8, 0, 0, .2) / |nurse|, which has cosine .8 / sqrt(.68) with (1, 0, 0, 0)
    assert analogies[0].score == pytest.approx(1.0, abs=1e-6)
    assert analogies[1].score == pytest.approx(0.8 / np.sqrt(0.68), abs=1e-6)
    assert isinstance(analogies[0], GeneratedAnalogy)
    assert all("she" not in pair[:2] and "he" not in pair[:2] for pair in generate_analogies(V, k=20))


@given(st.integers(0, 500), st.sampled_from([0.8, 1.0, 1.5]))
@settings(max_examples=25, deadline=None)
def test_it_equals_a_double_loop(seed: int, delta: float) -> None:
    rng = np.random.default_rng(seed)
    words = ["she", "he", *(f"q{a}{b}" for a in "abcde" for b in "abcdefgh")]
    v = Vectors(words, rng.normal(size=(len(words), 4)) * rng.uniform(0.2, 5, size=(len(words), 1)))
    expected = brute_force(v, delta)
    analogies = generate_analogies(v, k=1_000, delta=delta)
    assert {x: y for x, y, _ in analogies} == {x: y for x, (y, _) in expected.items()}
    assert [score for *_, score in analogies] == pytest.approx(
        sorted((s for _, s in expected.values()), reverse=True), abs=1e-5
    )


def test_blocks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch, planted) -> None:
    v = planted()
    whole = generate_analogies(v, k=30, delta=2.0)
    monkeypatch.setattr(module, "BLOCK", 7)
    assert [pair[:2] for pair in generate_analogies(v, k=30, delta=2.0)] == [pair[:2] for pair in whole]


def test_strength_and_neutral_share_of_the_same_pairs() -> None:
    strength, neutral = analogy_generation(V, concept=GENDER, k=2)
    assert (strength.score, neutral.score) == ("strength", "neutral-share")
    assert strength.value == pytest.approx((1 + 0.8 / np.sqrt(0.68)) / 2, abs=1e-6)
    assert neutral.value == 0.5  # nurse : doctor has a word that is not specific to gender
    assert strength.items[0]["pair"] == "f : queen :: m : king"
    assert [item["value"] for item in neutral.items] == [0.0, 1.0]
    assert strength.interval is neutral.interval is None
    assert analogy_generation(V, concept=GENDER, k=2, score="neutral-share") == neutral


def test_a_removed_direction_leaves_no_strength_along_it() -> None:
    flat = V.with_matrix(V.matrix * np.array([0, 1, 1, 1]))
    strength, _ = analogy_generation(flat, concept=GENDER, k=2, reference=V, direction="original", pair=("she", "he"))
    assert strength.status == "undefined" or abs(strength.value) < 1e-6
    own, _ = analogy_generation(flat, concept=GENDER, k=2, reference=V)
    assert own.status == "undefined"


def test_a_concept_without_specific_words_has_no_neutral_share() -> None:
    plain = eh.Concept("sex", {"f": ["she"], "m": ["he"]})
    strength, neutral = analogy_generation(V, concept=plain, k=2)
    assert strength.status == "ok"
    assert neutral.reason == "concept 'sex' has no list of specific words"


def test_undefined_results_and_invalid_arguments() -> None:
    for m in analogy_generation(V, concept=GENDER, delta=1e-3):
        assert "no two words" in m.reason
    with pytest.raises(UsageError, match="k=0"):
        analogy_generation(V, concept=GENDER, k=0)
    with pytest.raises(UsageError, match="'sum'"):
        analogy_generation(V, concept=GENDER, score="sum")


def test_the_embedded_vectors_have_the_known_analogies() -> None:
    v = eh.Vectors.default()
    pairs = {(x, y) for x, y, _ in generate_analogies(v, k=150, first=12_000)}
    assert pairs & {("queen", "king"), ("sister", "brother"), ("her", "his"), ("herself", "himself")}
    assert eh.measures.generate_analogies is generate_analogies


sembias = get("sembias")
COLUMNS = ("definition", "none-1", "none-2", "stereotype")
SEMBIAS_ROWS = [
    ("king:queen", "cup:lid", "pen:ink", "doctor:nurse"),
    ("actor:actress", "cup:lid", "pen:ink", "boss:clerk"),
]
TOY = Table("toy", COLUMNS, SEMBIAS_ROWS)
SHE, OTHER = np.array([0.0, 1, 0]), np.array([0.0, 0, 1])


def vectors(**shares: float) -> Vectors:
    """Each pair differs by (its share along he - she) and by 1 along a third coordinate."""
    rows = {"he": -2 * SHE, "she": 2 * SHE}
    for number, cell in enumerate(dict.fromkeys(cell for row in SEMBIAS_ROWS for cell in row)):
        male, female = cell.split(":")
        base = np.array([1.0 + number, 0, 0])
        rows[male], rows[female] = base, base + shares.get(male, 0.0) * SHE + OTHER
    return Vectors(rows, np.array(list(rows.values())), name="toy")


def test_the_definitional_pair_is_chosen_where_gender_is_planted() -> None:
    m = sembias(vectors(king=1, actor=2), TOY)
    assert (m.value, m.n) == (1.0, 2)
    assert m.details["stereotype"] == 0
    assert m.items[0]["value"] == pytest.approx(1 / np.sqrt(2))
    assert m.items[0]["choice"] == "definition"


def test_each_choice_is_counted() -> None:
    m = sembias(vectors(king=1, actor=0.5, boss=1), TOY)
    assert (m.value, m.details["stereotype"], m.details["none"]) == (0.5, 0.5, 0)
    assert sembias(vectors(cup=1), TOY).details["none"] == 1
    opposite = sembias(vectors(king=-1, actor=-1, cup=0.1), TOY)
    assert opposite.value == 0  # the opposite direction is not like he - she


def test_shares_add_up_with_undecided_rows() -> None:
    m = sembias(vectors(king=1, doctor=1, actor=1), TOY)
    assert [item["choice"] for item in m.items] == ["undecided", "definition"]
    assert m.value == 0.5
    assert sum(m.details[name] for name in ("definition", "stereotype", "none", "undecided")) == 1
    near = vectors(king=1, doctor=1.001, actor=1)
    assert sembias(near, TOY, undecided=0).details["stereotype"] == 0.5
    assert sembias(near, TOY, undecided=0.1).details["undecided"] == 0.5


def test_a_pair_of_equal_words_has_no_direction() -> None:
    v = vectors(king=1, actor=1)
    matrix = v.matrix.copy()
    matrix[v.index["queen"]] = matrix[v.index["king"]] * (1 + 1e-6)
    m = sembias(v.with_matrix(matrix), TOY)
    assert m.details["equal_pairs"] == 1
    assert m.items[0]["value"] == 0


def test_all_rows_are_undecided_along_a_direction_that_was_removed() -> None:
    v = vectors(king=1, actor=2, boss=1.5)
    flat = v.with_matrix(v.matrix * np.array([1, 0, 1]))
    m = sembias(flat, TOY, reference=v, direction="original")
    assert (m.status, m.value) == ("undefined", None)
    assert "every row is undecided" in m.reason
    assert {item["choice"] for item in m.items} == {"undecided"}
    gone = sembias(flat, TOY, reference=v)
    assert (gone.status, gone.value) == ("undefined", None)
    assert "she/he" in gone.reason


def test_rows_with_a_lost_word_are_left_out_and_counted() -> None:
    v = vectors(king=1, actor=1)
    m = sembias(v.restrict([word for word in v.words if word != "queen"]), TOY)
    assert (m.n, m.details["lost_rows"], m.coverage.missing) == (1, 1, ("queen",))
    assert sembias(v.restrict(["she", "he", "king"]), TOY).status == "undefined"


def test_the_shipped_tables() -> None:
    v = eh.Vectors.default()
    whole, subset = sembias(v), sembias(v, "sembias-subset")
    assert whole.details["rows"] == 440
    assert subset.details["rows"] == 40
    assert 0.6 < whole.value < 0.9
    assert whole.interval[0] < whole.value < whole.interval[1]


def test_flipping_the_pair_of_the_axis_is_another_question() -> None:
    assert sembias(vectors(king=1, actor=1, cup=-2), TOY, pair=("he", "she")).details["none"] == 1


def test_tables_of_another_form_are_refused() -> None:
    with pytest.raises(UsageError, match="columns definition and stereotype"):
        sembias(vectors(), Table("t", ("a", "b"), [("x:y", "x:y")]))
    with pytest.raises(UsageError, match="'xy' is not a pair"):
        sembias(vectors(), Table("t", ("definition", "stereotype"), [("xy", "x:y")]))


@pytest.mark.data
def test_the_published_shares_on_googlenews(googlenews: Vectors) -> None:
    """Dawkins 2021, table 6: .830 and .134 over all rows; this cut of the vectors has 187 of the 440."""
    assert "187 of 440" in sembias(googlenews).reason
    m = sembias(googlenews, min_share=0.4)
    assert m.value == pytest.approx(0.83, abs=0.02)
    assert m.details["stereotype"] == pytest.approx(0.134, abs=0.02)
