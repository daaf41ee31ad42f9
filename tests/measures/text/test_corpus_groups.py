"""Corpus bias of more than two groups: every group against the rest, whatever their order."""

import itertools
import random

import pytest

import evenhand as eh
from evenhand.words import Concept

GROUPS = {"a": ["ann", "amy"], "b": ["bob", "ben"], "c": ["cat", "cay"]}
NEAR = {"a": ["red", "house", "tree"], "b": ["blue", "house", "tree"], "c": ["house", "tree", "blue"]}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = random.Random(0)
    folder = tmp_path_factory.mktemp("text")
    for number in range(12):
        names = rng.choices(list(GROUPS), k=20)
        lines = [f"{rng.choice(GROUPS[name])} saw the {rng.choice(NEAR[name])}" for name in names]
        (folder / f"{number}.txt").write_text("\n".join(lines))
    return folder


def measured(text, order: str) -> dict[str, eh.Measurement]:
    concept = Concept("own", {name: GROUPS[name] for name in order})
    return {m.score: m for m in eh.measures.corpus_bias(text, concept=concept, permutations=5)}


def test_every_group_is_scored_against_the_rest(text):
    found = measured(text, "abc")
    assert list(found) == ["mu:a", "sigma:a", "mu:b", "sigma:b", "mu:c", "sigma:c"]
    whole = eh.corpus.bias(text, groups=GROUPS, stop_words="english")
    for name in "abc":
        assert found[f"mu:{name}"].value == pytest.approx(whole.for_group(name).mu)
        assert found[f"mu:{name}"].details["baseline_mu"] > 0
        assert found[f"mu:{name}"].details["p_holm"] >= found[f"mu:{name}"].p_value
    assert "near a as near the other groups" in found["mu:a"].reading


def test_permuted_groups_permute_the_scores(text):
    plain = measured(text, "abc")
    for order in itertools.permutations("abc"):
        turned = measured(text, "".join(order))
        assert {score: m.value for score, m in turned.items()} == pytest.approx(
            {score: m.value for score, m in plain.items()}
        )


def test_every_group_can_be_found_after_holm(text):
    found = {m.score: m for m in eh.measures.corpus_bias(text, concept=Concept("own", GROUPS))}
    details = found["mu:a"].details  # "red" stands near this group only in the text
    assert found["mu:a"].p_value < 0.001
    assert details["p_holm"] < 0.01
    assert found["mu:a"].params["permutations"] == 1999
    assert details["p_value_labellings"] <= details["baseline_labellings"] <= 1999
    assert "at most 1,999" in details["p_value_rule"]
