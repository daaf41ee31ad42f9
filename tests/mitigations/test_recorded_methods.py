"""Methods on small tables give the recorded maps and reports, with options that reach every branch.

Definitions, laws and examples by hand are tested beside each method; here is what a change of anything else would alter.
`RECORD_NUMBERS=1 pytest` on this file writes `recorded_methods.json` again.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand.corpus import cooccurrence
from evenhand.corpus.readers import Texts
from evenhand.words import Concept, Recipe
from recorded_numbers import check_whole

RECORD = Path(__file__).with_name("recorded_methods.json")
PAIRS = (("she", "he"), ("woman", "man"), ("girl", "boy"), ("queen", "king"), ("aunt", "uncle"))
FILLERS = tuple(f"{a}{b}x" for a in "abcdefghijkl" for b in "abcdefghijkl")
GROUPS = {"female": [a for a, _ in PAIRS], "male": [b for _, b in PAIRS]}
FAITHS = {"a": ["jew", "rabbi"], "b": ["christian", "priest"], "c": ["muslim", "imam"]}
SETS = (("jew", "christian"), ("jew", "muslim"), ("rabbi", "priest"), ("rabbi", "imam"))

CONCEPTS: dict[str, Concept] = {
    "two": Concept("sides", GROUPS, PAIRS, specific=["mother", "Queen"], equalize=[("aunt", "uncle"), ("gal", "guy")]),
    "pair": Concept("sides", GROUPS, PAIRS, direction=Recipe("pair", ("she", "he")), names={"female": ["Ann", "Eve"], "male": ["Bob", "Tom"]}),
    "no pairs": Concept("sides", GROUPS),
    "three": Concept("faith", FAITHS, SETS),
    "three without pairs": Concept("faith", FAITHS),
    "lost words": Concept("sides", {"f": ["she", "gal", "woman"], "m": ["he", "guy", "man"]}, (*PAIRS[:2], ("gal", "guy"))),
}  # fmt: skip


@cache
def table(dim: int = 7) -> eh.Vectors:
    """Return words around the directions of two concepts, of several lengths and spellings."""
    rng = np.random.default_rng(5)
    named = [word for pair in PAIRS for word in pair] + [word for group in FAITHS.values() for word in group]
    named += ["mother", "Queen", "King", "Ann", "Eve", "Bob", "Tom", "a1", "new_york"]
    rows = rng.normal(size=(len(named) + len(FILLERS), dim)) * rng.uniform(
        0.5, 2.0, size=(len(named) + len(FILLERS), 1)
    )
    rows[: 2 * len(PAIRS), 0] += np.tile([2.5, -2.5], len(PAIRS))
    rows[2 * len(PAIRS) : 2 * len(PAIRS) + 6] += 2 * np.eye(dim)[[1, 1, 2, 2, 3, 3]]
    rows[-1] = 0.0
    return eh.Vectors([*named, *FILLERS], rows, name="toy")


SMALL: dict[str, Any] = {"per_class": 30, "neutral": 20, "neutral_below": 0.2}
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *(("hard", concept, {}) for concept in CONCEPTS),
    ("hard", "two", {"variant": "wefe"}), ("hard", "two", {"equalise": False}), ("hard", "three", {"k": 1}),
    ("hard", "two", {"subspace": "group-means"}), ("hard", "pair", {"words": "names"}),
    *(("linear", concept, {}) for concept in CONCEPTS),
    ("linear", "two", {"subspace": "pairs", "k": 2, "normalise": True}), ("linear", "two", {"centre": True}),
    ("linear", "two", {"words": "listed"}), ("span", "two", {}), ("span", "two", {"keep_pairs": True}),
    ("span", "lost words", {"rtol": 0.5}), ("gbdd", "two", {}), ("gbdd", "two", {"normalise": False}), ("gbdd", "lost words", {}),
    ("random", "two", {}), ("random", "two", {"k": 3, "kind": "gaussian"}), ("random", "two", {"k": 2, "sample": 20, "seed": 4}),
    *(("misp", concept, {"k": 2, "lists": lists, "centre": centre}) for concept, lists, centre in (
        ("two", "auto", True), ("pair", "auto", False), ("pair", "groups", True), ("three", "auto", True), ("pair", "names", False))),
    ("misp", "two", {"weights": (0.2, 0.7, 1.0), "k": 3}), ("misp", "two", {"weights": 0.3, "normalise": True}),
    *(("soft", concept, {}) for concept in ("two", "three", "no pairs")),
    ("soft", "two", {"penalty": 5.0, "per_word": True, "k": 2}), ("soft", "pair", {"words": "listed"}),
    ("hsr", "two", {}), ("hsr", "two", {"alpha": 1.5, "siblings": ["aax", "abx", "gone"]}), ("hsr", "lost words", {"alpha": 10.0}),
    *(("bam", "two", {"variant": variant, "mapped": mapped}) for variant in ("regularised", "paper", "released") for mapped in ("positive", "negative")),
    ("bam", "lost words", {"penalty": 0.2}), ("bam", "two", {"pairing": "all"}),
    *(("oscar", concept, options) for concept, options in (
        ("two", {"second": "three"}), ("two", {"second": "three", "centre": False, "component": 2}), ("pair", {"second": "three", "variant": "released"}))),
    *(("inlp", concept, {**SMALL, "iterations": 4, **options}) for concept, options in (
        ("two", {}), ("two", {"weighting": "information"}), ("two", {"variant": "released"}), ("two", {"margin": 0.2, "C": 0.1}),
        ("three", {"neutral": 0}), ("two", {"max_rank": 0.2}), ("two", {"min_variance": 0.9}), ("pair", {"labels": "names"}),
        ("two", {"labels": "groups"}), ("two", {"direction": "group-means", "vocabulary": 90}), ("two", {"words": "listed"}))),
    *((method, concept, {**SMALL, **options}) for method in ("leace", "oracle-leace", "qleace") for concept, options in (
        ("two", {}), ("three", {"neutral": 0}), ("two", {"labels": "groups"}), ("two", {"per_class": 10, "neutral": 3}))),
    ("leace", "two", {**SMALL, "shrinkage": True}), ("leace", "two", {**SMALL, "orth": True}), ("oracle-leace", "two", {**SMALL, "control": True}),
    *(("rlace", concept, {**SMALL, "neutral": 0, "steps": 60, **options}) for concept, options in (
        ("two", {}), ("two", {"every": 7, "epsilon": 0.0}), ("three", {"rank": 1}), ("two", {"rate": 0.3, "decay": 0.1, "rank": 2, "epsilon": -1.0}))),
    *(("double-hard", concept, {"components": 2, "n_words": 25, **options}) for concept, options in (
        ("two", {}), ("pair", {"score": "projection"}), ("two", {"centre_first": True, "anchor": ("king", "queen")}), ("lost words", {"words": "listed"}))),
    *(("ran", concept, {"steps": 12, "theta": 0.02, **options}) for concept, options in (
        ("two", {}), ("two", {"variant": "released", "neighbours": 30, "most": 4}), ("two", {"change": ["aax", "abx", "gone"], "precision": "single"}),
        ("no pairs", {"vocabulary": 90, "rate": 0.05}), ("pair", {"weights": (0.5, 0.0, 0.5), "words": "listed"}))),
)  # fmt: skip


def prepared(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with selectors and second subspaces in place of their names."""
    from evenhand.mitigations.selection import ExceptListed

    made = dict(options)
    if "words" in made:
        made["words"] = ExceptListed(["she", "King", "abx", "gone"])
    if made.get("second") == "three":
        made["second"] = eh.subspaces.learn(table(), CONCEPTS["three"])
    return made


def state_of(vm: Any) -> dict[str, object]:
    """Return what a map does to some rows, and its report."""
    v = table()
    rows = vm(v).matrix[::5] if vm.needs_words else vm(v.matrix[::5])
    return {"kind": vm.kind, "rows": np.asarray(rows).tolist(), "report": dict(vm.report)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", sorted({method for method, _, _ in CASES}))
def test_maps_and_reports_of_methods(method: str) -> None:
    found = {}
    for number, (concept, options) in enumerate((concept, given) for name, concept, given in CASES if name == method):
        try:
            fitted = eh.mitigations.get(method)(**prepared(options)).fit(table(), CONCEPTS[concept], seed=3)
        except eh.EvenhandError as error:
            found[f"{number} {concept}"] = {"error": str(error)}
        else:
            found[f"{number} {concept}"] = state_of(fitted)
    assert any("rows" in one for one in found.values())
    check_whole(method, found, relative=1e-4, record=RECORD)


def counted_words() -> eh.corpus.Cooccurrence:
    """Return counts of sentences about the words of the table."""
    rng = np.random.default_rng(2)
    words = [word for pair in PAIRS for word in pair] + list(FILLERS[:40])
    texts = [" ".join(rng.choice(words, size=9)) for _ in range(150)]
    return cooccurrence(Texts(texts), window=4, weighting="harmonic", min_count=1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options",
    [
        {}, {"variant": "released"}, {"form": "l2"}, {"per": "word", "block": 500}, {"apart": 0.0, "neutral": 2.0, "clip": 0.2},
        {"pairs": [("she", "he"), ("she", "he"), ("woman", "gone")], "x_max": 3.0, "alpha": 0.5, "variant": "released", "block": 300},
    ],
    ids=str,
)  # fmt: skip
def test_vectors_trained_from_counts(options: dict[str, Any]) -> None:
    told: list[tuple[int, int, str]] = []
    method = eh.mitigations.get("gn-glove")(dim=5, epochs=3, seed=4, **options)
    v = method.train(counted_words(), CONCEPTS["two"], progress=lambda *news: told.append(news))
    assert told == [(0, 3, "training"), (1, 3, "training"), (2, 3, "training")]
    dropped = method.without_gender()(v)
    found = {"rows": v.matrix[::6], "history": v.history, "dim": dropped.dim}
    check_whole(f"gn-glove {options}", found, relative=1e-4, record=RECORD)


@pytest.mark.parametrize(
    "options", [{}, {"optimiser": "sgd", "block": 70, "rate": 0.01}, {"x_max": 2.0, "alpha": 1.5}], ids=str
)
def test_plain_vectors_trained_from_counts(options: dict[str, Any]) -> None:
    v = eh.mitigations.glove(counted_words(), 4, epochs=2, seed=1, **options)
    found = {"rows": v.matrix[::6], "history": v.history, "source": v.source}
    check_whole(f"glove {options}", found, relative=1e-4, record=RECORD)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("concept", "options"),
    [
        ("two", {}), ("two", {"stereotypes": ["aax", "abx", "acx"], "seed": 2, "batch": 30}),
        ("lost words", {"neutral": ["aax", "bbx", "gone"], "dropout": 0.0, "held_out": 9, "joint_dropout": 0.3, "weight": 0.5}),
        ("two", {"pairs": PAIRS[:3], "stereotypes": FILLERS[:30], "neutral": FILLERS[40:90], "joint_rate": 1.0, "rate": 0.01}),
    ],
    ids=str,
)  # fmt: skip
def test_an_encoder_that_is_trained(concept: str, options: dict[str, Any]) -> None:
    pytest.importorskip("torch")
    method = eh.mitigations.get("gp")(**{"epochs": 2, "head_epochs": 2, "joint_epochs": 2, **options})
    fitted = method.fit(table(), CONCEPTS[concept])
    check_whole(f"gp {concept} {options}", state_of(fitted), relative=1e-3, record=RECORD)
