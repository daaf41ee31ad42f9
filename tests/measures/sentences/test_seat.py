"""SEAT and bias by layer: a hand-computed example, the laws, the published files."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures.sentences.encoded_query import SentenceSet, published_ids, read_test, sentence_effect
from evenhand.models.encoders.sentences import AveragedVectors
from evenhand.words import Query, Template

BARE = Template("bare", "{word}")
QUERY = Query("q", targets={"x": ["x1", "x2", "x3"], "y": ["y1", "y2", "y3"]}, attributes={"a": ["a1"], "b": ["b1"]})


@dataclass
class ListedEncoder:
    """An encoder that knows the vector of each text by a function of its layer."""

    vectors: Callable[[str, int], Sequence[float]]
    layers: int = 2
    name: str = "listed"
    pooling: str = "mean"
    asked: list[str] = field(default_factory=list)

    def encode(self, texts, *, layer=None, pooling=None, tokens=None):
        self.asked += texts
        number = self.layers if layer is None else layer
        return np.array([self.vectors(text, number) for text in texts])

    def encode_layers(self, texts, *, pooling=None, tokens=None):
        return np.stack([self.encode(texts, layer=layer) for layer in range(self.layers + 1)])


def random_encoder(seed: int, turn: np.ndarray | None = None, scale: float = 1.0) -> ListedEncoder:
    def vector(text: str, layer: int) -> np.ndarray:
        rng = np.random.default_rng([seed, layer, *text.encode()])
        row = rng.normal(size=4) * scale
        return row if turn is None else row @ turn

    return ListedEncoder(vector)


PLANE = {"a1": (1.0, 0.0), "b1": (0.0, 1.0), "x1": (1.0, 0.0), "x2": (1.0, 0.0), "x3": (0.6, 0.8)} | {
    "y1": (0.0, 2.0), "y2": (0.8, 0.6), "y3": (0.0, 1.0),
}  # fmt: skip


def test_by_hand() -> None:
    # s = cos(., a) - cos(., b): x 1, 1, -0.2; y -1, 0.2, -1
    values = np.array([1.0, 1.0, -0.2, -1.0, 0.2, -1.0])
    encoder = ListedEncoder(lambda text, layer: PLANE[text])
    found = eh.measures.seat(encoder, QUERY, template=BARE)
    expected = (values[:3].mean() - values[3:].mean()) / values.std()
    assert found.value == pytest.approx(expected)
    assert [item["value"] for item in found.items] == pytest.approx(values.tolist())
    assert found.details["partitions"] == 20
    assert found.p_value == pytest.approx(
        np.mean([abs(_split(values, rows)) >= abs(_split(values, (0, 1, 2))) - 1e-9 for rows in _combinations()])
    )
    assert found.params["layer"] == 2
    assert found.params["pooling"] == "mean"
    released = eh.measures.seat(encoder, QUERY, template=BARE, variant="released")
    assert released.value == pytest.approx(expected * values.std() / values.std(ddof=1))
    assert (released.params["ddof"], released.params["alternative"]) == (1, "greater")


def _combinations():
    from itertools import combinations

    return list(combinations(range(6), 3))


def _split(values, rows):
    others = [row for row in range(6) if row not in rows]
    return values[list(rows)].mean() - values[others].mean()


@pytest.mark.parametrize("query", ["weat-6", "weat-7", "weat-1"])
def test_bare_words_through_averaged_vectors_are_weat(glove: eh.Vectors, query: str) -> None:
    sentence, word = eh.measures.seat(AveragedVectors(glove), query, template=BARE), eh.measures.weat(glove, query)
    assert sentence.value == pytest.approx(word.value, abs=1e-6)
    assert sentence.p_value == pytest.approx(word.p_value, abs=1e-3)
    assert sentence.interval == pytest.approx(word.interval, abs=1e-6)


@given(st.integers(0, 10_000))
def test_laws(seed: int) -> None:
    encoder = random_encoder(seed)
    value = eh.measures.seat(encoder, QUERY).value
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    assert eh.measures.seat(random_encoder(seed, turn, 7.5), QUERY).value == pytest.approx(value, abs=1e-9)
    (x, y), (a, b) = QUERY.targets, QUERY.attributes
    assert eh.measures.seat(encoder, Query("q", (y, x), (a, b))).value == pytest.approx(-value)
    assert eh.measures.seat(encoder, Query("q", (x, y), (b, a))).value == pytest.approx(-value)
    backwards = Query("q", (list(x)[::-1], list(y)[::-1]), (a, b))
    assert eh.measures.seat(encoder, backwards).value == pytest.approx(value)


def test_words_are_permuted_and_not_sentences() -> None:
    """Six sentences of a word are one observation: with three words a side the smallest two-sided p is 2 / 20."""
    rng = np.random.default_rng(0)
    noise = {word: rng.normal(scale=0.01) for word in PLANE}

    def vector(text: str, layer: int) -> tuple[float, float]:
        word = text.rstrip(".").split()[-1]
        return (1.0, 1.0 + noise[word]) if word[0] in "ax" else (-1.0, 1.0 + noise[word])

    found = eh.measures.seat(ListedEncoder(vector), QUERY)
    assert found.n == 36
    assert found.p_value == pytest.approx(2 / 20)
    assert found.details["permuted"] == "words"
    assert eh.measures.seat(ListedEncoder(vector), QUERY, variant="released").p_value < 1e-4
    # Of the 20 ways to deal the words, 2 part both kinds and 18 leave a third of that difference: 0.4 of it on average.
    assert found.details["baseline_size"] == pytest.approx(0.4 * abs(found.value), rel=0.05)


def test_undefined_and_bad_input() -> None:
    flat = ListedEncoder(lambda text, layer: (1.0, 0.0))
    assert "same mean vector" in eh.measures.seat(flat, QUERY).reason
    attributes = {"a1": (1.0, 0.0), "b1": (0.0, 1.0)}

    def given(text, x, y):
        word = next((word for word in attributes if word in text), "")
        return attributes[word] if word else x if "x" in text.split()[-1] else y

    collapsed = ListedEncoder(lambda text, layer: given(text, (1, 1), (1, 1)))
    assert "x and y have the same mean vector" in eh.measures.seat(collapsed, QUERY).reason
    still = ListedEncoder(lambda text, layer: given(text, (1, 1), (-1, -1)))
    assert "standard deviation is 0" in eh.measures.seat(still, QUERY).reason
    with pytest.raises(UsageError, match="ddof must be 0"):
        eh.measures.seat(flat, QUERY, ddof=2)
    with pytest.raises(UsageError, match=r"one free slot \{word\}"):
        eh.measures.seat(flat, QUERY, template=Template("t", "{this} and {that}"))
    with pytest.raises(UsageError, match="2 target and 2 attribute sets"):
        eh.measures.seat(flat, Query("q", (["a"], ["b"], ["c"]), (["d"], ["e"])))
    with pytest.raises(eh.EvenhandError, match="variant must be released, got 'other'"):
        eh.measures.seat(flat, QUERY, variant="other")


def test_missing_words_follow_the_coverage_rule() -> None:
    small = eh.Vectors(["this", "is", "x1", "a1", "b1", "y1"], np.eye(6))
    found = eh.measures.seat(AveragedVectors(small), QUERY)
    assert found.status == "undefined"
    assert found.reason.startswith("too few words are in the vocabulary: x 1 of 3, y 1 of 3")
    assert set(found.coverage.missing) == {"x2", "x3", "y2", "y3"}


def test_layers_by_hand_and_in_one_pass() -> None:
    encoder = random_encoder(3)
    found = eh.measures.layer_bias(encoder, QUERY, template=BARE)
    single = [eh.measures.seat(encoder, QUERY, template=BARE, layer=layer).value for layer in range(3)]
    assert [item["value"] for item in found.items] == pytest.approx(single)
    assert found.value == pytest.approx(np.abs(single).mean())
    assert 0 < found.p_value <= 1
    once = random_encoder(3)
    once.encode_layers = lambda texts, **kwargs: np.stack([random_encoder(3).encode(texts, layer=n) for n in range(3)])
    eh.measures.layer_bias(once, QUERY)
    assert once.asked == []


def test_a_published_file(tmp_path: Path) -> None:
    def save(name: str, sets: dict[str, list[str]]) -> None:
        record = {
            role: {"category": key, "examples": value}
            for role, (key, value) in zip(["targ1", "targ2", "attr1", "attr2"], sets.items(), strict=True)
        }
        (tmp_path / name).write_text(json.dumps(record))

    save("weat8.jsonl", {"men": ["man", "boy"], "women": ["woman", "girl"], "a": ["work"], "b": ["home"]})
    sentences = {
        "men": ["This is a man.", "Men are here.", "That is a boy.", "Boys are here."],
        "women": ["This is a woman.", "Women are here.", "That is a girl."],
    }
    save("sent-weat8.jsonl", sentences | {"a": ["It is work."], "b": ["It is home."]})
    query = read_test(tmp_path / "sent-weat8.jsonl")
    assert query.concept == "gender"
    assert [query.word_of[sentence] for sentence in sentences["men"]] == ["man", "man", "boy", "boy"]
    assert [query.word_of[sentence] for sentence in sentences["women"]] == ["woman", "woman", "girl"]
    found = eh.measures.seat(random_encoder(0), query)
    assert (found.n, found.details["words"][:2], found.params["sentences"]) == (7, [2, 2], "given")
    (tmp_path / "sent-weat9.jsonl").write_text("{}")
    with pytest.raises(eh.EvenhandError, match="is not a sentence test"):
        read_test(tmp_path / "sent-weat9.jsonl")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("sent-weat6", [64, 64, 101, 112]),
        ("sent-weat6b", [80, 80, 101, 112]),
        ("sent-weat7", [72, 72, 80, 80]),
        ("sent-weat8", [56, 56, 80, 80]),
        ("sent-weat3", [256, 256, 215, 249]),
        ("sent-angry_black_woman_stereotype", [120, 120, 54, 54]),
    ],
)
def test_sizes_of_the_published_tests(data_folder: Path, name: str, sizes: list[int]) -> None:
    query = read_test(data_folder / "seat" / "tests" / f"{name}.jsonl")
    assert [len(group) for group in (*query.targets, *query.attributes)] == sizes


@pytest.mark.data
def test_an_audit_asks_the_published_tests_of_its_concept(data_folder: Path, glove: eh.Vectors) -> None:
    audit = eh.Audit.run(glove, measures=["seat"], methods=[], concept="age")
    controls = {f"seat:sent-weat{number}" for number in (1, 2, 9)}
    assert set(audit.labels) == {"seat:sent-weat10"} | controls
    assert "sent-weat6" in published_ids()


def test_without_the_data_set_the_audit_asks_sentence_versions_of_weat(
    glove: eh.Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    audit = eh.Audit.run(glove, measures=["seat", "layer-bias"], methods=[], concept="gender")
    gender = {f"seat:weat-{number}" for number in (6, 7, 8)}
    assert gender <= set(audit.labels)
    assert not any("weat-10" in label for label in audit.labels)
    religion = eh.Audit.run(glove, measures=["seat"], methods=[], concept="religion")
    assert "seat:religion/islam/pleasant-unpleasant" in religion.labels


def test_the_interval_is_about_the_value_where_words_have_different_numbers_of_sentences() -> None:
    """One word of the first set has nine sentences of ten, and a larger association than the others."""
    rng = np.random.default_rng(3)
    numbers = [(f"x{word}", 27 if word == 0 else 1) for word in range(4)]
    owners = np.repeat(np.arange(4), [count for _, count in numbers])
    first = SentenceSet("X", tuple(word for word, _ in numbers), tuple(map(str, owners)), owners)
    second = SentenceSet("Y", tuple("abcd"), tuple("abcd"), np.arange(4))
    associations = (np.where(owners == 0, 1.0, 0.2) + rng.normal(0, 0.02, len(owners)), rng.normal(0, 0.1, 4))
    effect = sentence_effect((first, second), associations, 0)
    assert effect is not None
    assert effect.interval is not None
    assert effect.interval[0] < effect.value < effect.interval[1]
