"""RIPA's intervals over pairs: what leaves no doubt, what has no interval, and how often they cover in simulation."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.measures.association.ripa import Relation, pair_intervals

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
