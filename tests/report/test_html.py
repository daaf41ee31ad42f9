"""The page is whole, needs nothing from outside, and shows what the record says."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import evenhand as eh
from evenhand.report import charts, numbers
from evenhand.report.charts.effect_sizes import effect_forest
from evenhand.report.html import page
from evenhand.report.tables import by_family, rows


class Tags(HTMLParser):
    """Counts tags and keeps the addresses that a browser would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "data")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def audit(glove: eh.Vectors) -> eh.Audit:
    return eh.Audit.run(glove, methods=["linear", "span"], measures=["weat", "direct-bias"])


@pytest.fixture(scope="module")
def tags(audit: eh.Audit) -> Tags:
    parser = Tags()
    parser.feed(page(audit))
    return parser


def test_nothing_is_loaded_from_outside(tags: Tags, audit: eh.Audit) -> None:
    assert not [address for address in tags.loaded if not address.startswith("#")]
    assert "script" not in tags.open
    assert "@import" not in page(audit)
    assert "url(" not in page(audit)


def test_every_number_of_the_record_is_shown(tags: Tags, audit: eh.Audit) -> None:
    text = " ".join(tags.text)
    for result in audit.results:
        shown = numbers.number(result.measurement.value) if result.measurement.value is not None else "undefined"
        assert shown in text


def test_the_page_says_what_it_does_not_cover(tags: Tags) -> None:
    text = " ".join(" ".join(tags.text).split())
    assert "What these numbers cover" in text
    assert "not free of bias" in text
    assert "What it does not tell you" in text


def test_charts_have_alternative_text_and_a_table(tags: Tags, audit: eh.Audit) -> None:
    assert page(audit).count('role="img"') == tags.open.count("figure")
    assert tags.open.count("svg") == tags.open.count("figure")
    assert tags.open.count("table") >= 3


def test_names_are_escaped(tmp_path: Path) -> None:
    named = eh.Vectors(["she", "he"], [[1.0, 0.0], [0.0, 1.0]], name="<script>alert(1)</script>")
    text = page(eh.Audit.run(named, methods=[], measures=["weat"]))
    assert "<script>" not in text


def test_writing_replaces_an_older_page(audit: eh.Audit, tmp_path: Path) -> None:
    target = tmp_path / "sub" / "report.html"
    assert audit.to_html(target) == target
    audit.to_html(target)
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_rows_come_under_their_families(audit: eh.Audit) -> None:
    grouped = by_family(audit)
    assert sum(len(group) for group in grouped.values()) == len(rows(audit))
    assert [row.question.measure for row in grouped["Geometry: what lies along the concept's direction"]] == [
        "direct-bias"
    ] * 2


def test_no_pink_and_no_blue() -> None:
    for colour in charts.colours([str(i) for i in range(8)]).values():
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        assert not (blue > 1.5 * red and blue > 1.5 * green)
        assert not (red > 200 and blue > 140 and green < 0.8 * blue)


def test_pictures_are_drawn_offline(audit: eh.Audit) -> None:
    spec = effect_forest([row for row in rows(audit) if row.question.measure == "weat"], "effect size")
    assert charts.png(spec).startswith(b"\x89PNG")
    assert re.match(r"<svg ", charts.svg(spec))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (1e-9, "0"),
        (0.0004, "4.0e-04"),
        (0.0123, "0.012"),
        (0.5, "0.500"),
        (1.7741, "1.77"),
        (-12.345, "-12.35"),
        (123.45, "123.5"),
        (12345.6, "12,346"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert numbers.number(value) == text
