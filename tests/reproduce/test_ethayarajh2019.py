"""Table 1 of Ethayarajh et al. and the contrived search, on the embedded vectors and on planted ones."""

import json
from importlib import import_module

import numpy as np
import pytest

from evenhand import Query, Vectors, measures, reproduce
from evenhand.errors import UnknownNameError, UsageError, VocabularyError
from evenhand.reproduce.ethayarajh2019 import (
    TARGETS,
    candidates,
    contrived,
    find_attributes,
    manipulable_share,
    table_1,
)
from evenhand.reproduce.inputs import PaperInputs

PLANTED = Vectors(
    ["one", "two", "f1", "f2", "m1", "m2"],
    [[1.0, 0.0], [0.0, 1.0], [3.0, 4.0], [4.0, 3.0], [4.0, 3.0], [0.0, 2.0]],
)


def test_table_1_has_two_or_minus_two_and_nothing_or_a_half_in_every_row():
    table = table_1(Vectors.default())
    assert len(table.rows) == 9
    for row in table.to_dict()["rows"]:
        sign = np.sign(row["statistic"])
        assert row["effect"] == pytest.approx(2 * sign, abs=1e-9)
        assert row["p"] == (0.0 if sign > 0 else 0.5)
        assert row["effect (paper)"] == 2 * np.sign(row["statistic (paper)"])
        assert row["p (paper)"] == (0.0 if row["statistic (paper)"] > 0 else 0.5)


def test_the_printed_numbers_are_those_in_the_notes_of_the_word_lists():
    from evenhand import query
    from evenhand.reproduce.ethayarajh2019 import PUBLISHED

    for name, (statistic, effect, p) in PUBLISHED.items():
        note = query(f"ethayarajh2019-{name}").note
        assert f"statistic {statistic:g}, effect size {effect:g}, p {p:g}" in note


def test_words_that_vectors_lack_leave_the_row_without_numbers():
    table = table_1(Vectors(["door"], [[1.0, 0.0]]))
    row = table.to_dict()["rows"][0]
    assert (row["statistic"], row["effect"], row["p"]) == (None, None, None)
    assert row["effect (paper)"] == 2.0


def test_the_search_by_hand():
    # g = cos(one, a) - cos(two, a): f1 -.2, f2 .2, m1 .2, m2 -1
    female, male = find_attributes(PLANTED, ("one", "two"), {"female": ["f1", "f2"], "male": ["m1", "m2"]})
    assert female.attributes == ("f2", "m2")
    assert female.statistic == pytest.approx(1.2, abs=1e-6)
    assert male.attributes == ("m1", "f1")
    assert male.statistic == pytest.approx(0.4, abs=1e-6)
    assert female.share == pytest.approx(2 / 4)  # f1 - m2 and f2 - m2; f2 - m1 is a tie, which is neither
    assert male.share == pytest.approx(1 / 4)


def test_what_the_search_finds_is_what_weat_says():
    vectors = Vectors.default()
    female, male = candidates(vectors)
    for pair in TARGETS:
        for found in find_attributes(vectors, pair, {"female": female, "male": male}):
            a, b = found.attributes
            m = measures.weat(vectors, Query("q", [[pair[0]], [pair[1]]], [[a], [b]]), ties="gt", alternative="greater")
            assert m.value == pytest.approx(2)
            assert m.p_value == 0
            assert m.details["statistic"] == pytest.approx(found.statistic, abs=1e-9)


def test_an_outcome_that_no_attributes_give_is_empty():
    female, male = find_attributes(PLANTED, ("one", "two"), {"female": ["f2"], "male": ["m2"]})
    assert female.attributes == ("f2", "m2")
    assert (male.attributes, male.statistic, male.share) == (None, None, 0.0)


def test_the_share_of_pairs_is_that_of_the_search():
    vectors = Vectors.default()
    female, male = candidates(vectors)
    lists = {"female": female[:3], "male": male[:3]}
    words = ["door", "curtain", "dog", "cat", "river", "table"]
    both = [
        all(found.attributes for found in find_attributes(vectors, (a, b), lists))
        for i, a in enumerate(words)
        for b in words[i + 1 :]
    ]
    assert 0 < np.mean(both) < 1
    assert manipulable_share(vectors, words, lists) == pytest.approx(np.mean(both))


def test_nearly_any_pair_of_words_can_be_made_to_look_either_way():
    table = contrived(Vectors.default())
    assert all(row["attributes"] for row in table.to_dict()["rows"])
    share = float(table.notes[-1].split(" random words ")[1].split(" %")[0])
    assert share > 95


def test_a_table_is_plain():
    table = table_1(Vectors.default())
    assert json.loads(json.dumps(table.to_dict()))["columns"] == list(table.columns)


@pytest.mark.parametrize("function", sorted({function for function, *_ in reproduce.COMPUTED.values()}))
def test_every_listed_function_is_there(function):
    module, _, name = function.partition(":")
    assert callable(getattr(import_module(f"evenhand.reproduce.{module}"), name))


def test_a_table_about_vectors_takes_one_set_of_them():
    with pytest.raises(UsageError, match="one set of vectors, got 2"):
        reproduce.beside("ethayarajh2019/table-1", PaperInputs(vectors=(PLANTED, PLANTED)))


def test_unknown_names_are_named_with_what_there_is():
    with pytest.raises(UnknownNameError, match="ethayarajh2020") as caught:
        reproduce.beside("ethayarajh2020/table-1")
    assert "ethayarajh2019" in caught.value.hint
    with pytest.raises(UnknownNameError, match="ethayarajh2019/table-7"):
        reproduce.beside("ethayarajh2019/table-7")


def test_candidates_that_cannot_be_used_are_named():
    with pytest.raises(VocabularyError, match="'male'"):
        find_attributes(PLANTED, ("one", "two"), {"female": ["f1"], "male": ["gone"]})
    with pytest.raises(UsageError, match="two named lists"):
        find_attributes(PLANTED, ("one", "two"), {"female": ["f1"]})
    with pytest.raises(VocabularyError, match="gone"):
        find_attributes(PLANTED, ("one", "gone"), {"female": ["f1"], "male": ["m1"]})
