"""The interaction of two concepts on vectors whose associations are planted."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.words import Query, concept_query

CELLS = {(row, column): f"{row} x {column}" for row in ("f", "m") for column in ("b", "w")}
WORDS = {cell: [f"{cell[0]}{cell[2 + 2]}{n}" for n in range(8)] for cell in CELLS.values()}
ATTRIBUTES = {"good": ["good", "kind"], "bad": ["bad", "evil"]}


def planted(parts: dict[str, float], seed: int = 0) -> eh.Vectors:
    """Return vectors in which the association of a cell with good words is about the given number."""
    rng = np.random.default_rng(seed)
    words, rows = ["good", "kind", "bad", "evil"], [[1, 0, 0], [1, 0, 0], [-1, 0, 0], [-1, 0, 0]]
    for cell, listed in WORDS.items():
        for word in listed:
            words.append(word)
            score = np.clip(parts[cell] + rng.normal(0, 0.05), -0.95, 0.95) / 2  # s(w) is twice the first coordinate
            rows.append([score, np.sqrt(1 - score**2), 0])
    return eh.Vectors(words, np.array(rows, dtype=np.float32))


def query(order: tuple[str, ...] = tuple(WORDS)) -> Query:
    return Query("own", {cell: WORDS[cell] for cell in order}, ATTRIBUTES)


ADDED = {"f x b": 0.3, "f x w": 0.1, "m x b": 0.0, "m x w": -0.2}
EXTRA = ADDED | {"f x b": 0.7}


def test_parts_that_add_up_have_no_interaction():
    m = eh.measures.interaction(planted(ADDED), query(), samples=999)
    assert m.interval[0] < 0 < m.interval[1]
    assert m.p_value > 0.05
    assert [round(item["expected"] - item["mean"], 1) for item in m.items] == [0, 0, 0, 0]


def test_a_planted_interaction_is_found_and_has_the_size_of_the_definition():
    m = eh.measures.interaction(planted(EXTRA), query(), samples=999)
    assert m.p_value == pytest.approx(0.001)
    means = {item["word"]: item["mean"] for item in m.items}
    contrast = means["f x b"] - means["f x w"] - means["m x b"] + means["m x w"]
    assert m.value == pytest.approx(contrast / 4 / m.details["deviation"])
    assert contrast == pytest.approx(0.4, abs=0.1)
    assert "f x b is nearer to good than the sum of its two groups" in m.reading


def test_permuted_cells_permute_the_items():
    order = ("m x w", "m x b", "f x w", "f x b")
    plain, turned = (eh.measures.interaction(planted(EXTRA), query(o), samples=99) for o in (tuple(WORDS), order))
    values = [{item["word"]: item["value"] for item in m.items} for m in (plain, turned)]
    assert values[1] == pytest.approx(values[0])
    assert turned.value == pytest.approx(values[0]["m x w"])


def test_too_few_words_are_said():
    small = Query("own", {cell: words[:3] for cell, words in WORDS.items()}, ATTRIBUTES)
    m = eh.measures.interaction(planted(ADDED), small)
    assert m.status == "undefined"
    assert m.reason == (
        "an interaction needs 4 words in each cell to be tested, and there are fewer: f x b 3, f x w 3, m x b 3, m x w 3"
    )


def test_targets_that_are_no_table_are_said():
    v = planted(ADDED)
    three = Query("own", {cell: WORDS[cell] for cell in list(WORDS)[:3]}, ATTRIBUTES)
    assert "no full table" in eh.measures.interaction(v, three).reason
    assert "not about an intersection" in eh.measures.interaction(v, Query("q", WORDS_OF_TWO, ATTRIBUTES)).reason


WORDS_OF_TWO = {"a": WORDS["f x b"], "b": WORDS["m x b"]}


def test_an_audit_of_an_intersection_asks_for_the_interaction(glove: eh.Vectors):
    audit = eh.Audit.run(glove, methods=[], measures=["interaction", "mac"], concept="gender x race")
    m = audit.get("interaction:gender x race/pleasant-unpleasant")
    asked = concept_query("gender x race/pleasant-unpleasant", eh.concept("gender x race"))
    assert m.value == eh.measures.interaction(glove, asked).value
    assert m.positive == "female x african-american with Pleasant"
    assert "interaction" not in {label.partition(":")[0] for label in _labels("race")}


def _labels(concept: str) -> list[str]:
    from evenhand.audit.plan import concept_queries

    return list(concept_queries(eh.measures.info("interaction"), eh.concept(concept)))
