"""Words and names with control characters reach neither the renderer nor the page."""

import subprocess
import sys
from pathlib import Path
from xml.dom import minidom

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import UNSAFE
from evenhand.report.charts.style import chart, png, svg
from evenhand.report.html import page
from evenhand.report.tables import html_table

# A control character makes the renderer abort, which no test survives: those run in a process of their own.
DRAW = """
import sys
from evenhand.report.charts.style import chart, png, svg
text = sys.argv[1].encode().decode("unicode_escape")
spec = chart(
    "a" + text, data={"values": [{"word": "b" + text, "value": 1}]}, mark="bar",
    encoding={"y": {"field": "word", "type": "nominal", "title": text}, "x": {"field": "value", "type": "quantitative"}},
)
assert svg(spec).startswith("<svg")
assert png(spec).startswith(b"\\x89PNG")
"""


@pytest.mark.parametrize(
    "text", [r"\x00\x01\x1b[31m", r"\ufffe\uffff", r"\ud800", r"\\b\\x00\\u0007", r"\n\t\r\u2028", r"\\\'\"<b>&\u202e"]
)
def test_a_chart_of_hostile_words_does_not_end_the_process(text: str) -> None:
    result = subprocess.run([sys.executable, "-c", DRAW, text], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-500:]


def test_a_chart_shows_what_a_word_contains() -> None:
    spec = chart(
        "words",
        data={"values": [{"word": "nurse\x1b", "value": 1}]},
        mark="bar",
        encoding={"y": {"field": "word", "type": "nominal"}},
    )
    drawn = svg(spec)
    minidom.parseString(drawn)
    assert "nurse∖x1b" in drawn
    assert png(spec)


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> eh.Audit:
    glove = eh.Vectors.default()
    words = [word for pair in eh.concept("gender").pairs for word in pair] + ["nurse", "doctor", "teacher", "engineer"]
    hostile = ["nur\x1b[31mse", "doc\u202etor", "tea\x07cher"]
    matrix = np.vstack([glove[word] for word in (*words, "she", "he", "woman")])
    vectors = eh.Vectors([*words, *hostile], matrix, name="a\x1b]0;name\x07\u202e")
    asked = tmp_path_factory.mktemp("words") / "asked.toml"
    listed = ", ".join(
        f'"{word}"'.encode("unicode_escape").decode().replace("\\x", "\\u00") for word in words + hostile
    )
    asked.write_text(f"[wordset.mine]\nwords = [{listed}]\n")
    return eh.Audit.run(vectors, methods=[], measures=["direct-bias"], queries=[str(asked)])


def test_the_page_of_hostile_names_is_clean(audit: eh.Audit, tmp_path: Path) -> None:
    text = page(audit)
    assert "doc\\u202etor" in text
    assert "a\\x1b]0;name\\x07\\u202e" in text
    assert not UNSAFE.search(text)
    assert not UNSAFE.search(html_table(audit))
    assert audit.to_html(tmp_path / "report.html").read_text(encoding="utf-8") == text


def test_the_page_about_a_pair_shows_tokens_and_names_as_text() -> None:
    """Tokens come from the tokenizer of a model, and the label from its configuration."""
    from evenhand.models.attribution.pairs import PairAttribution, TokenUnit
    from evenhand.report.attribution import attribution_page

    evil = "</script><script>alert(1)</script><b onload=x>\x1b[31m\u202e{{ 7*7 }}"
    numbers = np.array([[0.1, 0.2], [0.3, 0.4]])
    result = PairAttribution(
        f"model{evil}", "labels", evil, (f"she{evil}", f"he{evil}"), (0.9, 0.2), (evil, f"layer:1{evil}"),
        (TokenUnit(f"a{evil}", f"b{evil}", changed=True), TokenUnit(f"c{evil}", f"c{evil}", changed=False)),
        numbers, (numbers[0], numbers[1]), numbers[:, 0], numbers[:, 1], 0.0,
    )  # fmt: skip
    shown = attribution_page(result)
    assert "<script>alert" not in shown
    assert "<b onload" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "{{ 7*7 }}" in shown
