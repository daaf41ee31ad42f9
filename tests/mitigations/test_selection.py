from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import DegenerateError, UnknownNameError, UsageError, VocabularyError
from evenhand.mitigations import LinearProjection, Span
from evenhand.mitigations.maps import ExceptWords, SoftProjection, VectorMap
from evenhand.mitigations.selection import (
    EveryWord,
    ExceptDefined,
    ExceptLearned,
    ExceptListed,
    ExceptSpecific,
    Selector,
    sparing,
)
from evenhand.models.vectors import Vectors
from evenhand.words import Concept, Pairs, Recipe, WordSet

# The definition lies along the first axis, the stereotype along the second.
V = Vectors(
    ["she", "he", "queen", "king", "nurse", "doctor", "door"],
    [[2, 0, 1], [-2, 0, 1], [1, 0.5, 2], [-1, 0, 2], [0.5, 2, 0], [-0.2, -2, 0], [0, 0, 4]],
    name="toy",
)
BIASED = Pairs("biased", [("nurse", "doctor")])
GENDER = Concept(
    "gender",
    {"female": ["she"], "male": ["he"]},
    [("she", "he")],
    direction=Recipe("pair", ("she", "he")),
    specific=["She", "he", "queen", "king", "wolf_cub"],
)


def test_every_word() -> None:
    assert EveryWord()(V, GENDER) == frozenset()


def test_the_concepts_own_list_in_the_spelling_of_the_vectors() -> None:
    assert ExceptSpecific()(V, GENDER) == {"she", "he", "queen", "king"}
    with pytest.raises(UsageError, match="'g' lists no specific words"):
        ExceptSpecific()(V, Concept("g", pairs=[("she", "he")]))
    with pytest.raises(UsageError, match="needs a concept"):
        ExceptSpecific()(V, None)


def test_a_list_of_words() -> None:
    assert ExceptListed(["Door", "window"])(V, None) == {"door"}
    assert ExceptListed(WordSet("mine", ["door"]))(V, None) == {"door"}
    assert ExceptListed("bolukbasi2016-gender-specific-seed")(V, None) == {"she", "he", "queen", "king"}
    with pytest.raises(UsageError, match="ExceptListed"):
        ExceptListed([5])  # type: ignore[list-item]
    with pytest.raises(UnknownNameError, match="no wordset 'door'"):
        ExceptListed("door")(V, None)


def test_a_word_is_debiased_iff_the_stereotype_outweighs_the_definition() -> None:
    along_stereotype = np.array([0.7, 4, 0]) / np.hypot(0.7, 4)
    matrix = V.matrix.astype(np.float64)
    expected = {
        word
        for word, row in zip(V.words, matrix, strict=True)
        if abs(row[0]) >= abs(row @ along_stereotype)  # b* is the first axis
    }
    assert ExceptDefined(BIASED)(V, GENDER) == expected == {"she", "he", "queen", "king", "door"}
    assert ExceptDefined(BIASED, defining=Pairs("other", [("doctor", "nurse")]))(V, None) == set(V.words)


@given(st.integers(0, 999))
def test_the_rule_depends_neither_on_length_nor_rotation_nor_sign(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"w{i}" for i in range(20)]
    matrix = rng.normal(size=(20, 6))
    about = Concept("c", pairs=[("w0", "w1"), ("w2", "w3")])
    biased = Pairs("b", [("w4", "w5"), ("w6", "w7")])
    exempt = ExceptDefined(biased)(Vectors(names, matrix), about)
    turned = Vectors(names, 3 * matrix @ np.linalg.qr(rng.normal(size=(6, 6)))[0])
    assert ExceptDefined(biased)(turned, about) == exempt
    flipped = Concept("c", pairs=about.pairs.flipped())
    assert ExceptDefined(biased.flipped())(Vectors(names, matrix), flipped) == exempt


def test_the_rule_needs_pairs_that_the_vectors_have() -> None:
    with pytest.raises(VocabularyError, match="mop"):
        ExceptDefined(Pairs("b", [("mop", "saw")]))(V, GENDER)
    with pytest.raises(UsageError, match="is empty"):
        ExceptDefined(BIASED)(V, Concept("g", {"f": ["she"], "m": ["he"]}))
    with pytest.raises(UsageError, match="needs a concept"):
        ExceptDefined(BIASED)(V, None)


def test_words_like_the_seeds_are_learned() -> None:
    rng = np.random.default_rng(0)
    names = [f"w{i}" for i in range(300)]
    matrix = rng.normal(size=(300, 8))
    matrix[:60, 0] += 8  # of the sixty alike, forty are seeds
    learned = ExceptLearned(WordSet("seeds", names[:40]), C=10)
    exempt = learned(Vectors(names, matrix), None)
    assert set(names[:40]) <= exempt
    assert len(exempt & set(names[40:60])) > 15
    assert len(exempt & set(names[60:])) < 5
    assert learned(Vectors(names, 7 * matrix), None) == exempt


def test_seeds_must_be_some_but_not_all_words() -> None:
    with pytest.raises(DegenerateError, match="toy has no seed word"):
        ExceptLearned(WordSet("s", ["mop"]))(V, None)
    with pytest.raises(DegenerateError, match="seed words only"):
        ExceptLearned(WordSet("s", V.words))(V, None)


SELECTORS = [ExceptSpecific(), ExceptListed(["door"]), ExceptDefined(BIASED)]


@pytest.mark.parametrize("selector", SELECTORS, ids=lambda selector: selector.rule)
@pytest.mark.parametrize("method", [LinearProjection, Span])
def test_any_projection_takes_a_selector(method: type[LinearProjection | Span], selector: Selector) -> None:
    plain, spared = method().fit(V, GENDER)(V), method(words=selector).fit(V, GENDER)(V)
    exempt = selector(V, GENDER)
    for word in V.words:
        assert np.array_equal(spared[word], V[word] if word in exempt else plain[word])


def test_the_report_and_the_history_say_which_rule() -> None:
    vm = LinearProjection(words=ExceptDefined(BIASED)).fit(V, GENDER)
    assert vm.report["params"]["words"] == {
        "rule": "all but words nearer to the definition than to the stereotype",
        "biased": "biased",
        "defining": None,
    }
    assert vm.report["words_changed"] == 2
    assert json.loads(json.dumps(vm(V).history))[0]["params"]["words"]["biased"] == "biased"
    assert "words" not in LinearProjection().fit(V, GENDER).report["params"]


def test_a_spared_map_is_saved_and_read_back(tmp_path: Path) -> None:
    vm = Span(words=ExceptListed(["door"])).fit(V, GENDER)
    assert VectorMap.load(vm.save(tmp_path / "map.safetensors")) == vm


def test_no_exempt_word_leaves_the_map_unchanged() -> None:
    vm = SoftProjection([[1.0, 0.0, 0.0]])
    assert sparing(vm, None, V, None) is vm
    assert sparing(vm, EveryWord(), V, None) is vm
    assert isinstance(sparing(vm, ExceptListed(["door"]), V, None), ExceptWords)
