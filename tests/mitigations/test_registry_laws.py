"""Laws that every registered method obeys, whichever it is: a method that is added is tested by being in the table."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import EvenhandError, MissingExtraError, VocabularyError
from evenhand.mitigations import get, ids
from evenhand.mitigations.maps import Chain, ExceptWords, SoftProjection, VectorMap
from evenhand.models.vectors import Vectors

QUICK: dict[str, dict[str, object]] = {"gp": {"epochs": 2}, "ran": {"steps": 20}}  # fewer steps, the same laws
TRAINED = {"gn-glove"}  # from counts, not from vectors: there is no map, and fit says so (test_gn_glove.py)
IDS = sorted(set(ids("vectors")) - TRAINED)
EVERY = pytest.mark.parametrize("id", IDS)
CONTROLS = {"random"}  # needs no word of the concept


@cache
def vectors() -> Vectors:
    """Some real vectors in few dimensions: frequent words, and those that gender and religion are made of."""
    every = eh.Vectors.default()
    wanted: list[str] = []
    for concept in (eh.concept("gender"), eh.concept("religion")):
        wanted += [word for group in (*concept.groups.values(), *concept.names.values()) for word in group]
        wanted += [word for two in (*concept.pairs, *concept.equalize) for word in two]
        wanted += concept.direction.words if concept.direction else ()
    spelt = [every.find(word) for word in wanted]
    small = every.restrict(dict.fromkeys([*(word for word in spelt if word), *every.words[:800]]))
    return Vectors(small.words, small.matrix[:, :24].copy(), name="small")


@cache
def fitted(id: str, concept: str = "gender") -> VectorMap | EvenhandError:
    """The map of this method, or the error with which it refuses the concept."""
    try:
        return get(id)(**QUICK.get(id, {})).fit(vectors(), concept)
    except EvenhandError as error:
        return error


def gender_map(id: str) -> VectorMap:
    vm = fitted(id)
    if isinstance(vm, MissingExtraError):
        pytest.skip(f"{id} needs an optional package: {vm.message}")
    assert isinstance(vm, VectorMap), f"{id} cannot do gender: {vm}"
    return vm


@EVERY
def test_a_fit_does_not_change_its_input(id: str) -> None:
    gender_map(id)
    fresh = vectors.__wrapped__()
    assert vectors().matrix.tobytes() == fresh.matrix.tobytes()
    assert vectors().words == fresh.words
    assert vectors().history == ()


@EVERY
def test_a_second_fit_gives_the_same_bytes(id: str) -> None:
    vm = gender_map(id)
    again = get(id)(**QUICK.get(id, {})).fit(vectors(), eh.concept("gender"))
    assert again.digest == vm.digest
    assert again(vectors()).matrix.tobytes() == vm(vectors()).matrix.tobytes()


@EVERY
def test_saved_and_loaded_it_is_the_same_map(id: str, tmp_path: Path) -> None:
    vm = gender_map(id)
    back = VectorMap.load(vm.save(tmp_path / "map.safetensors"))
    assert back == vm
    assert back(vectors()).matrix.tobytes() == vm(vectors()).matrix.tobytes()
    assert back.report == json.loads(json.dumps(dict(vm.report)))


@EVERY
def test_arrays_and_vectors_agree(id: str) -> None:
    vm, v = gender_map(id), vectors()
    whole = vm(v)
    assert np.isfinite(whole.matrix).all()
    assert whole.words == v.words
    assert whole.history[-1]["method"] == id
    assert vm(v.matrix, v.words).tobytes() == whole.matrix.tobytes()
    some = slice(7, 40)
    assert np.allclose(vm(v.matrix[some], v.words[some]), whole.matrix[some], atol=1e-6)
    if vm.needs_words:
        with pytest.raises(EvenhandError, match="cannot map bare numbers"):
            vm(v.matrix)
    else:
        assert vm(v.matrix).tobytes() == whole.matrix.tobytes()


@EVERY
def test_the_report_says_what_was_done(id: str) -> None:
    vm, v = gender_map(id), vectors()
    report = json.loads(json.dumps(dict(vm.report)))
    assert report["method"] == id
    assert report["concept"] == "gender"
    assert report["vectors"] == "small"
    assert report["rank_removed"] == vm.rank_removed
    assert 0 < report["words_changed"] <= len(v)
    assert 0 < report["variance_kept"] < 1.5
    assert isinstance(report["words_missing"], list)
    assert isinstance(report["params"], dict)


@EVERY
def test_a_linear_map_is_its_matrix(id: str) -> None:
    vm, v = gender_map(id), vectors()
    if not vm.is_linear:
        with pytest.raises(EvenhandError, match="cannot be written as x M"):
            vm.to_matrix()
        return
    matrix, bias = vm.to_matrix()
    x = v.matrix[:100].astype(np.float64)
    assert np.allclose(vm(x), x @ matrix + bias, atol=1e-9)
    assert vm.rank_removed == v.dim - np.linalg.matrix_rank(matrix, tol=1e-8)


def test_projections_are_symmetric_and_idempotent() -> None:
    maps = {id: vm for id in IDS if isinstance(vm := fitted(id), VectorMap)}
    projections = [(id, part) for id, vm in maps.items() for part in parts(vm) if isinstance(part, SoftProjection)]
    assert {"linear", "span", "hard", "hsr"} <= {id for id, _ in projections}
    for id, part in projections:
        matrix, _ = part.to_matrix()
        assert np.allclose(matrix, matrix.T, atol=1e-12), id
        assert np.linalg.eigvalsh(matrix).min() > -1e-9, id
        if (np.asarray(part.weights) == 1).all():
            assert np.allclose(matrix @ matrix, matrix, atol=1e-9), id


def parts(vm: VectorMap) -> list[VectorMap]:
    """The maps that a map consists of."""
    inner = vm.parts if isinstance(vm, Chain) else (vm.map,) if isinstance(vm, ExceptWords) else ()
    return [part for one in inner for part in parts(one)] or [vm]


@EVERY
def test_three_groups_are_fitted_or_refused_by_name(id: str) -> None:
    outcome = fitted(id, "religion")
    if isinstance(outcome, MissingExtraError):
        pytest.skip(f"{id} needs an optional package: {outcome.message}")
    if isinstance(outcome, VectorMap):
        assert outcome.report["concept"] == "religion"
        assert np.isfinite(outcome(vectors()).matrix).all()
    else:
        assert "religion" in outcome.message
        assert outcome.hint


@pytest.mark.parametrize("id", sorted(set(IDS) - CONTROLS))
def test_without_the_words_there_is_no_map(id: str) -> None:
    strangers = Vectors([f"x{number}" for number in range(50)], np.eye(50, 24) + 0.1, name="strangers")
    with pytest.raises((VocabularyError, MissingExtraError)) as caught:
        get(id)(**QUICK.get(id, {})).fit(strangers, "gender")
    assert isinstance(caught.value, MissingExtraError) or "strangers" in caught.value.message


@EVERY
def test_a_method_is_frozen_and_says_what_it_cannot_do(id: str) -> None:
    kind = get(id)
    assert kind() == kind()
    with pytest.raises(AttributeError):
        kind().id = "other"  # type: ignore[misc]
    assert "does not" in (kind.__doc__ or ""), "the docstring says what the method does not do"
    assert len(kind.limits) > 40
    assert any(sign.isdigit() for sign in kind.citation), "a citation has a year"


@pytest.mark.filterwarnings("ignore:glove-embedded has 9 of 10 pairs:evenhand.errors.EvenhandWarning")
def test_methods_of_several_maps_keep_their_reports_in_a_chain() -> None:
    hard, linear = (get(name)() for name in ("hard", "linear"))
    some = eh.Vectors.default().head(3000)
    first = hard.fit(some, "gender")
    both = linear.fit(first(some), "gender") @ first
    assert both.report["method"] == "hard.linear"
    assert [step["method"] for step in both.report["chain"]] == ["hard", "linear"]
    again = linear.fit(some, "gender") @ both
    assert [step["method"] for step in again.report["chain"]] == ["hard", "linear", "linear"]
