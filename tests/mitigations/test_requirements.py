"""A method says at once, before it reads a vector, that it cannot work with a concept."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import EvenhandWarning, UnknownNameError, UsageError
from evenhand.mitigations import get, ids
from evenhand.mitigations.method import require_single_direction
from evenhand.mitigations.selection import ExceptDefined, ExceptSpecific
from evenhand.models.vectors import Vectors
from evenhand.words import Concept, Recipe

THREE = Concept("three", groups={"a": ["a1", "a2"], "b": ["b1", "b2"], "c": ["c1", "c2"]})
TWO = Concept("two", groups={"a": ["a1", "a2"], "b": ["b1", "b2"]})
ONE = Concept("one", groups={"a": ["a1", "a2"]})


class Untouched(Vectors):
    """Vectors that fail as soon as a method reads them."""

    @property
    def matrix(self) -> np.ndarray:  # type: ignore[override]
        raise AssertionError("a method read the vectors before it checked the concept")


NO_GROUPS = ("hsr", "random", "equalised-odds")  # compare no groups, or those of a table


@pytest.mark.parametrize("id", [id for id in ids() if id not in NO_GROUPS])
def test_one_group_is_refused_with_a_hint(id: str) -> None:
    with pytest.raises(UsageError, match="'one'") as caught:
        get(id)().check_concept(ONE)
    assert caught.value.hint


def test_half_sibling_regression_needs_the_words_of_one_group_only() -> None:
    get("hsr")().check_concept(ONE)


@pytest.mark.parametrize("id", ["span", "double-hard", "bam", "gp", "gn-glove"])
def test_methods_that_need_pairs_name_the_concept_without(id: str) -> None:
    with pytest.raises(UsageError, match=r"pairs[\s\S]*'two'"):
        get(id)().check_concept(TWO)


@pytest.mark.parametrize("id", ["double-hard", "bam", "gp", "gn-glove", "oscar", "ran"])
def test_methods_for_two_groups_refuse_three(id: str) -> None:
    with pytest.raises(UsageError, match=r"'three'[\s\S]*3 groups"):
        get(id)().check_concept(THREE)


@pytest.mark.parametrize("id", ["linear", "hard", "soft", "misp", "inlp", "leace", "rlace", "hsr"])
def test_methods_for_any_number_of_groups_accept_three(id: str) -> None:
    get(id)().check_concept(THREE)


@pytest.mark.parametrize("id", ids())
def test_every_method_accepts_gender_by_name(id: str) -> None:
    get(id)().check_concept("gender")


@pytest.mark.parametrize("id", ["span", "bam", "gp", "ran", "leace", "hard"])
def test_fit_checks_before_it_reads_the_vectors(id: str) -> None:
    vectors = object.__new__(Untouched)
    with pytest.raises(UsageError, match="'one'"):
        get(id)().fit(vectors, ONE)


def bad_settings() -> Iterator[tuple[str, dict[str, object], type[Exception], str]]:
    yield "linear", {"subspace": "pairs"}, UsageError, "pairs"
    yield "linear", {"subspace": "names"}, UsageError, "first names"
    yield "linear", {"subspace": "piars"}, UnknownNameError, "piars"
    yield "hard", {"subspace": Recipe("span")}, UsageError, "pairs"
    yield "leace", {"labels": "names"}, UsageError, "first names"
    yield "leace", {"labels": "biased", "direction": "pairs"}, UsageError, "pairs"
    yield "linear", {"words": ExceptSpecific()}, UsageError, "specific"
    yield "linear", {"words": ExceptDefined()}, UsageError, "defining pairs"


@pytest.mark.parametrize(("id", "params", "kind", "message"), list(bad_settings()))
def test_parameters_that_ask_for_words_the_concept_lacks(
    id: str, params: dict[str, object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        get(id)(**params).check_concept(TWO)


def three_clusters() -> Vectors:
    """Three groups around orthogonal centres, in six dimensions, with a common offset."""
    rng = np.random.default_rng(0)
    words = [*(word for group in THREE.groups.values() for word in group), *(f"w{number}" for number in range(30))]
    rows = rng.standard_normal((len(words), 6)) * 0.01 + 1
    for number in range(6):
        rows[number, number // 2] += 1
    return Vectors(words, rows.astype(np.float32))


def test_linear_removes_all_differences_of_three_groups_and_says_so() -> None:
    v = three_clusters()
    with pytest.warns(EvenhandWarning, match="'three' has 3 groups and no published direction; removing the 2 princ"):
        vm = eh.mitigations.LinearProjection().fit(v, THREE)
    assert vm.rank_removed == 2
    assert vm.report["concept"] == "three"
    assert vm.report["subspace"]["params"]["sets"] == "group means"
    means = np.array([vm(v).take(group)[0].mean(axis=0) for group in THREE.groups.values()])
    assert np.abs(means - means.mean(axis=0)).max() < 1e-6


def test_the_published_direction_of_three_groups_stays() -> None:
    vm = eh.mitigations.LinearProjection().fit(eh.Vectors.default(), "religion")
    assert vm.report["subspace"]["params"]["chosen"] == "published"


def test_pairs_are_enough_for_a_direction_of_three_groups() -> None:
    paired = Concept("paired", groups=dict(THREE.groups), pairs=[("a1", "b1"), ("a2", "b2")])
    require_single_direction(paired, "OSCaR")
    require_single_direction(THREE, "OSCaR", "two-means")
    with pytest.raises(UsageError, match="two groups"):
        require_single_direction(THREE, "OSCaR")
