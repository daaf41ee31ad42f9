"""What holds for every measure of the family."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.measures import Measurement, get, ids, info
from evenhand.measures.registry import as_measurements
from evenhand.models.vectors import Vectors
from evenhand.words import Table, WordSet

NAMES = {"female": ["fqaa", "fqab", "fqac", "fqad", "fqae"], "male": ["mqaa", "mqab", "mqac", "mqad", "mqae"]}
GENDER = eh.Concept(
    "gender", {"female": ["she"], "male": ["he"]}, [("she", "he"), ("woman", "man"), ("girl", "boy")], names=NAMES
)
SHARES = WordSet("shares", ("fqaf", "fqag", "mqaf", "mqag", "mqah"), scores={"women": (90, 70, 30, 10, 40)})
ANALOGIES = Table("rows", ("definition", "none", "stereotype"), [("mqaa:fqaa", "fqab:fqac", "mqab:fqad")])
CLASSIFIERS = ("linear-svm", "rbf-svm")
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "direct-bias": ("vocabulary", {}),
    "indirect-bias": ([("fqaa", "fqab"), ("mqaa", "mqab")], {}),
    "midb": ("vocabulary", {"d": 2}),
    "clustering": ("vocabulary", {"per_side": 20, "runs": 2, "starts": 2}),
    "recoverability": ("vocabulary", {"per_side": 20, "classifiers": CLASSIFIERS}),
    "neighbours": ("vocabulary", {"k": 5}),
    "proximity-bias": ("vocabulary", {"k": 5}),
    "gipe": ("vocabulary", {"k": 5}),
    "sembias": (ANALOGIES, {}),
    "occupation-share": (SHARES, {}),
    "analogy-generation": ("vocabulary", {"k": 5, "delta": 1.5, "score": "strength"}),
}
SCALE_FREE = sorted(set(CASES) - {"midb"})


def measured(name: str, v: Vectors, before: Vectors | None = None, **more: Any) -> Measurement:
    query, options = CASES[name]
    return get(name)(v, query, concept=GENDER, reference=before, **options, **more)


def rotation(dim: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]


def test_every_measure_of_the_family_has_a_case_here() -> None:
    assert set(CASES) == {name for name in ids() if info(name).family == "geometry"}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_rotation_changes_nothing(planted, name: str, seed: int) -> None:
    before = planted(seed, first=1.0)
    v = before.with_matrix(before.matrix * np.array([0.5, *np.ones(before.dim - 1)]))
    turn = rotation(v.dim, seed)
    plain = measured(name, v, before)
    turned = measured(name, v.with_matrix(v.matrix @ turn), before.with_matrix(before.matrix @ turn))
    assert plain.status == turned.status == "ok"
    # One of 40 x 5 edges may sit on theta, or one of 32 tested words on a border, within rounding.
    assert turned.value == pytest.approx(plain.value, abs=0.03 if name in ("recoverability",) else 0.01)


@pytest.mark.parametrize("name", SCALE_FREE)
def test_the_length_of_all_vectors_together_does_not_matter(planted, name: str) -> None:
    v = planted(first=1.0)
    options = {"options": {"rbf-svm": {"gamma": "scale"}}} if name == "recoverability" else {}
    longer = v.with_matrix(v.matrix * 3)
    tolerance = 0.05 if name == "recoverability" else 1e-4  # C weighs against the lengths
    assert measured(name, longer, longer, **options).value == pytest.approx(
        measured(name, v, v, **options).value, abs=tolerance
    )


@pytest.mark.parametrize("name", CASES)
def test_without_a_reference_the_vectors_are_their_own(planted, name: str) -> None:
    v = planted()
    assert measured(name, v).value == measured(name, v, v).value


@pytest.mark.parametrize("name", CASES)
def test_the_record_is_plain_data_and_says_how_it_was_made(planted, name: str) -> None:
    m = measured(name, planted(), seed=5)
    record = json.loads(json.dumps(m.to_dict(), allow_nan=False))
    assert record["params"]["concept"] == "gender"
    assert record["seed"] == 5
    assert record["measure"] == info(name).id == name
    assert m.n > 0
    assert m.items
    assert m.reading
    assert Measurement.from_dict(record).to_dict() == m.to_dict() | {
        "params": record["params"],
        "details": record["details"],
    }


@pytest.mark.parametrize("name", CASES)
def test_the_description_is_complete(name: str) -> None:
    about = info(name)
    assert about.family == "geometry"
    for text in (about.title, about.formula, about.reading, about.limits, *about.cites):
        assert text.strip()
    assert "does not tell you" in (get(name).__doc__ or "")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_default_runs_on_the_embedded_vectors(name: str) -> None:
    v = eh.Vectors.default()
    for query in info(name).queries:
        assert {m.status for m in as_measurements(get(name)(v, query))} == {"ok"}
