"""The page is whole, needs nothing from outside, and shows what the record says."""

import re
from html import escape
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise
from pathlib import Path

import pytest

import evenhand as eh
from evenhand.audit.record import rows
from evenhand.measures import numbers
from evenhand.report import charts
from evenhand.report.charts.scores import effect_forest
from evenhand.report.findings import findings, headline
from evenhand.report.html import anchor, page
from evenhand.report.scorecard import score_card
from evenhand.report.tables import by_family


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
    assert tags.open.count("script") == 1  # ours, inline
    assert "@import" not in page(audit)
    assert not re.findall(r"url\((?!#)", page(audit))


def test_every_number_of_the_record_is_shown(tags: Tags, audit: eh.Audit) -> None:
    text = " ".join(tags.text)
    for result in audit.results:
        shown = numbers.number(result.measurement.value) if result.measurement.value is not None else "undefined"
        assert shown in text


def test_the_findings_come_first_and_link_to_their_rows(tags: Tags, audit: eh.Audit) -> None:
    text = page(audit)
    first = text.index('id="findings"')
    assert first < text.index("Score card") < text.index("All numbers") < text.index("How to read each measure")
    for finding in findings(audit):
        assert escape(finding.text) in text
        if finding.label:
            assert text.count(f'id="{anchor(finding.label, 0)}"') == 1
            assert f'href="#{anchor(finding.label, 0)}"' in text


def test_ids_are_unique_and_links_lead_somewhere(audit: eh.Audit) -> None:
    text = page(audit)
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)


def test_headings_do_not_skip_a_level_and_inputs_have_labels(audit: eh.Audit) -> None:
    text = page(audit)
    levels = [int(level) for level in re.findall(r"<h([1-6])", text)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert text.count("<input") == len(re.findall(r"<label>[^<]*<input", text))
    assert '<html lang="en">' in text
    assert len(text) < 3_000_000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_enough_contrast(theme: str) -> None:
    """At least 4.5 to 1, which WCAG asks of text, for every pair of ink and ground."""
    style = (resources.files("evenhand.report") / "static" / "report.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{([^}]*)\}", style)
    colour = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[0 if theme == "light" else 1]))

    def luminance(code: str) -> float:
        parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    grounds = {"ink": ("paper", "shade"), "soft": ("paper", "shade"), "accent": ("paper",), "warn": ("paper",)}
    grounds |= {"good-ink": ("good-back",), "bad-ink": ("bad-back",)}
    for ink, backs in grounds.items():
        for back in backs:
            bright, dim = sorted((luminance(colour[ink]), luminance(colour[back])), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (ink, back)


def test_undefined_reasons_are_notes_shown_once(glove: eh.Vectors) -> None:
    text = page(eh.Audit.run(glove, methods=["linear"], measures=["sembias", "occupation-share"]))
    assert text.count("both sides have the same vectors") <= 3  # the finding, the note, the record
    assert "note 1" in text


def test_every_reason_can_be_unfolded(glove: eh.Vectors) -> None:
    audit = eh.Audit.run(glove, methods=["linear", "span"], measures=["sembias", "ripa", "occupation-share"])
    reasons = {cell.reason.rstrip(".") for row in rows(audit) for cell in row.cells.values() if cell.reason}
    assert len(reasons) > 1
    folded = re.findall(r"<details><summary>Every reason</summary><ul.*?</ul></details>", page(audit), re.DOTALL)
    assert len(folded) == 1
    for reason in reasons:
        assert escape(reason) in folded[0]


def test_a_headline_stands_on_top(audit: eh.Audit) -> None:
    text = page(audit)
    assert (
        text.index("<h1>") < text.index(f'<p class="headline">{escape(headline(audit))}') < text.index('id="findings"')
    )
    assert audit.to_dict()["headline"] == headline(audit)


def test_several_subjects_are_compared_on_top(glove: eh.Vectors) -> None:
    other = eh.Vectors(glove.words, glove.matrix[::-1].copy(), name="shuffled")
    text = page(eh.Audit.run([glove, other], methods=[], measures=["weat"]))
    assert text.index("Side by side") < text.index('id="findings"')
    assert "mean rank" in text


def test_the_score_card_has_a_state_for_every_cell(audit: eh.Audit) -> None:
    card = score_card(audit)
    assert [line.row.label for line in card] == list(audit.labels)
    for line in card:
        assert list(line.cells) == list(audit.stage_names)
    states = {line.row.label: line.cells["original"].state for line in card}
    assert states["weat-6"] == "bias"
    assert states["weat-1"] == "value"  # a control says nothing about gender


def test_the_page_says_what_it_does_not_cover(tags: Tags) -> None:
    text = " ".join(" ".join(tags.text).split())
    assert "What these numbers cover" in text
    assert "not free of bias" in text
    assert "What it does not tell you" in text


def test_charts_have_alternative_text_and_a_table(tags: Tags, audit: eh.Audit) -> None:
    text = page(audit)
    figures = re.findall(r"<figure.*?</figure>", text, re.DOTALL)
    assert len(figures) == tags.open.count("svg") == tags.open.count("figure") > 3
    for figure in figures:
        assert re.search(r'role="img" aria-label="[^"]{20,}"', figure)
        assert re.search(r"<figcaption>[^<]{40,}", figure)
        assert figure.count("<table") == 1


def test_a_page_works_for_keyboard_and_screen_reader(tags: Tags, audit: eh.Audit) -> None:
    text = page(audit)
    assert text.index('class="skip"') < text.index("<header>")
    assert text.count("<h1") == text.count("<main>") == text.count("<title>") == 1
    assert "tabindex" not in text  # the order of the page is the order of the keys
    heads = re.findall(r"<th(?: [^>]*)?>", text)
    assert heads
    assert all("scope=" in head for head in heads)
    assert 'name="viewport"' in text
    assert "maximum-scale" not in text
    assert not re.findall(r"<(a|button|summary)(?: [^>]*)?>\s*</\1>", text)  # nothing to press without a text


def test_colour_is_never_the_only_sign(audit: eh.Audit) -> None:
    cells = re.findall(r'<td class="(?:bias|better|worse|reversed)"[^>]*>(.*?)</td>', page(audit))
    assert cells
    for cell in cells:
        assert re.search(r'<span aria-hidden="true">\S</span>', cell)
        assert 'class="reader"' in cell


def test_names_are_escaped(tmp_path: Path) -> None:
    named = eh.Vectors(["she", "he"], [[1.0, 0.0], [0.0, 1.0]], name="<script>alert(1)</script>")
    text = page(eh.Audit.run(named, methods=[], measures=["weat"]))
    assert text.count("<script>") == 1
    assert "<script>alert(1)" not in text


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
