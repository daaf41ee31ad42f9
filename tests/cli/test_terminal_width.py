"""Listings and wide tables fit a terminal of 80 columns, and words stay whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evenhand.cli import app
from evenhand.cli.terminal import fitting_columns, show_table

LISTS = ("measures", "methods", "probes", "models", "concepts", "queries", "wordsets", "pairs", "tables", "templates")


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("fetch", "--list"),
        ("reproduce",),
        ("reproduce", "dev2019", "--recorded"),
        ("reproduce", "ethayarajh2019", "--table", "1"),
        ("reproduce", "dev2019/table-15"),
        *(("list", kind) for kind in (*LISTS, "data", "formats")),
    ],
    ids=" ".join,
)
def test_no_line_is_wider_than_the_terminal(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert [line for line in output(*arguments).splitlines() if len(line) > 80] == []


def test_no_cell_of_a_reproduced_table_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from evenhand import reproduce
    from evenhand.reproduce.markdown import number_rows

    monkeypatch.setenv("COLUMNS", "80")
    shown = output("reproduce", "dev2019/table-15").split()
    found = reproduce.beside("dev2019/table-15")
    for series in found.series:
        for row in number_rows(found, series.name):
            assert {word for cell in row for word in cell.split()} <= set(shown)


def test_words_of_a_title_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from evenhand import data

    monkeypatch.setenv("COLUMNS", "80")
    shown = set(output("fetch", "--list").split())
    for entry in data.catalog().values():
        assert set(entry.title.split()) <= shown


def test_a_wide_table_is_continued_below(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    columns = ["method", *(f"measure-{n}" for n in range(6))]
    show_table("Methods", columns, [["linear", *(f"{n}.00" for n in range(6))], ["none", *("1.00" for _ in range(6))]])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert [line.strip() for line in lines if "Methods" in line] == ["Methods", "Methods (continued)"]
    assert [line.split()[1:] for line in lines if line.startswith("linear")] == [
        ["0.00", "1.00", "2.00"],
        ["3.00", "4.00", "5.00"],
    ]
    assert re.findall(r"measure-\d", "\n".join(lines)) == columns[1:]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(10, 100))
def test_every_column_is_in_one_part_and_parts_fit(widths: list[int], available: int) -> None:
    parts = fitting_columns(widths, available)
    assert [i for part in parts for i in part[1:]] == list(range(1, len(widths)))
    for part in parts:
        assert part[0] == 0
        assert len(part) <= 2 or sum(widths[i] for i in part) + 2 * (len(part) - 1) <= available
