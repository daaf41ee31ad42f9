from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

import evenhand as eh
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.mitigations import DoubleHardDebias
from evenhand.mitigations.projection.double_hard import DoubleHardScore, agreement
from evenhand.mitigations.selection import ExceptListed
from evenhand.models.vectors import Vectors
from evenhand.words import Concept, Recipe

RNG = np.random.default_rng(7)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PLAIN = [f"w{a}{b}" for a in LETTERS[:12] for b in LETTERS[:10]]
WORDS = ["she", "he", "woman", "man", *PLAIN, "Upper", "digit1", "new_york", "x" * 20]
V = Vectors(WORDS, RNG.normal(size=(len(WORDS), 6)) * [3, 2, 1, 1, 1, 1] + [1, 0, 0, 0, 0, 2], name="toy")
GENDER = Concept(
    "gender",
    {"female": ["she"], "male": ["he"]},
    [("woman", "man"), ("she", "he")],
    direction=Recipe("pair", ("she", "he")),
    specific=["waa"],
)
QUICK = DoubleHardDebias(components=4, n_words=30)


def stepwise(number: int) -> np.ndarray:
    """The published steps one after the other: purify with component `number`, learn g again, reject it."""
    x = V.matrix.astype(np.float64)
    mean = x.mean(axis=0)
    d = PCA().fit(x - mean).components_[number]
    purified = np.array([row - (row @ d) * d - mean for row in x])
    pairs = [(V.index[a], V.index[b]) for a, b in GENDER.pairs]
    halves = []
    for a, b in pairs:
        centre = (purified[a] + purified[b]) / 2
        halves += [purified[a] - centre, purified[b] - centre]
    g = PCA(n_components=1).fit(np.array(halves)).components_[0]
    return np.array([row - (row @ g) * g for row in purified])


def test_the_affine_map_is_the_published_steps() -> None:
    vm = QUICK.fit(V, GENDER)
    chosen = vm.report["component"] - 1
    assert chosen == int(np.argmin(vm.report["accuracies"]))
    assert np.allclose(vm(V.matrix.astype(np.float64)), stepwise(chosen), atol=1e-5)
    assert vm.rank_removed == 2
    assert len(vm.report["accuracies"]) == 4


def test_every_component_is_tried_by_the_published_steps() -> None:
    rows, sides = QUICK._most_biased(V, GENDER, ("she", "he"))
    expected = [agreement(stepwise(number)[rows], sides) for number in range(4)]
    assert QUICK.fit(V, GENDER).report["accuracies"] == pytest.approx(expected, abs=1 / 60 + 1e-9)


def test_centring_first_drops_the_constant() -> None:
    usual, clean = QUICK.fit(V, GENDER), DoubleHardDebias(4, 30, centre_first=True).fit(V, GENDER)
    difference = usual(V.matrix) - clean(V.matrix)
    assert np.allclose(difference, difference[0], atol=1e-5)
    assert np.linalg.norm(difference[0]) > 0.01
    x = V.matrix.astype(np.float64)
    assert np.allclose(clean(x).mean(axis=0), 0, atol=1e-5)
    assert usual.report["component"] == clean.report["component"]


def test_the_most_biased_words_by_hand() -> None:
    words = ["she", "he", "nurse", "sewing", "neat", "boss", "guns", "dull", "Upper", "a1"]
    along = [1, -1, 3, 2, 1, -3, -2, -1, 9, -9]
    v = Vectors(words, [[x, 3.0, 0.1 * n] for n, x in enumerate(along)])
    concept = Concept("gender", {"f": ["she"], "m": ["he"]}, [("she", "he")], specific=["neat"])
    rows, sides = DoubleHardDebias(n_words=2)._most_biased(v, concept, ("she", "he"))
    assert [v.words[row] for row in rows] == ["nurse", "sewing", "guns", "boss"]
    assert sides.tolist() == [1, 1, 0, 0]
    rows, _ = DoubleHardDebias(n_words=50)._most_biased(v, concept, ("she", "he"))
    assert len(rows) == 4  # five plain words: two a side


def test_length_counts_in_the_score_by_projection_only() -> None:
    v = Vectors(
        ["she", "he", "short", "long", "other", "third"],
        [[1, 1], [-1, 1], [1, 0], [5, 20], [-1, 3], [-1, 0]],
    )
    concept = Concept("g", pairs=[("she", "he")])
    by_cosine = DoubleHardDebias(n_words=2)._most_biased(v, concept, ("she", "he"))[0]
    by_projection = DoubleHardDebias(n_words=2, score="projection")._most_biased(v, concept, ("she", "he"))[0]
    assert v.words[by_cosine[0]] == "short"
    assert v.words[by_projection[0]] == "long"


def test_the_anchor_counts_with_its_length_in_the_score_by_projection_only() -> None:
    words = ["she", "he", "first", "second", "other", "third"]
    v = Vectors(words, [[4, 0], [0, 1], [0.1, -1], [1, 0.5], [-1, 0.9], [-0.9, 0.8]])
    concept = Concept("g", pairs=[("she", "he")])

    def most_biased(score: DoubleHardScore) -> str:
        return v.words[DoubleHardDebias(n_words=2, score=score)._most_biased(v, concept, ("she", "he"))[0][0]]

    assert most_biased("cosine") == "first"  # along (1, -1): 1.1 / 1.005 and 0.5 / 1.118
    assert most_biased("projection") == "second"  # along (4, -1): 1.4 and 3.5


def test_agreement_does_not_depend_on_which_cluster_is_which() -> None:
    rows = np.array([[0.0], [0.1], [5.0], [5.1]])
    assert agreement(rows, np.array([1, 1, 0, 0])) == 1
    assert agreement(rows, np.array([0, 0, 1, 1])) == 1
    assert agreement(rows, np.array([0, 1, 0, 1])) == 0.5


@pytest.mark.filterwarnings("ignore:the map keeps only")  # most of the variance is in the component
def test_a_cluster_hidden_by_frequency_is_found() -> None:
    # The poles differ along the first axis, the strongest component is the second: the pairs differ in it as well, so
    # that only without it their direction is the right one.
    rng = np.random.default_rng(0)
    side = np.repeat([1.0, -1.0], 60)
    matrix = rng.normal(size=(120, 8)) * 0.3
    matrix[:, 0] += side
    matrix[:, 1] += rng.normal(size=120) * 5
    pairs = [[1.0, 6], [-1, -6]]
    v = Vectors(["she", "he", *PLAIN[:120]], np.vstack([np.pad(pairs, ((0, 0), (0, 6))), matrix]))
    vm = DoubleHardDebias(components=4, n_words=40).fit(v, Concept("gender", pairs=[("she", "he")]))
    assert vm.report["component"] == 1
    assert vm.report["accuracies"][0] < 0.75


def test_words_can_be_spared_and_the_report_is_complete() -> None:
    vm = DoubleHardDebias(4, 30, words=ExceptListed(["she"])).fit(V, GENDER)
    assert vm(V)["she"].tolist() == V["she"].tolist()
    assert vm.report["anchor"] == ["she", "he"]
    assert vm.report["words_clustered"] == 60
    assert vm.report["accuracy_before"] > 0.5
    assert vm.report["pairs_lost"] == []


def test_the_anchor_may_be_given_and_defaults_to_the_first_pair() -> None:
    bare = Concept("gender", pairs=[("woman", "man"), ("she", "he")])
    assert QUICK.fit(V, bare).report["anchor"] == ["woman", "man"]
    assert DoubleHardDebias(4, 30, anchor=("she", "he")).fit(V, bare).report["anchor"] == ["she", "he"]


def test_invalid_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="exactly two groups; concept 'religion' has 3 groups"):
        DoubleHardDebias().fit(eh.Vectors.default(), "religion")
    with pytest.raises(UsageError, match="Double-Hard needs pairs"):
        DoubleHardDebias().fit(V, Concept("g", {"f": ["she"], "m": ["he"]}))
    with pytest.raises(UsageError, match="components and n_words must be at least 1"):
        DoubleHardDebias(components=0).fit(V, GENDER)
    with pytest.raises(UsageError, match="unknown score"):
        DoubleHardDebias(score="dot").fit(V, GENDER)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="anchor must be two words"):
        DoubleHardDebias(anchor="she").fit(V, GENDER)
    with pytest.raises(VocabularyError, match="gal/guy"):
        DoubleHardDebias().fit(V, Concept("g", pairs=[("gal", "guy")]))
    with pytest.raises(DegenerateError, match="too few to cluster"):
        DoubleHardDebias().fit(V.restrict(["she", "he", "wab", "wac"]), Concept("g", pairs=[("she", "he")]))
    with pytest.raises(DegenerateError, match="same vectors"):
        DoubleHardDebias().fit(V.with_matrix(np.ones_like(V.matrix)), GENDER)
