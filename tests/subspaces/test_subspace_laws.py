"""Laws of the estimators: what must not matter does not, and what must turn turns."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace, group_means, names, pair, pairs, span, two_means, words

N, DIM = 12, 8
WORDS = [f"w{i}" for i in range(N)]
FIRST, SECOND = WORDS[:6], WORDS[6:]
COUPLES = list(zip(FIRST, SECOND, strict=True))
seeds = st.integers(0, 2**32 - 1)

ESTIMATORS = {
    "pair": lambda v: pair(v, "w0", "w6"),
    "pairs": lambda v: pairs(v, COUPLES, 2),
    "pairs-centred": lambda v: pairs(v, COUPLES, 2, centre=True),
    "span": lambda v: span(v, COUPLES),
    "two-means": lambda v: two_means(v, FIRST, SECOND),
    "group-means": lambda v: group_means(v, {"a": WORDS[:6], "b": WORDS[6:9], "c": WORDS[9:]}, 2),
    "words": lambda v: words(v, WORDS, 2),
    "names": lambda v: names(v, FIRST, SECOND, 2, centre=False),
    "names-centred": lambda v: names(v, FIRST, SECOND, 2),
}
estimators = st.sampled_from(sorted(ESTIMATORS)).map(ESTIMATORS.__getitem__)


def table(seed: int) -> np.ndarray:
    """Vectors with a clear difference between the two halves, rounded so that a rotation of them is exact enough."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(N, DIM)) * np.linspace(3, 0.5, DIM)
    matrix[:6] += rng.normal(size=DIM)
    return matrix


def distinct(learned: Subspace) -> bool:
    """Whether the directions kept are told apart by more than the rounding of the input can blur."""
    spectrum = np.asarray(learned.spectrum)
    gaps = -np.diff(spectrum[: learned.k + 1])
    return bool((gaps > 0.02 * spectrum[0]).all())


@given(seeds, estimators)
def test_the_basis_is_orthonormal_and_the_shares_are_shares(seed: int, estimate: object) -> None:
    learned = estimate(Vectors(WORDS, table(seed)))  # type: ignore[operator]
    assert np.allclose(learned.basis @ learned.basis.T, np.eye(learned.k), atol=1e-12)
    assert (np.diff(learned.strength) <= 0).all()
    assert 0 < learned.explained.sum() <= 1 + 1e-12
    spectrum = np.asarray(learned.spectrum)
    assert np.allclose(learned.explained, learned.strength**2 / (spectrum**2).sum())


@given(seeds, seeds, estimators)
def test_the_order_of_the_vocabulary_does_not_matter(seed: int, shuffle: int, estimate: object) -> None:
    matrix = table(seed)
    order = np.random.default_rng(shuffle).permutation(N)
    straight = estimate(Vectors(WORDS, matrix))  # type: ignore[operator]
    shuffled = estimate(Vectors([WORDS[i] for i in order], matrix[order]))  # type: ignore[operator]
    assert np.allclose(straight.basis, shuffled.basis, atol=1e-9)


@given(seeds, seeds)
def test_the_order_of_the_lists_does_not_matter_sign_included(seed: int, shuffle: int) -> None:
    v = Vectors(WORDS, table(seed))
    order = np.random.default_rng(shuffle).permutation(6)
    couples = [COUPLES[i] for i in order]
    straight = pairs(v, COUPLES, 2)
    assume(distinct(straight))
    assert np.allclose(straight.basis, pairs(v, couples, 2).basis, atol=1e-9)
    some = [FIRST[i] for i in order]
    assert np.allclose(names(v, FIRST, SECOND, 1).basis, names(v, some, SECOND, 1).basis, atol=1e-7)
    assert np.allclose(words(v, FIRST).basis, words(v, some).basis, atol=1e-7)


@given(seeds, seeds, estimators)
def test_subspaces_turn_with_the_space(seed: int, turn: int, estimate: object) -> None:
    rotation = np.linalg.qr(np.random.default_rng(turn).normal(size=(DIM, DIM)))[0]
    straight = estimate(Vectors(WORDS, table(seed)))  # type: ignore[operator]
    turned = estimate(Vectors(WORDS, table(seed) @ rotation))  # type: ignore[operator]
    assume(straight.how == "span" or distinct(straight))
    before = straight.basis.T @ straight.basis
    after = turned.basis.T @ turned.basis
    assert np.allclose(rotation.T @ before @ rotation, after, atol=1e-3)  # the turned vectors are rounded to float32
    assert np.allclose(straight.spectrum, turned.spectrum, atol=1e-4)


@given(seeds, estimators)
def test_scaling_all_vectors_changes_no_direction(seed: int, estimate: object) -> None:
    v, doubled = Vectors(WORDS, table(seed)), Vectors(WORDS, 2 * table(seed))
    assert np.allclose(estimate(v).basis, estimate(doubled).basis)  # type: ignore[operator]


@given(seeds)
def test_every_direction_points_to_the_first_pole(seed: int) -> None:
    v = Vectors(WORDS, table(seed))
    between = v.take(FIRST)[0].mean(axis=0) - v.take(SECOND)[0].mean(axis=0)
    for learned in (pairs(v, COUPLES, 3), span(v, COUPLES), names(v, FIRST, SECOND, 3), two_means(v, FIRST, SECOND)):
        agreement = learned.basis @ between
        assert (agreement > -1e-9 * np.linalg.norm(between)).all()


@given(seeds, st.integers(1, 4), st.booleans())
def test_the_all_pairs_subspace_is_the_pca_of_all_differences(seed: int, k: int, centre: bool) -> None:
    v = Vectors(WORDS, table(seed))
    f, m = v.take(FIRST)[0], v.take(SECOND)[0]
    every = (f[:, None] - m[None]).reshape(-1, DIM)
    every = every - every.mean(axis=0) if centre else every
    _, values, directions = np.linalg.svd(every, full_matrices=False)
    learned = names(v, FIRST, SECOND, k, centre=centre)
    assume(distinct(learned))
    assert np.allclose(learned.strength, values[:k])
    assert np.allclose(np.abs(np.sum(learned.basis * directions[:k], axis=1)), 1, atol=1e-8)


@given(seeds)
def test_a_vector_is_its_projection_and_its_rejection(seed: int) -> None:
    v = Vectors(WORDS, table(seed))
    learned = span(v, COUPLES)
    x = v.matrix.astype(float)
    assert np.allclose(learned.project(x) + learned.reject(x), x)
    assert np.allclose(learned.coordinates(learned.reject(x)), 0, atol=1e-10)
    assert np.allclose(learned.project(learned.project(x)), learned.project(x))
    assert np.allclose(x @ learned.soft(np.ones(learned.k)), learned.reject(x))
    differences = v.take(FIRST)[0] - v.take(SECOND)[0]
    assert np.abs(learned.reject(x) @ differences.T).max() < 1e-6 * np.linalg.norm(x, axis=1).max()
