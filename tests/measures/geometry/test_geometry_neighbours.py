from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from evenhand.errors import UsageError
from evenhand.measures import get
from evenhand.models.vectors import Vectors

neighbours = get("neighbours")


def brute_force(v: Vectors, before: Vectors, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Bias before and share of female-leaning neighbours now, one word after the other."""

    def cos(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    words = [word for word in v.words if word not in ("she", "he", "woman", "man", "girl", "boy")]
    old, new = ({word: table[word].astype(np.float64) for word in table.words} for table in (before, v))
    bias = {word: cos(old[word], old["she"]) - cos(old[word], old["he"]) for word in words}
    shares = []
    for word in words:
        near = sorted((w for w in words if w != word), key=lambda w: -cos(new[word], new[w]))[:k]
        shares.append(np.mean([bias[w] > 0 for w in near]))
    return np.array([bias[word] for word in words]), np.array(shares)


@pytest.mark.parametrize("flat", [False, True])
def test_it_equals_a_double_loop(planted, flat: bool) -> None:
    before = planted(2, first=1.0, second=0.5)
    v = before.with_matrix(before.matrix * np.array([0.3, *np.ones(before.dim - 1)])) if flat else before
    bias, shares = brute_force(v, before, 7)
    m = neighbours(v, k=7, reference=before)
    assert m.value == pytest.approx(pearsonr(bias, shares).statistic, abs=1e-6)
    assert m.details["spearman"] == pytest.approx(spearmanr(bias, shares).statistic, abs=1e-6)
    assert [item["neighbours"] for item in m.items] == pytest.approx(shares.tolist())
    assert m.interval is not None
    assert m.interval[0] < m.value < m.interval[1]


def test_planted_sides_stay_together_and_noise_separates_them(planted) -> None:
    v = planted(n=150)
    assert neighbours(v, k=5).value > 0.9
    noise = v.with_matrix(np.random.default_rng(8).normal(size=v.matrix.shape))
    assert abs(neighbours(noise, k=5, reference=v).value) < 0.25


def test_the_professions_variant_is_a_list_of_words_in_the_same_pool(planted) -> None:
    v = planted()
    whole, some = neighbours(v, k=5), neighbours(v, ["fqaa", "fqab", "mqaa", "mqab", "nowhere"], k=5)
    by_word = {item["word"]: item for item in whole.items}
    assert all(by_word[item["word"]] == item for item in some.items)
    assert (some.n, some.coverage.missing) == (4, ("nowhere",))
    assert some.details["pool"]["used"] == 40


def test_a_sample_is_seeded_and_recorded(planted) -> None:
    a, b, c = (neighbours(planted(), k=5, sample=10, seed=seed) for seed in (1, 1, 2))
    assert a == b
    assert [item["word"] for item in a.items] != [item["word"] for item in c.items]
    assert (a.n, a.params["sample"]) == (10, 10)


def test_a_small_pool_gives_all_it_has(planted) -> None:
    m = neighbours(planted(n=3), k=100)
    assert (m.details["k"], m.params["k"]) == (5, 100)


def test_undefined_results_and_invalid_arguments(planted) -> None:
    v = planted()
    one_side = [word for word in v.words if word.startswith("fq")]
    assert "does not vary" in neighbours(v, k=5, pool=one_side).reason  # every neighbour is of that side
    assert neighbours(v, ["nowhere"]).status == "undefined"
    assert "she/he" in neighbours(v.with_matrix(np.ones_like(v.matrix))).reason
    with pytest.raises(UsageError, match="statistic must be pearson or spearman"):
        neighbours(v, statistic="kendall")
    with pytest.raises(UsageError, match="k=0"):
        neighbours(v, k=0)


@pytest.mark.data
def test_the_published_correlations_on_googlenews(googlenews: Vectors) -> None:
    """Gonen & Goldberg 2019: .741 over the vocabulary and .747 over the professions before mitigation."""
    assert neighbours(googlenews).value == pytest.approx(0.741, abs=0.03)
    assert neighbours(googlenews, "bolukbasi2016-professions").value == pytest.approx(0.747, abs=0.03)
