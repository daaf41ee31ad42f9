"""RIPA, and its intervals over pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Concept, Vectors, measures, subspaces
from evenhand.errors import EvenhandWarning, UsageError
from evenhand.measures.association.ripa import Relation, associations, pair_intervals, relation_weights

seeds = st.integers(0, 10_000)
TWO = Vectors(["she", "he", "w", "u"], [[0.0, 3.0], [0.0, 1.0], [2.0, -5.0], [1.0, 0.5]])
GENDER = Concept("gender", groups={"female": ["she"], "male": ["he"]}, pairs=[("she", "he")])


def pairs_lab(seed, pairs=4, dim=5, words=3):
    rng = np.random.default_rng(seed)
    names = [(f"f{i}", f"m{i}") for i in range(pairs)]
    words = [f"w{i}" for i in range(words)]
    vocabulary = [word for pair in names for word in pair] + words
    vectors = Vectors(vocabulary, rng.normal(size=(len(vocabulary), dim)).astype(np.float32))
    return vectors, words, Concept("made", groups={"f": [a for a, _ in names], "m": [b for _, b in names]}, pairs=names)


def test_one_pair_by_hand():
    # b = (0, 1): the second coordinate, not normalised
    m = measures.ripa(TWO, ["w", "u"], concept=GENDER)
    assert [item["value"] for item in m.items] == pytest.approx([-5.0, 0.5])
    assert m.items[0]["cosine"] == pytest.approx(-5 / np.sqrt(29))
    assert m.value == pytest.approx(2.75)
    assert (m.positive, m.details["signed_mean"]) == ("female", pytest.approx(-2.25))


@given(seeds)
def test_the_principal_direction_is_that_of_the_subspaces(seed):
    vectors, words, concept = pairs_lab(seed)
    direction = subspaces.pairs(vectors, concept.pairs, k=1).basis[0]
    m = measures.ripa(vectors, words, concept=concept)
    assert [item["value"] for item in m.items] == pytest.approx(list(vectors.take(words)[0] @ direction), abs=1e-9)


@given(seeds)
def test_the_mean_of_pairs_is_the_mean_of_single_ripas(seed):
    vectors, words, concept = pairs_lab(seed)
    single = [
        [item["value"] for item in measures.ripa(vectors, words, concept=Concept("one", pairs=[pair])).items]
        for pair in concept.pairs
    ]
    m = measures.ripa(vectors, words, concept=concept, relation="mean-of-pairs")
    assert [item["value"] for item in m.items] == pytest.approx(np.mean(single, axis=0).tolist(), abs=1e-9)


@given(seeds)
def test_flipping_the_pairs_flips_the_sign_and_length_bounds_it(seed):
    vectors, words, concept = pairs_lab(seed)
    turned = Concept("turned", pairs=concept.pairs.flipped())
    plain, other = (measures.ripa(vectors, words, concept=c) for c in (concept, turned))
    assert plain.details["signed_mean"] == pytest.approx(-other.details["signed_mean"], abs=1e-9)
    assert all(abs(item["cosine"]) <= 1 + 1e-9 for item in plain.items)


@given(seeds, st.floats(0.1, 10))
def test_rotation_does_not_matter_and_scale_is_passed_on(lab, seed, factor):
    vectors, words, concept = pairs_lab(seed)
    plain = measures.ripa(vectors, words, concept=concept).value
    assert measures.ripa(lab.rotated(vectors), words, concept=concept).value == pytest.approx(plain, abs=1e-4)
    assert measures.ripa(lab.scaled(vectors, factor), words, concept=concept).value == pytest.approx(
        factor * plain, rel=1e-4
    )


@given(seeds)
def test_the_weights_of_counted_pairs_make_their_principal_direction(seed):
    """Brute force: the first right singular vector of the repeated rows, turned towards their mean."""
    rng = np.random.default_rng(seed)
    contrasts = rng.normal(size=(5, 7)) + 0.8
    draws = rng.integers(5, size=(6, 5))
    counts = np.stack([np.bincount(rows, minlength=5) for rows in draws]).astype(float)
    for rows, weights in zip(draws, relation_weights(contrasts @ contrasts.T, counts, "pc"), strict=True):
        _, _, right = np.linalg.svd(contrasts[rows])
        expected = right[0] * np.sign(right[0] @ contrasts[rows].mean(axis=0))
        assert weights @ contrasts == pytest.approx(expected, abs=1e-8)


def test_the_interval_over_pairs_shows_which_associations_depend_on_single_pairs():
    m = measures.ripa(Vectors.default(), ["captain", "table"])
    low, high = m.details["interval_over_pairs"]
    assert low < m.details["population_mean"] < high
    assert 0 < m.details["pair_agreement"] < 1
    captain, table = m.items
    assert captain["interval"][0] < captain["population"] < captain["value"] < 0  # errors of the direction shrink beta
    assert captain["interval"][1] < 0
    assert table["interval"][0] < 0 < table["interval"][1]
    assert measures.ripa(Vectors.default(), ["captain", "table"]) == m


def test_pairs_that_agree_exactly_leave_no_doubt():
    vectors = Vectors(
        ["a1", "b1", "a2", "b2", "a3", "b3", "w"], [[2, 0], [0, 0], [3, 1], [1, 1], [5, 0], [1, 0], [7, 9]]
    )
    pairs = [("a1", "b1"), ("a2", "b2"), ("a3", "b3"), ("a3", "b1"), ("a1", "b3")]
    m = measures.ripa(vectors, ["w"], concept=Concept("same", pairs=pairs))
    assert m.items[0]["interval"] == pytest.approx([7.0, 7.0])
    few = measures.ripa(vectors, ["w"], concept=Concept("few", pairs=pairs[:3]))
    assert "interval" not in few.items[0]
    assert few.details["interval_over_pairs"] is None


def test_lost_pairs_are_named_and_pairs_of_equal_words_left_out():
    vectors = Vectors(["a", "b", "c", "d", "w"], [[2, 0], [0, 0], [1, 1], [1, 1], [3, 9]])
    concept = Concept("q", pairs=[("a", "b"), ("c", "d"), ("gone", "b")])
    for relation in ("pc", "mean-of-pairs"):
        with pytest.warns(EvenhandWarning, match=r"2 of 3 pairs of 'q pairs'; lost: gone/b"):
            m = measures.ripa(vectors, ["w"], concept=concept, relation=relation)
        assert m.value == pytest.approx(3)
        assert m.details["pairs"] == 1
        assert m.details["pairs_lost"] == [["c", "d"], ["gone", "b"]]


def test_associations_of_parallel_pairs():
    contrasts = np.array([[0.0, 2.0], [0.0, 4.0]])
    words = np.array([[1.0, 5.0]])
    assert associations(words, contrasts, "pc") == pytest.approx([5.0])
    assert associations(words, contrasts, "mean-of-pairs") == pytest.approx([5.0])


@pytest.mark.parametrize(
    ("words", "pairs", "reason"),
    [
        (["gone"], [("she", "he")], "no word of words"),
        (["w"], [("she", "hers")], "no pair of c pairs"),
        (["w"], [("she", "twin")], "same vectors"),
    ],
)
def test_undefined_says_why(words, pairs, reason):
    vectors = Vectors(["she", "he", "twin", "w"], [[0, 3.0], [0, 1], [0, 3], [2, -5]])
    m = measures.ripa(vectors, words, concept=Concept("c", pairs=pairs))
    assert m.status == "undefined"
    assert reason in m.reason


def test_an_unknown_relation_is_named():
    with pytest.raises(UsageError, match="median"):
        measures.ripa(TWO, ["w"], concept=GENDER, relation="median")


DIMENSIONS, WORDS = 100, 200


def population(signal: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean difference, root of the covariance and words; `signal` is the share of the mean in E |D|^2."""
    spectrum = 1 / np.arange(1, DIMENSIONS + 1) ** 0.7
    noise = np.sqrt(spectrum / spectrum.sum() * (1 - signal))
    mean = rng.standard_normal(DIMENSIONS)
    return mean / np.linalg.norm(mean) * np.sqrt(signal), noise, rng.standard_normal((WORDS, DIMENSIONS))


def relation_vector(mean: np.ndarray, noise: np.ndarray, relation: Relation, rng: np.random.Generator) -> np.ndarray:
    """Return the relation vector of the population."""
    if relation == "pc":
        vector = np.linalg.eigh(np.outer(mean, mean) + np.diag(noise**2))[1][:, -1]
        return vector * np.sign(vector @ mean)
    many = mean + rng.standard_normal((200_000, DIMENSIONS)) * noise
    return (many / np.linalg.norm(many, axis=1, keepdims=True)).mean(axis=0)


def coverage(pairs: int, signal: float, relation: Relation, samples: int) -> tuple[float, float, float]:
    """Return the share of covered words and means, and the share of samples without an interval."""
    rng = np.random.default_rng(0)
    mean, noise, words = population(signal, rng)
    true = words @ relation_vector(mean, noise, relation, rng)
    by_word, by_mean, missing = [], [], 0
    for sample in range(samples):
        contrasts = mean + rng.standard_normal((pairs, DIMENSIONS)) * noise
        result = pair_intervals(words, contrasts, relation, seed=sample)
        if result is None:
            missing += 1
            continue
        by_word.append(((result.bounds[0] <= true) & (true <= result.bounds[1])).mean())
        if result.interval:
            by_mean.append(result.interval[0] <= np.abs(true).mean() <= result.interval[1])
    return float(np.mean(by_word)), float(np.mean(by_mean)), missing / samples


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["pc", "mean-of-pairs"])
@pytest.mark.parametrize("pairs", [6, 10, 20, 40])
@pytest.mark.parametrize("signal", [0.2, 0.4])
def test_the_intervals_cover(pairs: int, signal: float, relation: Relation) -> None:
    by_word, by_mean, missing = coverage(pairs, signal, relation, samples=150)
    assert 0.92 <= by_word <= 0.98
    assert by_mean >= 0.88  # standard error .018; no upper limit, since it may cover more than it says
    assert missing <= 0.35


def test_ten_pairs_cover_most_words() -> None:
    by_word, _, missing = coverage(10, 0.4, "pc", samples=20)
    assert by_word > 0.88
    assert missing <= 0.2


def test_pairs_without_a_common_direction_have_no_interval() -> None:
    rng = np.random.default_rng(0)
    words = rng.standard_normal((20, 300))
    results = [pair_intervals(words, rng.standard_normal((10, 300)), seed=seed) for seed in range(20)]
    assert sum(result is None for result in results) >= 17


def test_equal_pairs_leave_no_doubt() -> None:
    rng = np.random.default_rng(0)
    words, contrast = rng.standard_normal((20, 50)), rng.standard_normal(50)
    result = pair_intervals(words, np.tile(contrast, (8, 1)))
    assert result is not None
    np.testing.assert_allclose(result.beta, words @ contrast / np.linalg.norm(contrast))
    np.testing.assert_allclose(result.bounds[1], result.bounds[0], atol=1e-9)


def test_too_few_pairs_have_no_interval() -> None:
    assert pair_intervals(np.ones((3, 5)), np.eye(5)[:4]) is None


def test_where_the_errors_of_the_pairs_leave_nothing_of_the_mean_only_words_have_intervals() -> None:
    rng = np.random.default_rng(1)
    words, contrasts = rng.standard_normal((20, 50)), rng.standard_normal((10, 50))
    contrasts -= contrasts.mean(axis=0) * 0.999  # the pairs share next to no direction
    result = pair_intervals(words, contrasts, "mean-of-pairs")
    assert result is not None
    assert (result.mean, result.interval, result.agreement) == (None, None, 1.0)
    np.testing.assert_allclose(
        result.beta,
        (relation_weights(contrasts @ contrasts.T, np.ones((1, 10)), "mean-of-pairs") @ contrasts @ words.T)[0],
        atol=1e-9,
    )
    assert result.bounds.shape == (2, 20)


def test_a_word_without_length_has_the_cosine_0() -> None:
    m = measures.ripa(
        TWO.with_matrix(np.array([[0.0, 3.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.5]])), ["w", "u"], concept=GENDER
    )
    assert [item["cosine"] for item in m.items] == pytest.approx([0, 0.5 / np.sqrt(1.25)])
