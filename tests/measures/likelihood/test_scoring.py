"""Candidates in a context, samples and clustered intervals."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import InputMissingError
from evenhand.measures.likelihood.scoring import (
    candidate_scores,
    clustered_interval,
    count_split,
    data_folder,
    draw_sample,
    ranks_first,
    ratio,
)
from evenhand.measures.registry import get
from scripted_model import ScriptedModel, table

WORDS = table({"cat": 0.5, "dog": 0.25, "cow": 0.125, "the": 0.5, "ran": 0.5, ".": 1.0})


@pytest.mark.parametrize("masked", [True, False])
def test_candidates_are_compared_in_their_context(masked):
    model = ScriptedModel(WORDS, masked=masked)
    scores = candidate_scores(model, ["the {} ran.", "{}."], [("cat", "dog"), ("cow", "cat")])
    assert scores[:, 0] - scores[:, 1] == pytest.approx([np.log(2), -np.log(4)])
    if masked:
        assert scores == pytest.approx(np.log([[0.5, 0.25], [0.125, 0.5]]))


def test_contexts_with_a_candidate_of_several_tokens_are_counted():
    contexts, candidates = ["the {} ran.", "{} ran.", "{}."], [("cat", "the dog"), ("cat", "dog"), ("the cow", "a cat")]
    assert count_split(ScriptedModel(WORDS, masked=True), contexts, candidates) == 2
    assert count_split(ScriptedModel(WORDS, masked=False), contexts, candidates) == 0  # whole texts are compared


def test_the_order_and_the_grouping_of_candidates_change_nothing():
    model = ScriptedModel(WORDS, masked=True)
    contexts = ["the {} ran."] * 4
    few = candidate_scores(model, contexts, [("cat", "dog"), ("dog", "cat")] * 2)  # one combination of two words
    many = candidate_scores(model, contexts, [("cat", "dog"), ("dog", "cow"), ("cow", "cat"), ("cow", "the")])
    assert few[0] == pytest.approx(few[1][::-1])
    assert many[0] == pytest.approx(few[0])


def test_a_sample_is_spread_over_the_strata():
    items = list(range(100))
    strata = [item % 4 for item in items]
    drawn = draw_sample(items, strata, 10, seed=1)
    assert len(set(drawn)) == 10
    assert sorted(Counter(item % 4 for item in drawn).values()) == [2, 2, 3, 3]
    assert drawn == sorted(drawn) == draw_sample(items, strata, 10, seed=1)
    assert drawn != draw_sample(items, strata, 10, seed=2)
    for everything in (0, None, 100, 1000):
        assert draw_sample(items, strata, everything, seed=0) == items


def test_a_short_stratum_gives_all_it_has():
    drawn = draw_sample("aabbbbbb", "aabbbbbb", 6, seed=0)
    assert Counter(drawn) == {"a": 2, "b": 4}


def test_the_interval_resamples_clusters():
    values = np.repeat([0.0, 1.0, 0.0, 1.0], 50)
    clusters = np.repeat(["a", "b", "c", "d"], 50).tolist()
    wide = clustered_interval([values, np.ones(200)], clusters, lambda sums: ratio(*sums.T))
    narrow = clustered_interval([values, np.ones(200)], list(range(200)), lambda sums: ratio(*sums.T))
    assert wide is not None
    assert narrow is not None
    assert wide[1] - wide[0] > 3 * (narrow[1] - narrow[0])


def test_two_clusters_have_no_interval():
    assert clustered_interval([np.ones(4)], ["a", "a", "b", "b"], lambda sums: sums[:, 0]) is None


def test_a_tie_is_half_right():
    assert ranks_first(np.array([[2.0, 1.0], [1.0, 2.0], [1.0, 1.0]])).tolist() == [1.0, 0.0, 0.5]


def test_missing_data_name_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    with pytest.raises(InputMissingError) as caught:
        data_folder("bbq", "bbq")
    assert caught.value.hint == "evenhand fetch bbq"
    assert get("bbq").info.default_queries() == ()
    with pytest.raises(InputMissingError, match="nowhere"):
        data_folder("bbq", tmp_path / "nowhere")
    assert data_folder("bbq", tmp_path) == tmp_path


def test_clusters_that_all_agree_are_not_certain():
    """Six templates without a stereotype: z^2 / (6 + z^2) = .39 of them may deviate, to either limit."""
    columns, clusters = [np.zeros(12), np.ones(12)], [row // 2 for row in range(12)]

    def gap(sums):
        return 100 * sums[:, 0] / sums[:, 1]

    found = clustered_interval(columns, clusters, gap, limits=(-100.0, 100.0))
    assert found == pytest.approx((-39.03, 39.03), abs=0.01)
    most = clustered_interval([np.ones(12), np.ones(12)], clusters, gap, limits=(-100.0, 100.0))
    assert most == pytest.approx((100 - 2 * 39.03, 100), abs=0.02)
    as_share = clustered_interval(columns, clusters, gap, share_of=100.0)
    assert as_share == pytest.approx((0, 39.03), abs=0.01)
