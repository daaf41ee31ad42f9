from __future__ import annotations

import json

import numpy as np
import pytest

from evenhand import measures, mitigations
from evenhand.errors import UsageError
from evenhand.models.vectors import Vectors
from evenhand.reproduce import beside, dawkins2021
from evenhand.reproduce.comparison import PaperTable
from evenhand.reproduce.dawkins2021 import (
    COLUMNS,
    HEADINGS,
    PUBLISHED,
    Column,
    correlations,
    intrinsic,
    published,
    table_5,
)
from evenhand.reproduce.inputs import PaperInputs
from evenhand.reproduce.published import item


def test_table_5_follows_from_table_6() -> None:
    table = table_5()
    assert len(table.rows) == 8 * 7 / 2
    for row in table.to_dict()["rows"]:
        assert row["pearson"] == pytest.approx(row["pearson (paper)"], abs=0.005), (row["first"], row["second"])


def test_the_correlation_with_the_error_is_read_with_its_caution() -> None:
    rows = {(row["first"], row["second"]): row for row in table_5().to_dict()["rows"]}
    midb = rows["MIDB", "E"]
    assert midb["spearman"] == pytest.approx(0.465, abs=0.001)
    assert midb["n"] == 16
    assert rows["DB", "E"]["n"] == 13  # the paper leaves three out
    assert midb["pearson least"] < midb["pearson"] < midb["pearson most"]
    assert rows["GIPE", "E"]["pearson low"] < 0 < rows["GIPE", "E"]["pearson high"]
    assert any("exploratory" in note for note in table_5().notes)


def test_the_published_tables_are_whole() -> None:
    assert len(PUBLISHED) == 16
    assert {len(row) for row in PUBLISHED.values()} == {len(HEADINGS)}
    assert item("dawkins2021/table-6").columns == HEADINGS
    assert len(item("dawkins2021/table-5").rows or {}) == 7 + 6 + 5 + 4 + 3 + 2 + 1
    assert [name for name, row in PUBLISHED.items() if None in row] == ["w2v.DHD", "GloVe.DHD", "GloVe.INLP"]
    json.dumps(table_5().to_dict())


def test_every_column_names_a_measure_that_takes_its_settings() -> None:
    from inspect import signature

    for column in COLUMNS.values():
        assert set(column.options) <= set(signature(measures.get(column.measure)).parameters)


def test_only_pairs_with_some_columns_and_undefined_cells_left_out() -> None:
    rng = np.random.default_rng(0)
    rows = [(f"e{i}", float(x), 1.0, None if i == 0 else float(2 * x)) for i, x in enumerate(rng.normal(size=6))]
    table = PaperTable("mine", ("embedding", "a", "flat", "E"), tuple(rows))
    got = {(row[0], row[1]): row for row in correlations(table, with_=["E"]).rows}
    assert set(got) == {("a", "E"), ("flat", "E")}
    assert got["a", "E"][2:4] == (5, pytest.approx(1))
    assert got["flat", "E"][3] is None
    assert got["a", "E"][-1] is None
    few = PaperTable("few", table.columns, table.rows[:4])
    assert {row[3] for row in correlations(few, with_=["E"]).rows} == {None}
    with pytest.raises(UsageError, match="no column 'F'"):
        correlations(table, with_=["F"])


def test_all_measures_over_a_set_of_embeddings(glove: Vectors) -> None:
    projected = mitigations.LinearProjection().fit(glove, "gender")(glove)
    chosen = {"DB": Column("direct-bias", "bolukbasi2016-professions", {"how": "pair"})}
    chosen |= {name: COLUMNS[name] for name in ("SBdef", "SBstereo")}
    asked: list[str] = []
    table = intrinsic(
        {"GloVe": glove, "GloVe.LP": projected},
        references={"GloVe.LP": glove},
        errors={"GloVe": 0.2},
        columns=chosen,
        progress=lambda _, total, name: asked.append(f"{name} of {total}"),
    )
    assert table.columns == ("embedding", "DB", "SBdef", "SBstereo", "E")
    assert asked == ["GloVe of 2", "GloVe.LP of 2"]
    name, direct, definition, stereotype, error = table.rows[0]
    assert (name, error) == ("GloVe", 0.2)
    sembias = measures.get("sembias")(glove, "sembias")
    assert (definition, stereotype) == (sembias.value, sembias.details["stereotype"])
    assert direct == measures.get("direct-bias")(glove, "bolukbasi2016-professions", how="pair").value
    # she and he have become one vector: undefined, with the reason, as the paper's NA.
    assert table.rows[1] == ("GloVe.LP", None, None, None, None)
    assert table.notes[0].startswith("GloVe.LP: direct-bias is undefined: she/he")


def test_a_measure_that_is_not_there_is_named(glove: Vectors) -> None:
    with pytest.raises(UsageError, match="measure 'phrenology' is not installed"):
        intrinsic({"GloVe": glove}, columns={"x": Column("phrenology", "heads")})


def test_published_is_the_table_as_printed() -> None:
    assert published().rows[5] == ("GloVe", 0.055, -0.032, 0.984, 1.0, 0.802, 0.109, 0.115, 0.198)


def test_ours_stand_beside_the_printed_row(glove: Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = dict.fromkeys(COLUMNS, Column("direct-bias", "bolukbasi2016-professions", {"how": "pair"}))
    monkeypatch.setattr(dawkins2021, "COLUMNS", quick)
    found = beside("dawkins2021/table-6", PaperInputs(vectors=(glove,)))
    numbers = {number.column: number for number in found.numbers if number.series == glove.name}
    assert (numbers["DB"].row, numbers["DB"].published) == ("GloVe", 0.055)
    value = measures.get("direct-bias")(glove, "bolukbasi2016-professions", how="pair").value
    assert {number.ours.value for number in numbers.values()} == {value}
    assert set(numbers) == set(COLUMNS)
