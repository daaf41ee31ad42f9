"""Markdown, model cards and JSON of an audit."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli import app
from evenhand.report.findings import findings
from evenhand.report.formats import FORMATS
from evenhand.report.markdown import markdown, model_card, plain, table


@pytest.fixture(scope="module")
def audit(glove: eh.Vectors) -> eh.Audit:
    return eh.Audit.run(glove, methods=["linear"], measures=["weat", "sembias"])


def test_markdown_has_every_finding_and_number(audit: eh.Audit) -> None:
    text = markdown(audit)
    for finding in findings(audit):
        assert f"- {plain(finding.text)}" in text
    for label in audit.labels:
        assert f"| {label} |" in text
    assert text.index("## Findings") < text.index("## Score card") < text.index("## Association")


def test_every_line_of_a_table_has_the_same_columns() -> None:
    for line in table(["a", "b"], [["x|y", "1"], ["<b>", "2"]]):
        assert line.replace("\\|", "").count("|") == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a|b", "a\\|b"), ("<script>", "&lt;script&gt;"), ("two  blanks", "two blanks"), ("*_[`#", "\\*\\_\\[\\`\\#")],
)
def test_words_are_not_markup(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_the_head_of_a_model_card_is_an_index_that_yaml_reads(audit: eh.Audit) -> None:
    yaml = pytest.importorskip("yaml")
    _, head, body = model_card(audit).split("---\n", 2)
    (entry,) = yaml.safe_load(head)["model-index"]
    assert entry["name"] == "glove-embedded"
    values = {result["metrics"][0]["type"]: result["metrics"][0]["value"] for result in entry["results"]}
    assert values["weat-6"] == audit.get("weat-6").value
    assert {result["task"]["type"] for result in entry["results"]} == {"feature-extraction"}
    assert "## Bias, risks and limitations" in body
    assert plain(findings(audit)[0].text) in body


@pytest.mark.parametrize("format", FORMATS)
def test_the_command_writes_every_format(audit: eh.Audit, tmp_path: Path, format: str) -> None:
    audit.save(tmp_path)
    result = CliRunner().invoke(app, ["report", str(tmp_path), "--format", format])
    assert result.exit_code == 0
    assert (tmp_path / FORMATS[format].file).stat().st_size > 1000


def test_an_unknown_format_is_refused_with_the_known_ones(audit: eh.Audit, tmp_path: Path) -> None:
    audit.save(tmp_path)
    result = CliRunner().invoke(app, ["report", str(tmp_path), "--format", "markdwn"])
    assert result.exit_code == 2
    assert "did you mean: markdown" in result.output


def test_show_prints_a_saved_run(audit: eh.Audit, tmp_path: Path) -> None:
    audit.save(tmp_path)
    shown = CliRunner().invoke(app, ["show", str(tmp_path)])
    assert shown.exit_code == 0
    assert "What was found" in shown.stdout
    record = json.loads(CliRunner().invoke(app, ["show", str(tmp_path), "--json"]).stdout)
    assert record["findings"][0]["text"] == findings(audit)[0].text


def test_show_prints_every_number_on_demand(audit: eh.Audit, tmp_path: Path) -> None:
    audit.save(tmp_path)
    brief, full = (CliRunner().invoke(app, ["show", str(tmp_path), *more]).stdout for more in ([], ["--tables"]))
    assert "words found of words asked" not in brief
    for label in audit.labels:
        assert label in full
    assert len(full.splitlines()) > len(brief.splitlines())
    refused = CliRunner().invoke(app, ["show", "weat", "--tables"])
    assert refused.exit_code == 2
    assert "--tables is for the folder of a run" in refused.output


def test_terminal_output_fits_80_columns(audit: eh.Audit, tmp_path: Path) -> None:
    audit.save(tmp_path)
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["show", str(tmp_path)])
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "…" not in shown.stdout
