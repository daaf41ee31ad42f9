from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import UsageError, VocabularyError
from evenhand.mitigations import LinearProjection
from evenhand.mitigations.selection import ExceptListed
from evenhand.models.vectors import Vectors
from evenhand.reproduce.ethayarajh2019 import (
    HELD_OUT,
    IN_SAMPLE,
    LISTED,
    REVERSED,
    AnalogySetting,
    curves,
    figure_1,
    folds,
    strengths,
)
from evenhand.subspaces import pairs as direction_of_pairs
from evenhand.words import Concept, Pairs


def planted(seed: int = 0) -> tuple[Vectors, AnalogySetting]:
    """Words of appropriate analogies differ along the first axis, those of biased ones half along it and half along the second."""
    rng = np.random.default_rng(seed)
    defining = [(f"f{i}", f"m{i}") for i in range(6)]
    appropriate = [(f"a{i}", f"b{i}") for i in range(10)]
    biased = [(f"n{i}", f"d{i}") for i in range(10)]
    shift = {"f": (1, 0), "m": (-1, 0), "a": (1, 0), "b": (-1, 0), "n": (0.6, 1), "d": (-0.6, -1)}
    names = [word for two in (*defining, *appropriate, *biased) for word in two]
    matrix = 0.02 * rng.normal(size=(len(names), 8))
    for row, word in zip(matrix, names, strict=True):
        row[:2] += shift[word[0]]
    lists = (Pairs(name, pairs) for name, pairs in (("def", defining), ("app", appropriate), ("bia", biased)))
    return Vectors(names, matrix, name="planted"), AnalogySetting(*lists, folds=5, splits=3)


def test_detection_spares_the_planted_appropriate_analogies_and_no_other() -> None:
    v, setting = planted()
    appropriate, biased = strengths(v, setting=setting)
    assert appropriate.before == pytest.approx(2, abs=0.2)
    assert biased.before == pytest.approx(1.2, abs=0.2)
    for method in (IN_SAMPLE, HELD_OUT):
        assert appropriate.preserved(method, 0.5) == pytest.approx(1)
        assert biased.preserved(method, 0.5) == pytest.approx(0)
    assert appropriate.after[HELD_OUT].shape == (3, 10)
    assert not np.isnan(appropriate.after[HELD_OUT]).any()


def test_strength_after_is_that_of_the_projected_vectors() -> None:
    v, setting = planted()
    listed = ["m0", "a0", "b0", "a1", "n0"]  # of a1-b1 and n0-d0 one word each
    given = AnalogySetting(setting.defining, setting.appropriate, setting.biased, splits=1)
    rule = ExceptListed(listed)
    about = Concept("planted", pairs=setting.defining)
    projected = LinearProjection("pairs", words=rule).fit(v, about)(v)
    along = direction_of_pairs(v, setting.defining).basis[0]
    expected = [abs((projected[a] - projected[b]) @ along) for a, b in setting.appropriate]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenhand.reproduce.ethayarajh2019.ExceptListed", lambda _: rule)
        ours, _ = strengths(v, setting=given)
    assert ours.after[LISTED][0] == pytest.approx(expected, abs=1e-6)
    assert 0.9 < ours.after[LISTED][0, 1] < 1.1
    assert ours.after[REVERSED][0, 0] == 0
    assert ours.after[REVERSED][0, 2] == pytest.approx(ours.before[2])


def test_the_tested_analogies_are_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the defining pairs the appropriate ones too: what is tested must then leave both directions."""
    v, setting = planted()
    seen: list[tuple[set[str], set[str]]] = []
    from evenhand.reproduce import ethayarajh2019

    original = ethayarajh2019.ExceptDefined
    judged = ethayarajh2019._after

    def watched(biased: Pairs, defining: Pairs) -> object:
        seen.append(({word for two in (*biased, *defining) for word in two}, set()))
        return original(biased, defining)

    def noted(beta: dict[str, float], pairs: Pairs, exempt: frozenset[str]) -> np.ndarray:
        if seen and len(pairs) < 6:
            seen[-1][1].update(word for two in pairs for word in two)
        return judged(beta, pairs, exempt)

    monkeypatch.setattr(ethayarajh2019, "ExceptDefined", watched)
    monkeypatch.setattr(ethayarajh2019, "_after", noted)
    strengths(v, setting=AnalogySetting(setting.defining, setting.defining, setting.biased, folds=3, splits=2))
    held_out = seen[1:]  # the first one is in sample
    assert len(held_out) == 6
    for learned_from, tested in held_out:
        assert tested
        assert not learned_from & tested


@given(
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=4, max_size=12, unique=True), st.integers(2, 4)
)
def test_folds_part_all_analogies_and_keep_shared_words_together(numbers: list[tuple[int, int]], k: int) -> None:
    pairs = [(f"w{a}", f"w{b}") for a, b in numbers]
    parts = folds(pairs, k, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(pairs)))
    words = [{word for row in part.tolist() for word in pairs[row]} for part in parts]
    for first in range(k):
        for second in range(first):
            assert not words[first] & words[second]


def test_the_table_has_the_published_shares_beside_ours(glove: Vectors) -> None:
    table = figure_1(glove)
    rows = {(row[2], row[3]): row for row in table.rows if row[0] == "0.5"}
    assert rows["appropriate", LISTED][-1] == 16.5
    assert rows["biased", IN_SAMPLE][-1] == 36.7
    assert rows["biased", HELD_OUT][-1] is None
    assert all(row[-1] is None for row in table.rows if row[0] != "0.5")
    # Held out, detection spares more biased analogies than where it was trained on them.
    assert rows["biased", HELD_OUT][5] > rows["biased", IN_SAMPLE][5]
    assert table.notes
    json.dumps(table.to_dict())


def test_the_curves_fall_and_start_with_every_analogy() -> None:
    v, setting = planted()
    table = curves(v, setting=setting, points=5)
    lines: dict[tuple[str, str], list[float]] = {}
    for kind, method, _, number in table.rows:
        lines.setdefault((kind, method), []).append(number)
    assert len(lines) == 10
    for line in lines.values():
        assert line[0] == 10
        assert line == sorted(line, reverse=True)


def test_nothing_that_strong_before_is_no_number() -> None:
    v, setting = planted()
    weak = Vectors(v.words, 0.01 * v.matrix, name="weak")
    assert figure_1(weak, setting=setting).rows[0][5] is None


def test_misuse_and_missing_words_are_named() -> None:
    with pytest.raises(UsageError, match="2 folds"):
        AnalogySetting(folds=1)
    with pytest.raises(VocabularyError, match="has 0 pairs of ethayarajh2019-pairs"):
        figure_1(planted()[0])
    v, setting = planted()
    with pytest.raises(UsageError, match="shares a word with a tested one"):
        strengths(
            v,
            setting=AnalogySetting(
                Pairs("d", [("f0", "m0"), ("f0", "m1")]), Pairs("a", [("f0", "b0"), ("a1", "b1")]), setting.biased
            ),
        )
