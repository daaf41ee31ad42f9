from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import UnknownNameError, UsageError
from evenhand.models.vectors import Vectors
from evenhand.subspaces import learn, names, pair, pairs, span, two_means
from evenhand.words import Concept, Recipe

V = Vectors(
    ["she", "he", "woman", "man", "mary", "anna", "john", "paul", "french", "german", "thai"],
    np.random.default_rng(2).normal(size=(11, 6)),
)
GROUPS = {"female": ["she", "woman"], "male": ["he", "man"]}
PAIRS = [("she", "he"), ("woman", "man")]


def concept(**parts: object) -> Concept:
    return Concept(**{"name": "gender", "groups": GROUPS, "pairs": PAIRS} | parts)  # type: ignore[arg-type]


def test_the_published_direction_comes_first() -> None:
    published = concept(direction=Recipe("pair", ("she", "he"), normalise=True))
    learned = learn(V, published)
    assert np.allclose(learned.basis, pair(V, "she", "he").basis)
    assert learned.params["chosen"] == "published"
    assert learned.poles == ("female", "male")


def test_then_the_pairs_then_the_means_and_it_says_which() -> None:
    by_pairs = learn(V, concept())
    assert np.allclose(by_pairs.basis, pairs(V, PAIRS).basis)
    assert "pairs" in by_pairs.params["chosen"]
    by_means = learn(V, concept(pairs=[]))
    assert np.allclose(by_means.basis, two_means(V, GROUPS["female"], GROUPS["male"]).basis)
    assert "no pairs" in by_means.params["chosen"]


def test_the_positive_group_decides_the_sign() -> None:
    male = learn(V, concept(pairs=[], positive="male"))
    assert np.allclose(male.basis, -learn(V, concept(pairs=[])).basis)
    assert male.poles == ("male", "female")


def test_a_recipe_or_a_name_overrides() -> None:
    assert learn(V, concept(), "span") == learn(V, concept(), Recipe("span"))
    assert np.allclose(learn(V, concept(), "span").basis, span(V, PAIRS).basis)
    assert learn(V, concept(), "pairs", k=2).k == 2
    assert learn(V, concept(), "pair").coverage.found == ("she", "he")
    assert learn(V, concept(), "pair", normalise=False).params["normalise"] is False
    assert learn(V, concept(), "classifier").how == "classifier"


def test_words_of_two_groups_point_to_the_positive_one() -> None:
    learned = learn(V, concept(), "words", k=2)
    between = V.take(GROUPS["female"])[0].mean(axis=0) - V.take(GROUPS["male"])[0].mean(axis=0)
    assert (learned.basis @ between > 0).all()
    assert learned.poles == ("female", "male")


def test_names_come_from_the_concepts_names() -> None:
    lists = {"female": ["mary", "anna"], "male": ["john", "paul"]}
    learned = learn(V, concept(names=lists), "names", k=2)
    assert np.allclose(learned.basis, names(V, lists["female"], lists["male"], k=2).basis)


def test_three_groups_are_the_positive_one_against_the_rest() -> None:
    three = Concept("nationality", {"a": ["french"], "b": ["german"], "c": ["thai"]}, positive="c")
    learned = learn(V, three)
    assert np.allclose(learned.basis, two_means(V, ["thai"], ["french", "german"]).basis)
    assert learned.poles == ("c", "rest")
    assert learn(V, three, Recipe("words", ("french", "german", "thai"), k=2, centre=True)).poles == ("", "")


def test_what_cannot_be_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"'piar'\n.*did you mean: pair"):
        learn(V, concept(), "piar")
    with pytest.raises(UsageError, match="no pairs"):
        learn(V, concept(pairs=[]), "pairs")
    with pytest.raises(UsageError, match="needs two lists of words"):
        learn(V, concept(), "names")
    with pytest.raises(UsageError, match="'pair' has no option k=2"):
        learn(V, concept(), "pair", k=2)


@pytest.mark.parametrize("how", ["pair", "span", "two-means", "group-means", "classifier"])
def test_centring_is_refused_where_it_has_no_effect(how: str) -> None:
    with pytest.raises(UsageError, match=f"'{how}' has no option centre=True"):
        learn(V, concept(), how, centre=True)
    assert learn(V, concept(), how, centre=False).how == how
