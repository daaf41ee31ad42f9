"""SAME: by hand, skew and stereotype, several groups in any order, and the released form."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Concept, Vectors, measures
from evenhand.errors import UsageError
from evenhand.measures.association.same import components

seeds = st.integers(0, 10_000)
same = measures.get("same")
V = Vectors(["f", "m", "w1", "w2"], [[0.0, 2.0], [0.0, -3.0], [3.0, 4.0], [4.0, -3.0]])
TWO = Concept("gender", groups={"female": ["f"], "male": ["m"]})


def groups_lab(seed, groups=3, dim=6):
    rng = np.random.default_rng(seed)
    names = {f"g{g}": [f"g{g}w{i}" for i in range(3)] for g in range(groups)}
    words = [f"w{i}" for i in range(4)]
    vocabulary = [w for group in names.values() for w in group] + words
    return Vectors(vocabulary, rng.normal(size=(len(vocabulary), dim)).astype(np.float32)), words, names


def test_two_groups_by_hand():
    # unit means (0, 1) and (0, -1), difference along the second axis: cosines .8 and -.6
    m = same(V, ["w1", "w2"], concept=TWO)
    assert [item["value"] for item in m.items] == pytest.approx([0.8, -0.6], abs=1e-6)
    assert m.value == pytest.approx(0.7)
    assert m.details["skew"] == pytest.approx(0.1)
    assert m.details["stereotype"] == pytest.approx(0.7)  # deviations .7 and -.7, ddof 0
    assert m.positive == "female"


@given(seeds)
def test_two_groups_in_either_order_and_every_way_of_combining(seed):
    vectors, words, names = groups_lab(seed, groups=2)
    plain = same(vectors, words, concept=Concept("c", groups=names))
    turned = same(vectors, words, concept=Concept("c", groups=names, positive="g1"))
    assert turned.value == pytest.approx(plain.value)
    assert turned.details["skew"] == pytest.approx(-plain.details["skew"])
    assert turned.details["stereotype"] == pytest.approx(plain.details["stereotype"])
    for combine in ("sum", "released"):
        assert same(vectors, words, concept=Concept("c", groups=names), combine=combine).value == pytest.approx(
            plain.value
        )


@given(seeds)
def test_the_order_of_several_groups_does_not_matter(seed):
    vectors, words, names = groups_lab(seed)
    values = [
        same(vectors, words, concept=Concept("c", groups={name: names[name] for name in order})).value
        for order in permutations(names)
    ]
    assert values == pytest.approx([values[0]] * 6)
    assert 0 <= values[0] <= 1


@given(seeds)
def test_is_the_length_of_the_unit_word_in_the_span_of_the_differences(seed):
    vectors, words, names = groups_lab(seed)
    unit = {w: vectors[w].astype(float) / np.linalg.norm(vectors[w].astype(float)) for w in vectors.words}
    means = [np.mean([unit[w] for w in group], axis=0) for group in names.values()]
    span, _ = np.linalg.qr(np.array([means[1] - means[0], means[2] - means[0]]).T)
    expected = [np.linalg.norm(unit[w] @ span) for w in words]
    m = same(vectors, words, concept=Concept("c", groups=names))
    assert [item["value"] for item in m.items] == pytest.approx(expected, abs=1e-6)


def test_the_released_form_weighs_later_components_by_their_length():
    means = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.5, 0.0]])
    parts = components(means)
    assert parts == pytest.approx(np.array([[1.0, 0, 0], [0, -0.5, 0]]))
    vectors = Vectors(["a", "b", "b2", "c", "w"], [[1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0.6, 0.8], [1, 1, 1]])
    concept = Concept("c", groups={"A": ["a"], "B": ["b", "b2"], "C": ["c"]})
    # A - B = (1, 0, 0); A - C = (1, -.6, -.8), of which (0, -.6, -.8) of length 1 is left: the weight changes nothing
    values = {combine: same(vectors, ["w"], concept=concept, combine=combine).value for combine in ("sum", "released")}
    assert values["sum"] == pytest.approx(values["released"]) == pytest.approx((1 + 1.4) / np.sqrt(3))
    halved = Vectors(vectors.words, vectors.matrix * [[1], [1], [1], [1], [1]])
    concept = Concept("c", groups={"A": ["a"], "B": ["b", "b2"], "C": ["c", "a"]})
    # the mean of C is (.5, .3, .4): A - C leaves (0, -.3, -.4) of length .5
    values = {combine: same(halved, ["w"], concept=concept, combine=combine).value for combine in ("sum", "released")}
    assert values["sum"] == pytest.approx((1 + 1.4) / np.sqrt(3))
    assert values["released"] == pytest.approx((1 + 0.5 * 1.4) / np.sqrt(3))


@given(seeds, st.floats(0.1, 10))
def test_neither_rotation_nor_scale_matters(lab, seed, factor):
    vectors, words, names = groups_lab(seed)
    concept = Concept("c", groups=names)
    plain = same(vectors, words, concept=concept).value
    assert same(lab.rotated(vectors), words, concept=concept).value == pytest.approx(plain, abs=1e-5)
    assert same(lab.scaled(vectors, factor), words, concept=concept).value == pytest.approx(plain, abs=1e-5)


def test_a_group_between_two_others_adds_no_component():
    parts = components(np.array([[1.0, 0.0], [0.0, 0.0], [0.5, 0.0]]))
    assert parts.tolist() == [[1.0, 0.0]]


def test_nurse_and_engineer():
    m = same(Vectors.default(), ["nurse", "engineer", "librarian", "captain"])
    values = {item["word"]: item["value"] for item in m.items}
    assert values["nurse"] > 0 > values["engineer"]
    assert m.interval[0] < m.value < m.interval[1]


@pytest.mark.parametrize(
    ("words", "groups", "reason"),
    [
        (["gone"], {"a": ["f"], "b": ["m"]}, "no word of words"),
        (["w1"], {"a": ["f"], "b": ["gone"]}, "no word of b"),
        (["w1"], {"a": ["f"], "b": ["f"]}, "b has the same mean vector as a"),
    ],
)
def test_undefined_says_why(words, groups, reason):
    m = same(V, words, concept=Concept("c", groups=groups))
    assert m.status == "undefined"
    assert reason in m.reason


def test_invalid_arguments_raise():
    with pytest.raises(UsageError, match="mean"):
        same(V, ["w1"], concept=TWO, combine="mean")


def test_one_group_is_undefined_and_names_the_concept():
    m = same(V, ["w1"], concept=Concept("c", groups={"a": ["f"]}))
    assert (m.status, m.reason) == ("undefined", "concept 'c' has one group; SAME compares two or more")
