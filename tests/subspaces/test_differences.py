"""Directions from pairs of words."""

from __future__ import annotations

import numpy as np
import pytest

import evenhand as eh
from evenhand import subspaces
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.subspaces import names, pair, pairs, span
from evenhand.words import Pairs

V = Vectors(
    ["she", "he", "woman", "man", "mary", "john", "queen", "king"],
    [[3, 1, 0], [1, 1, 0], [2, 3, 1], [1, 3, 1], [0, 2, 5], [0, 0, 5], [1, 1, 1], [1, 1, 1.0001]],
    name="toy",
)


def test_one_pair_points_to_its_positive_word() -> None:
    direction = pair(V, "she", "he", normalise=False)
    assert direction.basis.tolist() == [[1.0, 0.0, 0.0]]
    assert direction.strength.tolist() == [2.0]
    assert direction.explained.tolist() == [1.0]
    assert direction.poles == ("she", "he")
    assert pair(V, "he", "she", normalise=False).basis.tolist() == [[-1.0, 0.0, 0.0]]


def test_normalising_first_makes_the_longer_word_count_no_more() -> None:
    expected = np.array([3, 1, 0]) / np.sqrt(10) - np.array([1, 1, 0]) / np.sqrt(2)
    direction = pair(V, "she", "he")
    assert direction.params["normalise"] is True
    assert np.allclose(direction.basis[0], expected / np.linalg.norm(expected))


def test_pairs_by_hand() -> None:
    # differences (2,0,0), (1,0,0), (0,2,0): singular values sqrt(5) and 2
    learned = pairs(V, [("she", "he"), ("woman", "man"), ("mary", "john")], k=2)
    assert np.allclose(learned.basis, [[1, 0, 0], [0, 1, 0]])
    assert np.allclose(learned.strength, [np.sqrt(5), 2])
    assert np.allclose(learned.explained, [5 / 9, 4 / 9])
    assert np.allclose(learned.spectrum, [np.sqrt(5), 2, 0])


def test_pairs_are_bolukbasis_midpoint_pca() -> None:
    rng = np.random.default_rng(3)
    v = Vectors([f"w{i}" for i in range(12)], rng.normal(size=(12, 6)))
    couples = [(f"w{2 * i}", f"w{2 * i + 1}") for i in range(6)]
    first, second = v.matrix[::2].astype(float), v.matrix[1::2].astype(float)
    middle = (first + second) / 2
    rows = np.vstack([first - middle, second - middle])
    values, directions = np.linalg.eigh(np.cov(rows.T, bias=True))
    learned = pairs(v, couples, k=3)
    for row, expected in zip(learned.basis, directions.T[::-1][:3], strict=True):
        assert abs(row @ expected) == pytest.approx(1, abs=1e-12)
    assert np.allclose(learned.explained, values[::-1][:3] / values.sum())


def test_centring_takes_the_common_direction_away() -> None:
    couples = [("she", "he"), ("woman", "man"), ("mary", "john")]
    together = Vectors(["a", "b", "c", "d"], [[5, 1], [0, 0], [5, -1], [0, 0]])
    assert np.allclose(pairs(together, [("a", "b"), ("c", "d")]).basis, [[1, 0]])
    assert np.allclose(np.abs(pairs(together, [("a", "b"), ("c", "d")], centre=True).basis), [[0, 1]])
    assert pairs(V, couples, centre=True).params["centre"] is True


def test_the_order_of_the_pairs_does_not_matter() -> None:
    couples = [("she", "he"), ("woman", "man"), ("mary", "john")]
    assert np.allclose(pairs(V, couples, k=2).basis, pairs(V, couples[::-1], k=2).basis)


def test_swapping_every_pair_turns_the_direction_round() -> None:
    couples = [("she", "he"), ("woman", "man"), ("mary", "john")]
    swapped = [(b, a) for a, b in couples]
    assert np.allclose(pairs(V, couples).basis, -pairs(V, swapped).basis)


def test_span_has_the_rank_of_the_differences() -> None:
    whole = span(V, [("she", "he"), ("woman", "man"), ("mary", "john")])
    assert whole.k == 2
    assert np.allclose(whole.reject([7.0, 8.0, 9.0]), [0, 0, 9])


def test_span_drops_what_is_only_rounding() -> None:
    same = Vectors(["a", "b", "c", "d"], [[0.1, 0.2, 0.3], [0.4, 0.1, 0.7], [1.1, 1.2, 1.3], [1.4, 1.1, 1.7]])
    assert span(same, [("a", "b"), ("c", "d")]).k == 1  # equal differences, up to float32
    assert span(same, [("a", "b"), ("c", "d")], rtol=1e-12).k == 2


def test_lost_pairs_are_counted_and_named() -> None:
    learned = pairs(V, [("she", "he"), ("gal", "guy"), ("woman", "bloke")])
    assert learned.coverage.missing == ("gal", "guy", "bloke")
    assert learned.params["pairs_used"] == 1
    assert learned.params["pairs_lost"] == [["gal", "guy"], ["woman", "bloke"]]


def test_capitals_are_found_under_the_vocabularys_spelling() -> None:
    assert pairs(V, [("Mary", "John")]).coverage.respelt == {"Mary": "mary", "John": "john"}


def test_poles_come_from_the_list() -> None:
    assert pairs(V, Pairs("g", [("she", "he")], ("female", "male"))).poles == ("female", "male")
    assert pairs(V, [("she", "he")]).poles == ("first", "second")


def test_no_pair_left_is_an_error_that_names_them() -> None:
    with pytest.raises(VocabularyError, match=r"toy has no complete pair of 2: gal/guy, she/bloke"):
        pairs(V, [("gal", "guy"), ("she", "bloke")])
    with pytest.raises(VocabularyError, match="empty"):
        span(V, [])


def test_equal_words_have_no_direction() -> None:
    with pytest.raises(DegenerateError, match=r"queen/king.*below 0\.001"):
        pair(V, "queen", "king")
    with pytest.raises(DegenerateError, match="she/she"):
        pairs(V, [("she", "she")])
    zero = Vectors(["a", "b"], [[0.0, 0.0], [0.0, 0.0]])
    with pytest.raises(DegenerateError, match="same vectors"):
        pair(zero, "a", "b")


def test_more_directions_than_there_are_is_an_error() -> None:
    with pytest.raises(UsageError, match="k=2, but the words found span only 1"):
        pairs(V, [("she", "he"), ("woman", "man")], k=2)
    with pytest.raises(UsageError, match="k must be a positive integer"):
        pairs(V, [("she", "he")], k=0)


@pytest.mark.parametrize("wrong", ["he-she", ["ab"], [("a", "b", "c")], [("a", 1)]])
def test_what_is_not_a_pair_is_shown(wrong: object) -> None:
    with pytest.raises(UsageError, match="pair"):
        pairs(V, wrong)  # type: ignore[arg-type]


def test_equally_strong_directions_are_warned_of() -> None:
    square = Vectors(["a", "b", "c", "d"], [[1, 0], [0, 0], [0, 1], [0, 0]])
    with pytest.warns(EvenhandWarning, match="equally strong"):
        pairs(square, [("a", "b"), ("c", "d")])


def test_bad_numbers_are_refused() -> None:
    broken = Vectors(["a", "b"], [[np.nan, 0.0], [0.0, 1.0]], verified=True)
    with pytest.raises(DegenerateError, match=r"NaN or infinity in the vectors of: a\n"):
        pair(broken, "a", "b")


def test_a_cased_vocabulary_keeps_every_pair_of_the_default_concept() -> None:
    """Like GoogleNews, which has Mary and John in title case only."""
    gender = eh.concept("gender")
    words = [word.title() if word in ("mary", "john") else word for pair in gender.pairs for word in pair]
    v = Vectors(words, np.random.default_rng(0).standard_normal((len(words), 30)))
    learned = subspaces.learn(v, gender, "pairs")
    assert learned.params["pairs_used"] == 10
    assert learned.coverage.respelt == {"mary": "Mary", "john": "John"}


def test_a_lost_pair_of_a_concept_warns() -> None:
    gender = eh.concept("gender")
    words = [word for pair in gender.pairs for word in pair if word != "guy"]
    v = Vectors(words, np.random.default_rng(0).standard_normal((len(words), 30)), name="toy")
    with pytest.warns(EvenhandWarning, match=r"toy has 9 of 10 pairs of '.*'; lost: gal/guy"):
        learned = subspaces.learn(v, gender, "pairs")
    assert learned.params["pairs_lost"] == [["gal", "guy"]]


def test_a_lost_pair_of_a_plain_list_is_reported_in_the_result_only() -> None:
    v = Vectors(["she", "he"], [[1.0, 0.0], [0.0, 1.0]])
    assert subspaces.pairs(v, [("she", "he"), ("gal", "guy")]).params["pairs_lost"] == [["gal", "guy"]]


RNG = np.random.default_rng(5)
F, M = [f"f{i}" for i in range(7)], [f"m{i}" for i in range(5)]
ALLPAIRS_V = Vectors(F + M, np.vstack([RNG.normal(size=(7, 6)) + 1.5, RNG.normal(size=(5, 6))]), name="toy")


def all_differences() -> np.ndarray:
    f, m = ALLPAIRS_V.take(F)[0], ALLPAIRS_V.take(M)[0]
    return (f[:, None] - m[None]).reshape(-1, ALLPAIRS_V.dim)


@pytest.mark.parametrize("centre", [True, False])
def test_the_covariance_identity_equals_brute_force(centre: bool) -> None:
    rows = all_differences()
    rows = rows - rows.mean(axis=0) if centre else rows
    _, values, directions = np.linalg.svd(rows, full_matrices=False)
    learned = names(ALLPAIRS_V, F, M, centre=centre)
    assert np.allclose(learned.strength, values[:4])
    assert np.allclose(learned.explained, (values**2 / (values**2).sum())[:4])  # over all dimensions, not the kept four
    assert np.allclose(np.abs(learned.basis @ directions[:4].T), np.eye(4), atol=1e-9)


def test_every_direction_points_to_the_first_list() -> None:
    between = all_differences().mean(axis=0)
    for centre in (True, False):
        learned = names(ALLPAIRS_V, F, M, centre=centre)
        assert (learned.basis @ between > 0).all()
        cosines = learned.basis @ between / np.linalg.norm(between)
        assert np.allclose(learned.params["cos_mean_difference"], cosines)


def test_centring_loses_the_mean_difference_and_not_centring_finds_it() -> None:
    far = Vectors(F + M, np.vstack([RNG.normal(size=(7, 6)) + 30 * np.eye(6)[0], RNG.normal(size=(5, 6))]))
    assert names(far, F, M, k=1, centre=False).params["cos_mean_difference"][0] > 0.99
    assert names(far, F, M, k=1, centre=True).params["cos_mean_difference"][0] < 0.9


def test_lost_names_are_counted_and_a_lost_list_is_an_error() -> None:
    assert names(ALLPAIRS_V, [*F, "zoe"], M).coverage.missing == ("zoe",)
    with pytest.raises(VocabularyError, match="second list of names: zoe"):
        names(ALLPAIRS_V, F, ["zoe"])


def test_one_name_a_side_has_nothing_left_when_centred() -> None:
    with pytest.raises(DegenerateError, match="all differences are equal"):
        names(ALLPAIRS_V, F[:1], M[:1], k=1)
    assert names(ALLPAIRS_V, F[:1], M[:1], k=1, centre=False).k == 1
