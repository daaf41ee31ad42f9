"""`evenhand reproduce`: the list, papers, single tables, formats, and what can go wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from evenhand.cli import app

NUMBER = {
    "row", "column", "series", "published", "value", "sd", "models", "interval", "difference", "agrees",
}  # fmt: skip
TABLE = {
    "id", "paper", "shows", "source", "place", "claim", "how", "tolerance", "note", "reason", "holds", "holds_by_series", "counts",
    "numbers", "without_ours", "missing", "series",
}  # fmt: skip


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)], env={"COLUMNS": "100", "NO_COLOR": "1"})


def ok(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_list_has_every_table_and_whether_its_claim_holds() -> None:
    rows = ok()
    assert len([row for row in rows if not row["id"].endswith("section-4")]) == 35
    assert all(set(row) == {"id", "shows", "how", "claim", "holds"} for row in rows)
    assert {row["holds"] for row in rows} <= {"yes", "no", "unclear", "partly", None}
    shown = run()
    assert "dev2019/table-17" in shown.stdout
    assert "35 tables and figures of 4 papers" in shown.stderr


def test_the_list_is_quick() -> None:
    started = time.process_time()
    ok()
    assert time.process_time() - started < 0.5


def test_a_recorded_table_stands_beside_the_paper() -> None:
    (table,) = ok("dev2019/table-13")
    assert set(table) == TABLE
    assert all(set(number) == NUMBER for number in table["numbers"])
    first = table["numbers"][0]
    assert (first["row"], first["column"], first["published"], first["models"]) == ("original", "NN", 0.417, 5)
    assert first["difference"] == pytest.approx(first["value"] - 0.417)
    (series,) = table["series"]
    assert series["recorded"]
    assert {"file", "date", "seeds", "sha256", "command"} <= set(series["manifest"])
    shown = run("dev2019/table-13")
    assert "holds: unclear" in shown.stdout
    assert "scripts/elmo_bilm.py" in shown.stdout.replace("\n", " ") or "elmo_bilm.py" in shown.stdout
    assert "single runs" in shown.stdout


def test_a_paper_is_summed_up_in_a_line_for_each_table() -> None:
    shown = run("dev2019", "--recorded")
    assert shown.exit_code == 0
    assert all(f"table-{number}" in shown.stdout for number in range(1, 18))
    assert "Dev, Li, Phillips and Srikumar (2020)" in shown.stdout
    assert {table["id"] for table in ok("bordia2019", "--recorded")} == {
        *(f"bordia2019/table-{number}" for number in range(1, 9)), "bordia2019/figure-1",
    }  # fmt: skip


def test_a_table_is_named_by_number_too() -> None:
    (by_id,) = ok("dawkins2021/table-5")
    (by_number,) = ok("dawkins2021", "--table", "5")
    assert by_id == by_number
    assert by_id["counts"] == {"yes": 28, "unclear": 0, "no": 0}
    assert ok("ethayarajh2019", "--table", "contrived")[0]["series"][0]["table"]["rows"]


def test_models_answer_the_tables_about_inference() -> None:
    (table,) = ok("dev2019/table-1", "--model", "embedded", "--sample", "500")
    given = [number for number in table["numbers"] if number["series"] == "the given models"]
    assert [(number["row"], number["column"]) for number in given] == [
        ("GloVe", column) for column in ("NN", "FN", "T:0.5", "T:0.7")
    ]
    models = ("--model", "embedded", "--model", "projected=embedded:projected")
    (table,) = ok("dev2019/table-8", *models, "--sample", "500")
    given = {n["row"]: n for n in table["numbers"] if n["series"] == "the given models" and n["column"] == "NN"}
    assert set(given) == {"original", "projected", "projected - original"}
    change = given["projected"]["value"] - given["original"]["value"]
    assert given["projected - original"]["value"] == pytest.approx(change)


def test_a_model_of_one_table_leaves_the_others_as_they_are() -> None:
    found = ok("dev2019/table-3", "dev2019/table-8", "--model", "projected=embedded:projected", "--sample", "300")
    first = [{number["series"] for number in table["numbers"] if number["models"] == 3} for table in found]
    assert "the embedded models" in first[0]
    assert "the given models" in first[1]


def test_a_record_without_a_date_of_its_run_has_that_of_its_commit() -> None:
    shown = run("dev2019/table-15", "--format", "markdown").stdout
    assert "recorded 2026-11-16 (of the commit); reproductions/encoders.json; evenhand 0.1.0 on NVIDIA H200" in shown
    shown = run("dev2019/table-13", "--format", "markdown").stdout
    assert "recorded 2026-11-17; reproductions/elmo.json; evenhand 0.2.1 on NVIDIA H200; seeds 0, 1, 2, 3, 4" in shown


def test_examples_are_asked_of_the_embedded_models() -> None:
    (table,) = ok("dev2019/table-4", "--sample", "500")
    values = {(n["row"], n["column"]): n["value"] for n in table["numbers"]}
    assert values["evil owns oven: Canadian", "entailment"] == pytest.approx(0.349, abs=0.001)
    assert table["holds"] == "no"


def test_directions_are_those_of_the_vectors() -> None:
    (table,) = ok("dev2019/table-7")
    values = {(n["row"], n["column"]): n["value"] for n in table["numbers"]}
    assert values["Gendered", "cosine"] == pytest.approx(0.80, abs=0.005)
    assert values["Demonyms", "2nd"] == pytest.approx(0.84, abs=0.005)


def test_markdown_and_html_have_the_same_numbers() -> None:
    page = run("dev2019/table-12", "--format", "markdown").stdout
    assert "| Gendered | cosine | 0.60 | 0.07 |" in page
    page = run("dev2019/table-12", "dev2019/table-16", "--format", "html").stdout
    assert page.startswith("<!doctype html>")
    assert "dev2019/table-12" in page
    assert page.count("<table>") == 3  # the summary, and one for each series


def test_what_has_no_numbers_says_why() -> None:
    (table,) = ok("bordia2019/figure-1")
    assert table["numbers"] == []
    assert "without numbers" in table["reason"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("dev2018",), 2, "did you mean: dev2019"),
        (("dev2019/table-31",), 2, "did you mean: dev2019/table-"),
        (("dev2019", "--table", "44"), 2, "no table or figure of dev2019"),
        (("dev2019/table-1", "--table", "1"), 2, "--table names a table of one paper"),
        (("dev2019/table-1", "--model", "no-such.safetensors"), 4, "no-such.safetensors"),
        (("dev2019/table-8", "--model", "projcted=embedded"), 2, "did you mean: projected"),
        (("dev2019/table-7", "--vectors", "no-such.vec"), 4, "no-such.vec"),
        (("dev2019/table-12", "--vectors", "no-such.vec"), 4, "no-such.vec"),
        (("dev2019/table-1", "--model", "NN=embedded"), 2, "there is no row 'NN'"),
        (("dev2019/table-2", "--model", "GloVe=embedded"), 2, "one model is asked for all rows"),
        (("bordia2019/table-5", "--model", "Boston=texts.txt"), 2, "there is no row 'Boston'"),
        (("dev2019/table-7", "--model", "embedded"), 2, "--model has no effect on dev2019/table-7"),
        (("dev2019/table-1", "--vectors", "some.vec"), 2, "--vectors has no effect on dev2019/table-1"),
        (("dawkins2021/table-5", "--corpus", "wikitext-2"), 2, "--corpus has no effect on dawkins2021/table-5"),
        (("dev2019/table-1", "--recorded", "--model", "embedded"), 2, "--recorded computes nothing"),
        (("dev2019/table-1", "--format", "pdf"), 2, "pdf"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], code: int, message: str) -> None:
    result = run(*arguments)
    assert message in result.output.replace("\n", " ")
    assert result.exit_code == code


def test_a_text_of_ones_own_is_scored(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    lines = "she is a nurse with talent\nhe is a manager at work\nthe woman has a nurse\nthe man has an idea of work\n"
    text.write_text(lines * 50 + "he met the nurse at work\nshe met the manager at work\n" * 20)
    (table,) = ok("bordia2019/table-2", "--corpus", text)
    ours = {
        n["column"]: n for n in table["numbers"] if n["series"].startswith("scores of") and n["row"] == "training text"
    }
    assert set(ours) == {"fixed μ", "fixed σ", "infinite μ", "infinite σ"}
    (table,) = ok("bordia2019/table-5", "--corpus", text)
    words = {n["row"] for n in table["numbers"]}
    assert {"manager", "work"} <= words
    generated = tmp_path / "generated.txt"
    generated.write_text("she is a nurse at work with he and the manager of the man\n" * 40)
    (table,) = ok("bordia2019/table-5", "--corpus", text, "--model", f"0.1={generated}")
    assert {n["column"] for n in table["numbers"]} == {"training", "0.1"}


def test_a_text_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.reproduce.bordia2019.locate", lambda name: None)
    (table,) = ok("bordia2019/table-5")
    assert all(series["recorded"] for series in table["series"])
    assert "evenhand fetch wikitext-2" in table["missing"][0]
