"""The shipped lists against the files they were taken from."""

import collections
import json
import os
from pathlib import Path

import pytest

from evenhand.words import pairs, table, wordset

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def origin():
    folder = os.environ.get("EVENHAND_DATA")
    if not folder:
        pytest.skip("EVENHAND_DATA is not set")
    return Path(folder)


def lines(path):
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def test_names_follow_the_stated_rule(origin):
    counts = collections.Counter()
    for year in range(2007, 2017):
        for line in lines(origin / f"ssa-names/yob{year}.txt"):
            name, sex, count = line.split(",")
            counts[name, sex] += int(count)
    for word, sex, other in (("female", "F", "M"), ("male", "M", "F")):
        of_sex = [(name, count) for (name, its), count in counts.items() if its == sex]
        clear = [(name, n) for name, n in of_sex if counts[name, other] / (n + counts[name, other]) <= 0.10]
        ranked = sorted(clear, key=lambda item: (-item[1], item[0]))
        assert [name for name, _ in ranked[:100]] == list(wordset(f"dawkins2021-names-{word}-100"))


def test_bolukbasi_lists_are_those_of_the_release(origin):
    def released(name):
        return json.loads((origin / f"debiaswe-lists/{name}.json").read_text(encoding="utf-8"))

    assert list(wordset("bolukbasi2016-gender-specific")) == released("gender_specific_full")
    assert list(wordset("bolukbasi2016-gender-specific-seed")) == released("gender_specific_seed")
    assert {frozenset(pair) for pair in pairs("bolukbasi2016-equalize")} == set(
        map(frozenset, released("equalize_pairs"))
    )
    found = wordset("bolukbasi2016-professions")
    assert [list(row) for row in zip(found, *found.scores.values(), strict=True)] == released("professions")


def test_gn_glove_sembias_and_gp_are_those_of_the_release(origin):
    lists = origin / "gn-glove-lists"
    assert list(pairs("gn-glove-pairs").first) == lines(lists / "wordlist/female_word_file.txt")
    assert list(pairs("gn-glove-pairs").second) == lines(lists / "wordlist/male_word_file.txt")
    assert ["\t".join(row) for row in table("sembias")] == lines(lists / "SemBias/SemBias")
    assert list(wordset("gp-neutral")) == lines(origin / "gp-debias-lists/no_gender_list.tsv")


def test_dev_classes_are_those_of_the_release(origin):
    released = origin / "dev2019-lists/word_lists"
    for kind in ("commerce", "interaction", "driving", "eating"):
        assert list(wordset(f"dev2019-verbs-{kind}")) == lines(released / f"verbs/{kind}_verbs")
    assert set(wordset("dev2019-occupations")) == set(lines(released / "nouns/people/occupations"))
    assert list(wordset("dev2019-people-rulers")) == lines(released / "nouns/people/rulers")
