"""The directions between any number of groups."""

import itertools

import numpy as np
import pytest

import evenhand as eh
from evenhand import subspaces
from evenhand.errors import DegenerateError, EvenhandWarning, VocabularyError

VECTORS = eh.Vectors(
    ["a1", "a2", "b1", "c1", "c2"],
    [[2.0, 1.0, 0.0], [2.0, -1.0, 0.0], [-1.0, 0.0, 3.0], [-1.0, 5.0, -3.0], [-1.0, -5.0, -3.0]],
)
GROUPS = {"a": ["a1", "a2"], "b": ["b1"], "c": ["c1", "c2"]}


def test_means_by_hand():
    # the means (2, 0, 0), (-1, 0, 3), (-1, 0, -3) are centred: the squares are 6 along the first and 18 along the third
    learned = subspaces.group_means(VECTORS, GROUPS)
    assert np.abs(learned.basis) == pytest.approx(np.array([[0, 0, 1], [1, 0, 0]]), abs=1e-7)
    assert learned.strength**2 == pytest.approx([18, 6])
    assert subspaces.group_means(VECTORS, GROUPS, 1).k == 1
    assert subspaces.group_means(VECTORS, GROUPS, 5).k == 2  # three groups differ in two directions


def test_two_groups_have_the_direction_of_two_means():
    two = {"a": GROUPS["a"], "b": GROUPS["b"]}
    same = subspaces.two_means(VECTORS, two["a"], two["b"]).basis
    assert abs(float((subspaces.group_means(VECTORS, two).basis @ same.T)[0, 0])) == pytest.approx(1)


@pytest.mark.parametrize("order", list(itertools.permutations(GROUPS)))
def test_the_order_of_groups_does_not_matter(order):
    plain = subspaces.group_means(VECTORS, GROUPS)
    turned = subspaces.group_means(VECTORS, {name: GROUPS[name] for name in order})
    assert turned.basis == pytest.approx(plain.basis, abs=1e-7)


def test_missing_groups_are_named():
    with pytest.warns(EvenhandWarning, match="no word of d"):
        learned = subspaces.group_means(VECTORS, {**GROUPS, "d": ["x"]}, 3)
    assert learned.k == 2
    assert learned.params["left_out"] == ["d"]
    with pytest.raises(VocabularyError, match="words of 1 group"):
        subspaces.group_means(VECTORS, {"a": ["a1"], "d": ["x"]})
    with pytest.raises(DegenerateError, match="same mean"):
        subspaces.group_means(VECTORS, {"a": ["a1"], "b": ["a1"]})


def test_a_concept_of_several_groups_learns_them_all(glove):
    concept = eh.concept("ethnicity")
    learned = subspaces.learn(glove, concept)
    assert (learned.k, learned.params["chosen"]) == (4, "published")
    assert subspaces.learn(glove, concept, "group-means", k=2).k == 2
    changed = eh.mitigations.get("linear")().fit(glove, concept)(glove)
    means = [changed.take(words)[0].mean(axis=0) for words in concept.groups.values()]
    spread = np.linalg.norm(means - np.mean(means, axis=0))
    assert spread < 1e-4 * np.linalg.norm(means[0])
