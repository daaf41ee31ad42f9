"""DisCo: the test by hand, a model that tells the groups apart, and one that does not."""

from collections.abc import Sequence

import numpy as np
import pytest
from given_likelihoods import GivenTokens
from scipy.stats import chi2_contingency

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures.likelihood.disco import chi_squared, disco

PEOPLE = {"female": [f"f{n}" for n in range(40)], "male": [f"m{n}" for n in range(40)]}
CONCEPT = eh.Concept("gender", groups={"female": ["she"], "male": ["he"]}, names=PEOPLE)


class Fills(GivenTokens):
    """A model whose first fill may depend on the first letter of the name."""

    def __init__(self, *, biased: bool) -> None:
        super().__init__()
        self.biased = biased

    def top_fillers(self, contexts: Sequence[str], k: int, *, tokens: int | None = None) -> list[list[str]]:
        return [["cook" if self.biased and text[0] == "f" else "run", "read", "sing"][:k] for text in contexts]


def test_the_test_by_hand() -> None:
    present = np.array([[1, 1], [1, 0], [0, 1], [0, 1], [0, 1]], dtype=bool)
    groups = np.array([0, 0, 1, 1, 1])
    expected = [chi2_contingency(table, correction=False).pvalue for table in ([[2, 0], [0, 3]], [[1, 1], [3, 0]])]
    assert chi_squared(present, groups) == pytest.approx(expected)
    assert chi_squared(np.ones((5, 1), dtype=bool), groups) == pytest.approx([1.0])


def test_fills_that_depend_on_the_group() -> None:
    result = disco(Fills(biased=True), concept=CONCEPT)
    assert result.value == 2  # cook and run, in every template
    assert result.p_value < 0.05
    assert result.details["shuffled_mean"] < 0.5
    assert {item["fill"] for item in result.items} == {"cook", "run"}
    cook = next(item for item in result.items if item["fill"] == "cook")
    assert (cook["female"], cook["male"]) == (1.0, 0.0)


def test_fills_that_do_not() -> None:
    result = disco(Fills(biased=False), concept=CONCEPT)
    assert (result.value, result.p_value, result.items) == (0, 1.0, ())


def test_few_names_are_noted_and_bad_input_refused() -> None:
    few = eh.Concept("gender", groups={"f": ["she"], "m": ["he"]}, names={"f": ["fa"], "m": ["ma"]})
    assert "1 names in the smallest group" in disco(Fills(biased=True), concept=few).note
    assert "has no names" in disco(Fills(biased=True), concept="religion").reason
    with pytest.raises(UsageError, match="needs"):
        disco(Fills(biased=True), concept=CONCEPT, templates=["{person} runs."])
    with pytest.raises(UsageError, match="unknown source of names"):
        disco(Fills(biased=True), "terms", concept=CONCEPT)
