"""Retrieval skew and sentence retention."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand import data
from evenhand.measures.sentences.retrieval_skew import RetrievalCases, _cosines, topic_cases
from evenhand.models.encoders.sentences import AveragedVectors

SIZES = eh.Concept("size", {"big": ["the giant", "the whale"], "small": ["the mouse", "the ant"]})
THREE = eh.Concept("size", {"big": ["the giant"], "small": ["the mouse"], "middle": ["the dog"]})


class WordCosine:
    """Texts about big things are near to every query, or to those that the number says."""

    name, layers, pooling = "words", 0, "mean"

    def __init__(self, gap: float = 0.2) -> None:
        self.gap = gap

    def encode(self, texts, *, layer=None, pooling=None, tokens=None):
        cosines = [
            1.0 if not t.endswith(".") else 0.5 + self.gap * t.startswith(("The giant", "The whale")) for t in texts
        ]
        return np.array([(c, np.sqrt(1 - c * c)) for c in cosines])


def test_by_hand() -> None:
    difference, advantage = eh.measures.retrieval_skew(WordCosine(), concept=SIZES)
    assert (difference.score, advantage.score, difference.positive) == ("difference", "advantage", "big")
    assert difference.value == pytest.approx(0.2)
    assert advantage.value == 1.0
    assert difference.n == 24 * 2
    assert difference.details["share_first"] == 1.0
    assert [m.value for m in eh.measures.retrieval_skew(WordCosine(0.0), concept=SIZES)] == [0.0, 0.0]


def test_more_groups_are_compared_with_the_others() -> None:
    found = {m.score: m.value for m in eh.measures.retrieval_skew(WordCosine(), concept=THREE)}
    assert found["difference:big"] == pytest.approx(0.2)
    assert found["difference:small"] == pytest.approx(-0.1)
    assert found["advantage:middle"] == pytest.approx(-0.5)
    assert sum(value for score, value in found.items() if "difference" in score) == pytest.approx(0)


@given(st.integers(0, 1000))
def test_exchanging_the_groups_changes_the_sign(seed: int) -> None:
    class Random(WordCosine):
        def encode(self, texts, **kwargs):
            return np.array([np.random.default_rng([seed, *text.encode()]).normal(size=3) for text in texts])

    swapped = eh.Concept("size", {"small": ["the mouse", "the ant"], "big": ["the giant", "the whale"]})
    first = [m.value for m in eh.measures.retrieval_skew(Random(), concept=SIZES)]
    second = [m.value for m in eh.measures.retrieval_skew(Random(), concept=swapped)]
    np.testing.assert_allclose(first, np.negative(second), atol=1e-12)


def test_each_case_pairs_its_query_with_its_own_texts() -> None:
    cases = RetrievalCases("c", ("a", "b"), ("q1", "q2"), (("t1", "t2"), ("t2", "t1")))
    vectors = eh.Vectors(["q1", "q2", "t1", "t2"], [[1, 0], [0, 1], [1, 0], [0.6, 0.8]])
    np.testing.assert_allclose(_cosines(AveragedVectors(vectors), cases, None, None), [[1, 0.6], [0.8, 0]], atol=1e-6)
    assert topic_cases("retrieval-topics", SIZES).texts[0][0] == "The giant explains how to become a software engineer."


def test_grep_biasir_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "q_id,d_id,relevant,query,doc_title,document,content_gender,exp_stereotype\n"
    rows = [
        "0,0,1,q,She,,F,F",
        "0,1,1,q,He,,M,F",
        "0,2,1,q,It,,N,F",
        "1,3,0,r,She,,F,M",
        "1,4,0,r,He,,M,M",
        "1,5,1,r,He,,M,M",
    ]
    (tmp_path / "queries-documents_Test.csv").write_text(head + "\n".join(rows) + "\n")
    monkeypatch.setattr(data, "locate", lambda name: tmp_path)
    vectors = eh.Vectors(["q", "r", "she", "he"], [[1, 0], [0, 1], [1, 0], [0.6, 0.8]])
    difference, advantage = eh.measures.retrieval_skew(AveragedVectors(vectors), "grep-biasir")
    assert difference.value == pytest.approx((0.4 - 0.8) / 2)
    assert advantage.value == 0.0
    assert difference.details["by_kind"] == pytest.approx({"f": 0.4, "m": -0.8})
    assert difference.details["incomplete"] == 1
    with pytest.raises(eh.EvenhandError, match="about women and men, not religion"):
        eh.measures.retrieval_skew(AveragedVectors(vectors), "grep-biasir", concept="religion")


def test_retention_is_one_without_a_change_and_falls_with_noise(glove: eh.Vectors) -> None:
    encoder = AveragedVectors(glove)
    assert eh.measures.sentence_retention(encoder).value == pytest.approx(1.0)
    values = []
    for noise in (0.5, 5.0):
        rng = np.random.default_rng(0)
        scale = noise * np.linalg.norm(glove.matrix, axis=1).mean() / np.sqrt(glove.dim)
        changed = eh.Vectors(glove.words, glove.matrix + scale * rng.normal(size=glove.matrix.shape).astype(np.float32))
        found = eh.measures.sentence_retention(AveragedVectors(changed), reference=encoder)
        low, high = found.interval
        assert low < found.value < high
        values.append(found.value)
    assert 1 > values[0] > values[1]
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(glove.dim, glove.dim)))[0].astype(np.float32)
    turned = AveragedVectors(eh.Vectors(glove.words, 3 * glove.matrix @ turn))
    assert eh.measures.sentence_retention(turned, reference=encoder).value == pytest.approx(1.0, abs=1e-3)
    assert "too few" in eh.measures.sentence_retention(encoder, ["one", "two"]).reason
