"""Whole results of the measures of sentence vectors on a made-up encoder, by option, with what leaves them undefined."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand import measures
from evenhand.measures.sentences import encoded_query, retrieval_skew, seat
from evenhand.measures.sentences.encoded_query import SentenceSet, encode_query, sentence_effect
from evenhand.models.encoders.sentences import AveragedVectors
from evenhand.words import Concept, Query, Template
from recorded_numbers import check_whole, outcomes
from small_world import BAD, FEMALE, GOOD, JOBS, MALE, PLEASANT, TWO, before

Calls = dict[str, Callable[[], Any]]
FRAME = Template("frame", "{start} {word}.", {"start": ["This is", "Here is"]})
LOSSY = Query(
    "lossy", {"x": [*FEMALE, "gone"], "y": [*MALE[:3], "John"]}, {"good": [*GOOD[:3], "away"], "bad": BAD[:3]}
)
PHRASES = Query(
    "phrases",
    {"x": ["white woman", "white girl", "fair lady", "woman"], "y": ["black woman", "dark girl", "black cat", "man"]},
    {"good": GOOD, "bad": BAD},
)


class Encoder:
    """Vectors that lean towards the first letters of the alphabet, by layer and pooling."""

    name, layers, pooling = "encoder", 2, "mean"

    def __init__(self, flat: int = -1) -> None:
        self.flat = flat

    def encode(self, texts: list[str], *, layer: int | None = None, pooling: str | None = None) -> Any:
        number = (self.layers if layer is None else layer) % 3
        rows = [np.random.default_rng([number, len(pooling or ""), *text.encode()]).normal(size=5) for text in texts]
        if number == self.flat:
            return np.ones((len(texts), 5))
        return np.array(rows) + [[("a" in text) * 1.5, 0, 0, 0, 0.5] for text in texts]

    def encode_layers(self, texts: list[str], *, pooling: str | None = None) -> Any:
        return np.stack([self.encode(texts, layer=layer, pooling=pooling) for layer in range(self.layers + 1)])


def test_seat() -> None:
    measure, view, words = measures.seat, Encoder(), AveragedVectors(before())
    calls: Calls = {
        "names": lambda: measure(view, PLEASANT, seed=3),
        "options": lambda: measure(view, PLEASANT, layer=1, pooling="max", template=FRAME, ddof=1, alternative="less", samples=50),
        "released": lambda: measure(view, Query("few", [FEMALE[:2], MALE[:2]], [GOOD, BAD]), variant="released", template=FRAME),
        "turned": lambda: measure(view, Query("t", PLEASANT.targets[::-1], PLEASANT.attributes)).reading,
        "phrases": lambda: measure(view, PHRASES, template=FRAME),
        "words": lambda: measure(words, LOSSY, template=FRAME),
        "many": lambda: measure(view, Query("many", [[*GOOD, *JOBS[:4]], [*BAD, *JOBS[6:10]]], [FEMALE, MALE]), samples=99).p_value,
        "many by default": lambda: measure(view, Query("many", [[*GOOD, *JOBS[:4]], [*BAD, *JOBS[6:10]]], [FEMALE, MALE])).p_value,
        "ddof": lambda: measure(view, PLEASANT, ddof=2),
        "flat": lambda: measure(Encoder(2), PLEASANT),
        "no spread": lambda: measure(
            AveragedVectors(eh.Vectors(["a", "b", "c", "d"], [[0.6, 0.8], [-0.8, -0.6], [1, 0], [0, 1]])),
            Query("n", [["a"], ["b"]], [["c"], ["d"]]), template=Template("bare", "{word}"),
        ),
        "unreadable": lambda: measure(words, Query("u", [["gone"], ["John"]], [GOOD, BAD])),
        "half readable": lambda: measure(words, Query("u", [["gone", "lost", "Anna"], ["John"]], [GOOD, BAD])),
        "three attributes": lambda: measure(view, TWO),
        "three targets": lambda: measure(view, Query("t", [FEMALE, MALE, JOBS], [GOOD, BAD])),
        "slots": lambda: measure(view, PLEASANT, template=Template("two", "{word} and {other}")),
        "baseline": lambda: seat._baseline(np.array([1.0, 2.0, 4.0]), np.array([0.0, 3.0]), 2),
    }  # fmt: skip
    check_whole("whole seat", outcomes(calls))


def test_layer_bias() -> None:
    measure, view = measures.layer_bias, Encoder()
    table = np.array([[1.0, 2, 4, 0, 3], [0.5, 0.5, 1, 2, 2.5]])
    calls: Calls = {
        "names": lambda: measure(view, PLEASANT, samples=99, seed=2),
        "options": lambda: measure(view, LOSSY, pooling="max", template=FRAME),
        "one word": lambda: measure(view, Query("one", [["Anna"], MALE], [GOOD, BAD]), samples=9),
        "flat": lambda: measure(Encoder(1), PLEASANT),
        "one sample": lambda: measure(view, PLEASANT, samples=1).p_value,
        "unreadable": lambda: measure(AveragedVectors(before()), Query("u", [["gone"], ["John"]], [GOOD, BAD])),
        "effects": lambda: [
            seat._effects(table, 3),
            seat._effects(np.ones((2, 4)), 2),
            seat._effects(np.zeros((1, 4)), 2),
        ],
        "dealt": lambda: seat._dealt(table, 2, 4, 1),
        "interval": lambda: [
            seat._interval(each, 3) for each in (np.c_[table, table[:, 0]], table, table * 0 + [[1], [2]])
        ],
        "mean effect": lambda: seat._mean_effect(seat._columns(table, 3).sum(axis=0)[None]),
        "units": lambda: [seat._units(table, n, list("abcde"), 0.4) for n in (1, 3)],
    }
    check_whole("layer bias", outcomes(calls))


def test_effects_by_layer_are_the_definition() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(3, 9))
    expected = [(row[:4].mean() - row[4:].mean()) / row.std() for row in table]
    assert seat._effects(table, 4) == pytest.approx(expected)
    assert seat._mean_effect(seat._columns(table, 4).sum(axis=0)[None]) == pytest.approx(np.abs(expected).mean())


def test_encoded_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view, words = Encoder(), AveragedVectors(before())

    def encoded(view: Any, query: Any, **options: Any) -> Callable[[], Any]:
        def made() -> Any:
            found = encode_query(view, query, **options)
            sets = [[one.name, one.words, one.sentences, one.owners, one.sentence_words] for one in found.sets]
            lists = [tuple(one) for one in found.lists]
            return [sets, found.layers, [each.shape for each in found.vectors], found.coverage, lists, found.params]

        return made

    root = tmp_path / "seat"
    root.mkdir()
    monkeypatch.setattr(encoded_query.data, "locate", lambda name: root if name == "seat" else None)
    test = {
        "targ1": {"category": "Women", "examples": ["This is a woman.", "These are women.", "Here is Anna."]},
        "targ2": {"category": "Men", "examples": ["This is a man.", "These are men."]},
        "attr1": {"category": "Good", "examples": ["This is joy."]},
        "attr2": {"category": "Bad", "examples": ["This is pain.", "This is pain."]},
    }
    plain = {role: {**part, "examples": part["examples"][:1]} for role, part in test.items()} | {
        "targ1": {"category": "Women", "examples": ["woman", "Anna", "an"]}, "targ2": {"category": "Men", "examples": ["man"]}
    }  # fmt: skip
    files = {"sent-weat6": test, "weat6": plain, "sent-weat10": test, "sent-weat6b": test, "sent-odd": {**test, "targ1": {}}, "sent-none": {
        **test, "attr2": {"category": "Bad", "examples": []}}}  # fmt: skip
    for name, record in files.items():
        (root / f"{name}.jsonl").write_text(json.dumps(record), encoding="utf-8")
    (root / "sent-text.jsonl").write_text("{", encoding="utf-8")

    def read(name: str) -> Any:
        found = encoded_query.published_query(name)
        return (
            None if found is None else [found.name, found.concept, found.targets, found.attributes, dict(found.word_of)]
        )

    def refused(name: str) -> bool:
        with pytest.raises(
            eh.EvenhandError, match=rf"sent-{name}.jsonl is not a sentence test: it needs targ1, targ2, attr1, attr2"
        ):
            read(f"sent-{name}")
        return True

    calls: Calls = {
        "names": encoded(view, PLEASANT),
        "layers": encoded(view, PLEASANT, all_layers=True, template=FRAME),
        "layer": encoded(view, PHRASES, layer=-2, pooling="max", template=FRAME),
        "lossy": encoded(words, LOSSY, template=FRAME),
        "unreadable": encoded(words, Query("u", [["gone"], ["John"]], [GOOD, BAD]), template=FRAME),
        "repeated": encoded(view, Query("r", [["Anna", "Anna", "Emma"], ["John"]], [GOOD, BAD]), template=FRAME),
        "any targets": encoded(view, Query("t", [FEMALE, MALE, JOBS], [GOOD, BAD]), targets=None),
        "one target": encoded(view, Query("t", [FEMALE], [GOOD, BAD]), targets=1),
        "wrong number": encoded(view, Query("t", [FEMALE], [GOOD, BAD])),
        "too many": encoded(view, Query("t", [FEMALE, MALE, JOBS], [GOOD, BAD])),
        "one attribute": encoded(view, Query("t", [FEMALE, MALE, JOBS], [GOOD]), targets=None),
        "published": encoded(view, "sent-weat6"),
        "read": lambda: [
            read(name) for name in ("sent-weat6", "sent-weat10", "weat-6", "sent-weat7", "sent-../sent-weat6")
        ],
        "ids": lambda: encoded_query.published_ids(),
        "available": lambda: seat.available_queries(),
        "refused": lambda: [refused(name) for name in ("odd", "none", "text")],
        "seat": lambda: measures.seat(view, "sent-weat6").to_dict()["params"],
        "components": lambda: encoded_query._components([{"a"}, {"b"}, {"c", "b"}, {"d"}, {"a", "d"}, set(), {"e"}]),
        "owners": lambda: encoded_query._owners(["An apple.", "Old WOMEN", "a man", "x"], ["man", "women", "apple"]),
        "associations": lambda: encode_query(view, PLEASANT, all_layers=True).associations(1),
    }
    check_whole("encoded queries", outcomes(calls))
    monkeypatch.setattr(encoded_query.data, "locate", lambda name: None)
    assert encoded_query.published_ids() == ()
    assert encoded_query.published_query("sent-weat6") is None
    assert seat.available_queries()[:3] == ("weat-6", "weat-7", "weat-8")


def test_sentence_effects() -> None:
    def sets(first: list[int], second: list[int]) -> list[SentenceSet]:
        return [
            SentenceSet(
                name, tuple(f"{name}{row}" for row in range(max(owners) + 1)), tuple(map(str, owners)), np.array(owners)
            )
            for name, owners in (("x", first), ("y", second))
        ]

    x, y = np.array([1.0, 2, 4, 0.5, 3]), np.array([0.0, 1, -2, 2])
    calls: Calls = {
        "equal numbers": lambda: sentence_effect(sets([0, 1, 2, 3, 4], [0, 1, 2, 3]), (x, y), 0),
        "unequal numbers": lambda: sentence_effect(sets([0, 0, 1, 2, 2], [0, 1, 1, 2]), (x, y), 1),
        "two words": lambda: sentence_effect(sets([0, 0, 1, 1, 1], [0, 1, 1, 0]), (x, y), 0),
        "no spread": lambda: sentence_effect(sets([0, 1], [0, 1]), (np.ones(2), np.ones(2)), 0),
        "one": lambda: sentence_effect(sets([0], [0]), (np.ones(1), np.zeros(1)), 1),
        "nothing": lambda: sentence_effect(sets([0], [0]), (np.ones(1), np.zeros(0)), 1),
        "means": lambda: sets([0, 1, 1], [0, 0])[0].word_means(np.array([1.0, 2, 4])),
    }
    check_whole("sentence effects", outcomes(calls))


def test_interactions_of_sentences() -> None:
    cells = {"a x c": FEMALE, "a x d": MALE, "b x c": JOBS[:4], "b x d": JOBS[6:11]}
    query = Query("crossed", cells, {"good": GOOD, "bad": BAD})
    view = Encoder()
    calls: Calls = {
        "names": lambda: measures.sentence_interaction(view, query, samples=99, seed=2),
        "options": lambda: measures.sentence_interaction(
            view, query, layer=0, pooling="max", template=FRAME, samples=20
        ),
        "by default": lambda: measures.sentence_interaction(view, query).p_value,
        "no table": lambda: measures.sentence_interaction(view, PLEASANT),
        "unreadable": lambda: measures.sentence_interaction(
            AveragedVectors(before()), Query("u", {**cells, "b x d": ["gone"]}, query.attributes), template=FRAME
        ),
        "flat": lambda: measures.sentence_interaction(Encoder(2), query),
    }
    check_whole("sentence interaction", outcomes(calls))


def test_retrieval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = Encoder()
    lines = ["q_id,relevant,query,doc_title,document,content_gender,exp_stereotype"]
    for number, kind in enumerate(("Domestic", " career", "career", "domestic")):
        for relevant in "01":
            for gender in "FMN"[: 1 if (number, relevant) == (3, "1") else 3]:
                lines.append(
                    f"{number},{relevant},query {number},Title {gender},{kind} {relevant} text {gender}a,{gender},{kind}"
                )
    (tmp_path / "queries-documents_1.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr(retrieval_skew.data, "locate", lambda name: tmp_path if name == "grep-biasir" else None)
    sexes = Concept("sexes", {"male": ["he"], "female": ["she"]})

    def cases(made: retrieval_skew.RetrievalCases) -> list[Any]:
        return [
            made.name,
            made.groups,
            len(made.queries),
            made.queries[:9],
            made.texts[:4],
            made.rows[:4],
            made.kinds,
            made.incomplete,
        ]

    calls: Calls = {
        "topics": lambda: [one.to_dict() | {"units": len(one.units)} for one in measures.retrieval_skew(view, concept="religion")],
        "gender": lambda: [one.to_dict() | {"units": len(one.units)} for one in measures.retrieval_skew(
            view, concept="gender", layer=1, pooling="max", seed=4)],
        "documents": lambda: measures.retrieval_skew(view, "grep-biasir"),
        "men first": lambda: measures.retrieval_skew(view, "grep-biasir", concept=sexes, layer=0),
        "topic cases": lambda: cases(retrieval_skew.topic_cases("retrieval-topics", eh.concept("gender"))),
        "document cases": lambda: [cases(retrieval_skew.grep_cases(each)) for each in (eh.concept("gender"), sexes)],
        "other groups": lambda: retrieval_skew.grep_cases(eh.concept("religion")),
        "items": lambda: retrieval_skew._items(("a", "b", "a", "c"), np.array([1.0, 3, 0, 0.5])),
    }  # fmt: skip
    check_whole("retrieval", outcomes(calls))
    (tmp_path / "queries-documents_1.csv").write_text("q_id,query\n1,a\n", encoding="utf-8")
    with pytest.raises(eh.EvenhandError, match="lacks the columns"):
        retrieval_skew.grep_cases(sexes)
    monkeypatch.setattr(retrieval_skew.data, "locate", lambda name: None)
    with pytest.raises(eh.EvenhandError, match="grep-biasir is not on this disk"):
        retrieval_skew.grep_cases(sexes)
