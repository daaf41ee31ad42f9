"""Parameters of every method are described, and can be set from text."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.data.citations import references
from evenhand.errors import UnknownNameError, UsageError
from evenhand.mitigations import get, ids
from evenhand.mitigations.selection import EveryWord, ExceptListed, ExceptSpecific

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "methods.md").read_text(encoding="utf-8")
EVERY = pytest.mark.parametrize("id", ids())


@EVERY
def test_every_parameter_is_described_in_one_sentence(id: str) -> None:
    for parameter in get(id).parameters():
        assert len(parameter.doc) > 10, parameter.name
        assert parameter.doc[0].isupper() or parameter.doc.startswith("`"), parameter.name
        assert parameter.doc.endswith("."), parameter.name
        assert parameter.type, parameter.name
        assert "\n" not in parameter.doc


@EVERY
def test_defaults_are_those_of_the_method(id: str) -> None:
    method = get(id)()
    for parameter in get(id).parameters():
        assert getattr(method, parameter.name) == parameter.default


@EVERY
def test_every_method_has_a_formula_and_cites_papers(id: str) -> None:
    kind = get(id)
    assert len(kind.formula) > 10
    assert kind.cites
    assert set(kind.cites) <= set(references())
    assert kind.bibtex().count("@") >= len(kind.cites)
    assert kind.definition >= 1


@EVERY
def test_the_reference_page_has_the_method(id: str) -> None:
    kind = get(id)
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{id}` |"))
    for text in (kind.title, kind.formula.replace("|", "\\|"), kind.limits, kind.citation):
        assert text in row
    assert f"| {'yes' if kind.is_seeded() else 'no'} |" in row


def test_the_citation_is_derived_from_the_bibliography() -> None:
    assert get("hard").citation == "Bolukbasi et al. 2016; Manzini et al. 2019"
    assert get("hsr").citation == get("hsr")().citation == "Yang & Feng 2020"
    assert "author = {Ravfogel, Shauli" in get("inlp").bibtex()


def test_parameters_of_a_base_class_are_included() -> None:
    names = [parameter.name for parameter in get("inlp").parameters()]
    assert names[:3] == ["labels", "per_class", "neutral"]
    assert names[-2:] == ["variant", "site"]
    by_name = {parameter.name: parameter for parameter in get("rlace").parameters()}
    assert by_name["neutral"].default == 0
    assert "published experiment" in by_name["neutral"].doc  # the subclass's own text
    assert by_name["rank"].type == "an integer or none"
    assert by_name["labels"].type == "biased or groups or names"


@pytest.mark.parametrize(
    ("id", "name", "text", "value"),
    [
        ("inlp", "iterations", "12", 12),
        ("inlp", "per_class", "7_500", 7500),
        ("inlp", "margin", "none", None),
        ("inlp", "margin", "0.05", 0.05),
        ("inlp", "C", "1e-2", 0.01),
        ("inlp", "variant", "released", "released"),
        ("inlp", "direction", "pairs", "pairs"),
        ("leace", "orth", "yes", True),
        ("leace", "orth", "False", False),
        ("linear", "k", "None", None),
        ("linear", "centre", "true", True),
        ("linear", "words", "every-word", EveryWord()),
        ("linear", "words", "except-specific", ExceptSpecific()),
        ("linear", "words", "except-listed:king,queen", ExceptListed(("king", "queen"))),
        ("linear", "words", "except-listed:gn-glove-male", ExceptListed("gn-glove-male")),
        ("misp", "weights", "explained", "explained"),
        ("misp", "weights", "1", 1.0),
        ("misp", "weights", "0.1, 0.2,0.3,0.4", (0.1, 0.2, 0.3, 0.4)),
        ("hsr", "siblings", "groups", "groups"),
        ("hsr", "siblings", "she,her", ("she", "her")),
        ("double-hard", "anchor", "she,he", ("she", "he")),
        ("gp", "pairs", "she:he, woman:man", (("she", "he"), ("woman", "man"))),
        ("gp", "stereotypes", "nurse", ("nurse",)),
        ("ran", "weights", "0.1,0.8,0.1", (0.1, 0.8, 0.1)),
    ],
)
def test_text_is_parsed_by_the_type_of_the_field(id: str, name: str, text: str, value: object) -> None:
    changed = get(id).with_params({name: text})
    assert getattr(changed, name) == value
    assert type(getattr(changed, name)) is type(value)


def test_values_that_are_not_text_are_taken_as_they_are() -> None:
    method = get("inlp").with_params({"iterations": 4, "margin": "0.1"})
    assert method == get("inlp")(iterations=4, margin=0.1)
    assert get("linear").with_params({}) == get("linear")()


@pytest.mark.parametrize(
    ("id", "name", "text", "message"),
    [
        ("inlp", "iterations", "many", "inlp: iterations takes an integer, got 'many'"),
        ("inlp", "iterations", "2.5", "inlp: iterations takes an integer, got '2.5'"),
        ("inlp", "margin", "wide", "inlp: margin takes a number or none, got 'wide'"),
        ("inlp", "weighting", "all", "inlp: weighting takes none or information, got 'all'"),
        ("leace", "orth", "maybe", "leace: orth takes true or false, got 'maybe'"),
        ("misp", "weights", "a,b", "misp: weights takes explained or a number or numbers 1,2,3, got 'a'"),
        ("gp", "pairs", "she,he", "gp: pairs takes pairs a:b,c:d or none, got 'she'"),
        ("linear", "words", "all", "linear: words is not a rule for words: 'all'"),
        ("linear", "words", "except-listed", "except-listed needs words"),
    ],
)
def test_text_of_the_wrong_type_is_an_error_that_names_the_value(id: str, name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        get(id).with_params({name: text})
    assert message in caught.value.message


def test_an_unknown_parameter_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match=r"no parameter of inlp 'iteration'[\s\S]*did you mean: iterations"):
        get("inlp").with_params({"iteration": "3"})
