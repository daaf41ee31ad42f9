from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from evenhand import registry
from evenhand.errors import EvenhandWarning, UnknownNameError, UsageError
from evenhand.mitigations import LinearProjection, Mitigation, Span, get, ids, listing
from evenhand.mitigations.maps import RowNormalise, VectorMap
from evenhand.mitigations.registry import MITIGATIONS


class Nothing(Mitigation):
    """A method of another package."""

    id, title, citation, limits = "nothing", "Nothing", "nobody", "everything"

    def _fit(self, v: object, concept: object) -> VectorMap:
        return RowNormalise()


def add(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    points = EntryPoints(EntryPoint(name, value, "evenhand.mitigations") for name, value in values.items())
    monkeypatch.setattr(MITIGATIONS, "_objects", {id: get(id) for id in ids()})
    monkeypatch.setattr(registry, "entry_points", lambda group: points.select(group=group))


def test_methods_by_id() -> None:
    assert get("linear") is LinearProjection
    assert get("span") is Span


def test_every_line_is_filled_and_true_to_its_id() -> None:
    lines = listing()
    assert [line.id for line in lines] == sorted(line.id for line in lines)
    for line in lines:
        assert get(line.id).id == line.id
        assert line.title
        assert line.citation
        assert line.limits


def test_an_unknown_id_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"no mitigation 'liner'[\s\S]*linear"):
        get("liner")


def test_another_package_can_add_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, nothing=f"{__name__}:Nothing")
    assert get("nothing").title == "Nothing"
    assert "nothing" in [line.id for line in listing()]


def test_it_cannot_replace_a_method_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, linear=f"{__name__}:Nothing")
    assert get("linear") is LinearProjection


@pytest.mark.parametrize(("value", "message"), [("no.such:thing", "could not be loaded"), ("os:getcwd", "not a Miti")])
def test_a_broken_addition_is_named_and_does_not_break_the_list(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    add(monkeypatch, broken=value)
    with pytest.raises(UsageError, match=message):
        get("broken")
    with pytest.warns(EvenhandWarning, match=message):
        assert [line.id for line in listing()] == sorted(set(ids()) - {"broken"})
