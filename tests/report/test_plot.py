"""Figures by chart, measure or row, and how a notebook shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

import evenhand as eh
from evenhand.errors import EvenhandError, UsageError
from evenhand.measures import Measurement
from evenhand.models.vectors import Coverage
from evenhand.report.plot import MOST_ITEMS


@pytest.fixture(scope="module")
def audit(glove: eh.Vectors) -> eh.Audit:
    return eh.Audit.run(glove, methods=["linear"], measures=["weat", "rnsb"], queries=["weat-6", "weat-7"])


def test_a_measure_is_drawn_by_its_chart_or_by_its_values(audit: eh.Audit) -> None:
    assert audit.plot("weat").id == audit.plot("effect-sizes").id == "effect-sizes"
    values = audit.plot("rnsb")
    assert values.id == "rnsb"
    assert {row[0] for row in values.table} == {"rnsb:weat-6", "rnsb:weat-7"}
    row = audit.plot("weat-6")
    assert [cells[0] for cells in row.table] == ["weat-6"]
    assert row.columns == ("test", "original", "linear")
    assert audit.plot().title


def test_what_cannot_be_drawn_is_said(audit: eh.Audit) -> None:
    with pytest.raises(UsageError, match="no row of mac"):
        audit.plot("mac")
    with pytest.raises(UsageError, match="no row 'nothing'"):
        audit.plot("nothing")
    with pytest.raises(EvenhandError, match="subject"):
        audit.plot("weat", subject="another")


def test_a_notebook_shows_picture_and_table(audit: eh.Audit, tmp_path: Path) -> None:
    figure = audit.plot("weat-6")
    bundle = figure._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert "<svg" in bundle["text/html"]
    assert "<td>weat-6</td>" in bundle["text/html"]
    assert "weat-6" in bundle["text/plain"]
    for name in ("a.svg", "a.png", "a.json"):
        assert figure.save(tmp_path / name).stat().st_size > 500


def test_a_measurement_draws_its_items(glove: eh.Vectors) -> None:
    measured = eh.measures.weat(glove, "weat-6")
    figure = measured.plot()
    assert figure.title.startswith("weat-6: ")
    values = [float(row[1]) for row in figure.table]
    assert values == sorted(values, reverse=True)
    assert len(values) == min(len(measured.items), MOST_ITEMS)
    assert "<svg" in figure._repr_mimebundle_()["text/html"]


def test_a_measurement_without_items_draws_its_interval() -> None:
    measured = Measurement("weat", 0.5, 8, Coverage(()), interval=(0.1, 0.9), query="weat-6")
    assert measured.plot().table == (("weat-6", "0.500 [0.100, 0.900]"),)
    with pytest.raises(UsageError, match="no value to draw: too few"):
        Measurement("weat", None, 0, Coverage(()), status="undefined", reason="too few").plot()


def test_hostile_names_are_escaped() -> None:
    words = ("<script>1</script>\u202e", 'it\'s "so"', 'it\'s "so"')
    items = tuple({"word": word, "value": float(n)} for n, word in enumerate(words))
    measured = Measurement("weat", 0.5, 3, Coverage(()), query="<b>", items=items)
    page = measured.plot()._repr_mimebundle_()["text/html"]
    assert "<script" not in page
    assert "\u202e" not in page


def test_scalars_have_values_intervals_and_stages(audit: eh.Audit) -> None:
    values = audit.scalars()
    found = audit.get("weat-6", "linear")
    assert values["weat-6"] == audit.get("weat-6").value
    assert values["weat-6@linear"] == found.value
    assert (values["weat-6@linear.low"], values["weat-6@linear.high"]) == found.interval
    assert audit.scalars(audit.subjects[0]) == values
    with pytest.raises(EvenhandError, match="subject"):
        audit.scalars("another")
