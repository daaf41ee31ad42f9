"""What table 2 of Ethayarajh et al. needs from a text: equation 7 by hand, its two constants, and its noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from evenhand.corpus import Cooccurrence, Texts, cooccurrence, genderedness
from evenhand.corpus.genderedness import by_chance, fit_constants
from evenhand.errors import DegenerateError, UsageError, VocabularyError

PAIR = [("she", "he")]


def counted(table: np.ndarray, words: list[str], **params: object) -> Cooccurrence:
    return Cooccurrence(tuple(words), csr_array(table.astype(float)), np.full(len(words), 100), params)


def neutral(words: int = 60, company: float = 40.0, seed: int = 0) -> Cooccurrence:
    """He meets everybody three times as often as she does, whoever it is: no word is gendered but by chance."""
    rng = np.random.default_rng(seed)
    names = ["she", "he", *(f"w{i}" for i in range(words))]
    table = np.zeros((len(names), len(names)))
    table[0, 2:] = rng.poisson(company, size=words)
    table[1, 2:] = rng.poisson(3 * company, size=words)
    table[0, 1] = 5
    return counted(table + table.T, names)


def test_equation_7_by_hand() -> None:
    """X: she-he 2, she-nurse 6, he-nurse 2, she-boss 2, he-boss 6, so that each row but the last two sums to 10."""
    table = np.array([[0, 2, 6, 2], [2, 0, 2, 6], [6, 2, 0, 0], [2, 6, 0, 0]])
    counts = counted(table, ["she", "he", "nurse", "boss"])
    p = 2 / 36
    cspmi = np.log(p / (10 / 36) ** 2) + np.log(p)
    expected = np.log(3) / np.sqrt(2 * (-cspmi - 0.5))
    nurse, boss = genderedness(counts, ["nurse", "boss"], pairs=PAIR, alpha=-0.5, lambda_=2.0)
    assert nurse.value == pytest.approx(expected)
    assert boss.value == pytest.approx(-expected)


def test_a_text_where_it_is_known() -> None:
    """Nurse stands beside she four times and beside he once, as often as cook does the other way round; tea has no side."""
    text = ["she nurse"] * 4 + ["he nurse"] + ["he cook"] * 4 + ["she cook"] + ["she tea", "he tea", "she he"]
    counts = cooccurrence(Texts(text), 1)
    nurse, cook, tea = genderedness(counts, ["nurse", "cook", "tea"], pairs=PAIR, alpha=5.0)
    assert nurse.value == pytest.approx(-cook.value)
    assert nurse.value > 0
    assert tea.value == pytest.approx(0)


def test_below_min_cooccurrence_can_be_left_out_with_the_reason() -> None:
    counts = cooccurrence(Texts(["she nurse", "she nurse", "he nurse", "he she"]), 1)
    (kept,) = genderedness(counts, "nurse", pairs=PAIR, alpha=5.0, least=1.0)
    (lost,) = genderedness(counts, "nurse", pairs=PAIR, alpha=5.0, least=1.5)
    assert kept.value is not None
    assert lost.value is None
    assert lost.lost[PAIR[0]] == "near 'he' with a count below 1.5"
    (never,) = genderedness(cooccurrence(Texts(["she nurse", "he she"]), 1), "nurse", pairs=PAIR, alpha=5.0)
    assert never.lost[PAIR[0]] == "never near 'he'"
    with pytest.raises(VocabularyError, match="'doctor' is not in the co-occurrence counts"):
        genderedness(counts, "doctor", pairs=PAIR)


@pytest.mark.slow
@given(
    st.lists(st.floats(-15, -3), min_size=4, max_size=12, unique_by=lambda c: round(c, 1)),
    st.floats(-2.5, 8),
    st.floats(0.2, 5),
)
def test_both_constants_are_recovered_from_exact_distances(cspmi: list[float], alpha: float, lambda_: float) -> None:
    c = np.array(cspmi)
    d = np.sqrt((alpha - c) / lambda_)
    one = fit_constants(c, d, lambda_=lambda_)
    assert one.alpha == pytest.approx(alpha, abs=1e-5)
    assert one.error == pytest.approx(0, abs=1e-5)
    both = fit_constants(c, d, lambda_=None)
    assert both.error == pytest.approx(0, abs=1e-4)
    if np.ptp(c) > 1:
        assert both.alpha == pytest.approx(alpha, rel=0.01, abs=0.05)
        assert both.lambda_ == pytest.approx(lambda_, rel=0.02)
        assert both.identified


@given(st.integers(0, 10_000))
def test_no_other_alpha_fits_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c, d = rng.uniform(-15, -5, 10), rng.uniform(0.1, 5, 10)
    found = fit_constants(c, d)
    for alpha in np.linspace(c.max(), c.max() + 40, 200):
        assert np.sqrt(((d - np.sqrt(alpha - c)) ** 2).mean()) >= found.error - 1e-9
    assert found.alpha >= c.max()


def test_distances_that_do_not_grow_say_nothing_of_lambda() -> None:
    c = np.linspace(-15, -5, 10)
    assert not fit_constants(c, 1 + 0.01 * (c + 15), lambda_=None).identified
    assert fit_constants(c, np.sqrt(-c), lambda_=None).identified


def test_constants_refuse_what_cannot_be_fitted() -> None:
    with pytest.raises(UsageError, match="got 2 and 1"):
        fit_constants([-9, -8], [1.0])
    with pytest.raises(UsageError, match="at least 3 pairs, got 2"):
        fit_constants([-9, -8], [1.0, 2.0], lambda_=None)
    with pytest.raises(UsageError, match="lambda must be above 0, got 0"):
        fit_constants([-9], [1.0], lambda_=0.0)
    with pytest.raises(DegenerateError, match="every distance above 0"):
        fit_constants([-9, -8], [1.0, 0.0])


def test_chance_is_what_neutral_words_show() -> None:
    counts = neutral(400)
    words = counts.words[2:]
    how = {"pairs": PAIR, "alpha": 5.0}
    seen = np.mean([abs(one.value) for one in genderedness(counts, words, **how)])
    assert by_chance(counts, words, **how) == pytest.approx(seen, rel=0.12)


def test_chance_falls_with_the_size_of_the_text_and_stays_the_same_for_a_seed() -> None:
    little, much = (
        by_chance(c, c.words[2:], pairs=PAIR, alpha=9.0) for c in (neutral(company=10), neutral(company=1000))
    )
    assert little > 5 * much
    counts = neutral()
    assert by_chance(counts, counts.words[2:], pairs=PAIR, alpha=5.0) == by_chance(
        counts, counts.words[2:], pairs=PAIR, alpha=5.0
    )


def test_chance_of_nothing_is_an_error() -> None:
    counts = counted(np.array([[0, 2, 0], [2, 0, 0], [0, 0, 1]]), ["she", "he", "nurse"])
    with pytest.raises(DegenerateError, match="none of these words co-occurs with both words of a pair"):
        by_chance(counts, ["nurse"], pairs=PAIR, alpha=5.0)
    with pytest.raises(DegenerateError, match=r"no pair is defined.*\n.*'queen' is not in the text"):
        by_chance(counts, ["nurse"], pairs=[("queen", "king")])
    with pytest.raises(UsageError, match="draws must be at least 1"):
        by_chance(counts, ["nurse"], pairs=PAIR, draws=0)


@pytest.mark.parametrize("lambda_", [0.5, 1.0, 2.0])
def test_the_constant_has_the_least_squares(lambda_: float) -> None:
    rng = np.random.default_rng(0)
    c = rng.uniform(-20, -5, 12)
    d = np.sqrt((-1 - c) / lambda_) * np.exp(0.1 * rng.standard_normal(12))
    found = fit_constants(c, d, lambda_=lambda_)
    alphas = np.linspace(-4.9, 5, 99_001)
    losses = ((d - np.sqrt((alphas[:, None] - c) / lambda_)) ** 2).mean(axis=1)
    assert found.alpha == pytest.approx(alphas[losses.argmin()], abs=2e-4)
