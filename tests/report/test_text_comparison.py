"""The page about two texts, and its scatter."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from evenhand.cli import app
from evenhand.corpus import Texts
from evenhand.corpus.comparison import compare
from evenhand.measures.text.corpus_bias import comparison_measurements
from evenhand.report import charts
from evenhand.report.text_comparison import bias_scatter, comparison_page, text_findings

GROUPS = {"female": ["she"], "male": ["he"]}


def text(seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"{rng.choice(['she', 'he'])} met w{rng.integers(15)} and <b>{rng.integers(3)}" for _ in range(800)]


@pytest.fixture(scope="module")
def comparison():
    return compare(Texts(text(1)), Texts(text(2)), GROUPS, tokenizer="whitespace", window=4, permutations=2)


def test_the_scatter_has_every_word_and_the_fitted_line(comparison) -> None:
    spec = bias_scatter(comparison, ("one", "other"))
    dots, lines = spec["layer"]
    assert {p["word"] for p in dots["data"]["values"]} == set(comparison.first.scores) & set(comparison.second.scores)
    fitted = [p for p in lines["data"]["values"] if "beta" in p["line"]]
    slope = (fitted[1]["y"] - fitted[0]["y"]) / (fitted[1]["x"] - fitted[0]["x"])
    assert slope == pytest.approx(comparison.beta.trimmed)
    assert "<svg" in charts.svg(spec)
    json.dumps(spec)


def test_the_record_keeps_the_points_of_the_regression(comparison) -> None:
    *_, beta = comparison_measurements(comparison, model="text", seed=0)
    assert {item["word"] for item in beta.items} == {point["word"] for point in comparison.points()}
    assert beta.details["intercept"] == comparison.beta.intercept
    first = beta.items[0]
    assert first["first"] == pytest.approx(comparison.first.scores[first["word"]], abs=1e-4)
    assert first["value"] == pytest.approx(comparison.second.scores[first["word"]], abs=1e-4)


def test_the_findings_are_decided_by_the_corrected_tests(comparison) -> None:
    found = text_findings({"fixed": comparison}, ("one", "other"))
    assert len(found) == 2
    assert comparison.text("mu") in found[0]
    surely = replace(comparison, errors={"mu": 1e-9, "first_mu": 1e-9, "beta": 1e-9})
    word = "less" if comparison.value("mu") < comparison.value("first_mu") else "more"
    assert text_findings({"fixed": surely}, ("one", "other"))[0].startswith(f"other is {word} biased than one")
    unsure = replace(comparison, errors={"mu": 1e3, "first_mu": 1e3, "beta": 1e3})
    texts = text_findings({"fixed": unsure}, ("one", "other"))
    assert texts[0].startswith("The texts do not differ significantly in mean bias")
    assert texts[1].startswith("No sure relation")
    short = replace(comparison, second=replace(comparison.second, hits={"female": 1, "male": 1}))
    assert text_findings({"fixed": short}, ("one", "other"))[0].startswith("Compare means with care")
    unknown = replace(comparison, errors={"mu": None, "first_mu": None, "beta": None})
    assert text_findings({"fixed": unknown}, ("one", "other"))[0].startswith("Not tested")


def test_the_page_has_numbers_intervals_and_words_and_escapes_them(comparison) -> None:
    page = comparison_page({"fixed": comparison}, names=("<training>", "generated"))
    assert "Fixed context (window of 4 words)" in page
    assert f"{comparison.value('mu'):.3f} [" in page
    assert "&lt;training&gt;" in page
    assert "&lt;b&gt;0" in page
    assert "<b>0" not in page
    assert "with shuffled labels" in page
    counts = f"<td>{comparison.first.hits['female']:,}</td><td>{comparison.second.hits['female']:,}</td>"
    assert f">female words</th>{counts}" in page
    assert page.count("<svg") == 1


def test_corpus_compare_writes_the_page(tmp_path) -> None:
    for name, seed in (("a.txt", 1), ("b.txt", 2)):
        (tmp_path / name).write_text("\n".join(text(seed)))
    options = ["--groups", "female=she", "--groups", "male=he", "--decay", "0.9", "--html", str(tmp_path / "page.html")]
    arguments = ["compare", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "--documents", "line", *options]
    result = CliRunner().invoke(app, ["corpus", *arguments])
    assert result.exit_code == 0, result.output + str(result.exception)
    assert "page.html" in result.stderr
    page = (tmp_path / "page.html").read_text()
    assert "Infinite context (decay 0.9)" in page
    assert "Bias of b.txt beside a.txt" in page
