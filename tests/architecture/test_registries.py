"""Every measure and method is described, cited and findable: a new file is held to the same by being registered."""

import inspect
from pathlib import Path
from types import ModuleType

import pytest

import evenhand as eh
from evenhand import data, measures, mitigations, words
from evenhand.data.citations import bibtex, references
from evenhand.words import probes
from evenhand.words.scenarios.associations import association_ids
from evenhand.words.scenarios.scenario import scenario_ids


@pytest.mark.parametrize("name", measures.ids())
def test_measure_is_described(name: str) -> None:
    info = measures.info(name)
    assert info.id == name
    assert len(info.formula) > 10
    assert len(info.reading) > 20
    assert len(info.limits) > 40
    assert info.cites


@pytest.mark.parametrize("name", measures.ids())
def test_measure_cites_known_papers(name: str) -> None:
    for key in measures.info(name).cites:
        assert bibtex(key).startswith("@")


@pytest.mark.parametrize("name", measures.ids())
def test_measure_has_the_common_signature(name: str) -> None:
    parameters = inspect.signature(measures.get(name)).parameters
    assert next(iter(parameters)) == {"vectors": "vectors", "inference": "model"}.get(measures.info(name).view, "view")
    assert parameters["seed"].default == 0
    if measures.info(name).view == "vectors":
        assert parameters["reference"].default is None
    assert all(p.kind is p.KEYWORD_ONLY for p in list(parameters.values())[2:])


@pytest.mark.parametrize("name", measures.ids())
def test_every_parameter_of_a_measure_is_described(name: str) -> None:
    """A docstring with a list of arguments has them all; the linter cannot ask for it, because of `call`."""
    function = measures.get(name)
    text = function.__doc__ or ""
    if "    Args:\n" in text:
        assert [each for each in inspect.signature(function).parameters if f"        {each}: " not in text] == []


@pytest.mark.parametrize("name", measures.ids())
def test_default_queries_ship_with_the_package(name: str) -> None:
    known = {
        "vocabulary",
        "words",
        "neutral-text",
        "names",
        "rows",
        "resume-documents",
        *data.catalog(),
        *probes.ids(),
        *scenario_ids(),
        *association_ids(),
        *(entry.id for entry in words.listing()),
    }
    assert set(measures.info(name).queries) <= known


def test_function_names_reach_the_same_measures() -> None:
    for name in measures.ids():
        assert getattr(eh.measures, name.replace("-", "_")) is measures.get(name)


def test_unknown_measure_suggests_the_near_one() -> None:
    with pytest.raises(eh.EvenhandError, match="weat"):
        measures.get("waet")


@pytest.mark.parametrize("entry", mitigations.listing(), ids=lambda entry: entry.id)
def test_method_is_described(entry: mitigations.registry.MethodSummary) -> None:
    assert mitigations.get(entry.id).id == entry.id
    assert len(entry.title) > 4
    assert any(character.isdigit() for character in entry.citation)
    assert len(entry.limits) > 20


def test_references_have_title_author_and_year() -> None:
    for entry in references().values():
        assert all(f"{field} = " in entry for field in ("title", "author", "year"))


@pytest.mark.parametrize("package", [measures, mitigations])
def test_an_editor_knows_every_measure_and_method(package: ModuleType) -> None:
    """Names that are resolved on first use are imported for type checkers, so an editor completes them."""
    stub = Path(package.__file__).with_suffix(".pyi")
    text = (stub if stub.exists() else Path(package.__file__)).read_text(encoding="utf-8")
    guarded = text if stub.exists() else text.partition("if TYPE_CHECKING:")[2]
    if package is measures:
        names = [name.replace("-", "_") for name in measures.ids()]
    else:
        names = [mitigations.get(name).__name__ for name in mitigations.ids()]
    assert [name for name in names if f" {name}\n" not in guarded and f" {name}," not in guarded] == []


def test_names_of_a_stub_are_found_on_first_use() -> None:
    assert all(getattr(mitigations, name) is not None for name in mitigations.__all__)
    assert mitigations.maps.VectorMap is eh.VectorMap
    with pytest.raises(AttributeError, match="no attribute 'Leace'"):
        mitigations.Leace  # noqa: B018 (the access itself is tested)
