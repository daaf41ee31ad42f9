"""The recorded results in the package are those of the results in `reproductions`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from evenhand.reproduce import beside
from evenhand.reproduce.comparison import recorded
from evenhand.reproduce.published import item, items

ROOT = Path(__file__).parents[2]
NEEDS_TRAINING = [id for id, one in items().items() if one.how == "recorded"]


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("reproduce_recorded")


def test_the_file_is_what_the_script_writes(script: ModuleType) -> None:
    assert script.TARGET.read_text(encoding="utf-8") == script.written(script.recorded()), (
        "run python scripts/reproduce_recorded.py"
    )


@pytest.mark.parametrize("id", NEEDS_TRAINING)
def test_a_table_that_needs_training_has_a_record(id: str) -> None:
    found = beside(id)
    assert found.series
    assert not found.uncovered
    assert found.verdict


@pytest.mark.parametrize("id", [id for id, one in items().items() if one.how == "computed" and not one.extra])
def test_what_is_computed_has_a_record_too(id: str) -> None:
    found = beside(id)
    assert found.numbers
    assert not item(id).expect or found.verdict


def test_records_say_where_they_come_from() -> None:
    for id in items():
        for series in recorded(id):
            assert (ROOT / str(series.manifest["file"])).is_file()
            assert series.manifest["command"]
            assert series.manifest["seeds"]
            assert {"evenhand", "device"} <= set(series.manifest)
            assert series.manifest["sha256"]
            assert re.match(r"\d{4}-\d\d-\d\dT", str(series.manifest["date"]))


def test_a_recorded_mean_is_that_of_the_runs() -> None:
    runs = json.loads((ROOT / "reproductions" / "nli.json").read_text())["runs"]
    values = [
        run["gender-occupation"]["net_neutral"]
        for run in runs
        if (run["architecture"], run["condition"]) == ("bilstm", "linear")
    ]
    (series,) = [one for one in recorded("dev2019/table-8") if one.name.startswith("BiLSTM")]
    ours = series.values["projected", "NN"]
    assert (ours.value, ours.n) == (pytest.approx(sum(values) / len(values), abs=1e-6), 5)
    before = {
        run["seed"]: run["gender-occupation"]["net_neutral"]
        for run in runs
        if (run["architecture"], run["condition"]) == ("bilstm", "original")
    }
    change = series.values["projected - original", "NN"]
    assert change.value == pytest.approx(ours.value - sum(before.values()) / 5, abs=1e-5)


def test_rows_and_columns_are_those_of_the_paper() -> None:
    for id in items():
        printed = item(id).published()
        for series in recorded(id):
            strange = [key for key in series.values if key not in printed]
            allowed = {"bordia2019": "β", "ethayarajh2019": "", "dawkins2021": ""}
            assert all(item(id).paper in allowed and allowed[item(id).paper] in key[1] for key in strange), strange


def test_dev_has_the_numbers_of_the_pages(load_script: Callable[[str], ModuleType]) -> None:
    nli, encoders = load_script("nli_pages"), load_script("encoders_page")
    rows = {name: item(f"dev2019/{name}").rows or {} for name in ("table-8", "table-9", "table-15", "table-12")}
    named = {"original": "original", "linear": "projected", "random": "random"}
    for (kind, condition), values in nli.DEV.items():
        if kind == "gender":
            assert rows["table-8"][named[condition]] == values
        else:
            row = f"{kind} {'original' if condition == 'original' else 'projected'}"
            assert rows["table-9"][row] == values
    for condition, values in encoders.DEV_BERT.items():
        assert rows["table-15"][encoders.TITLES[condition]] == values
    elmo = encoders.DEV_ELMO["gender-occupation"]
    for table, place in (("table-11", "layers"), ("table-13", "embeddings")):
        printed = item(f"dev2019/{table}").rows or {}
        assert printed["original"] == elmo["none"]
        assert printed["projected"] == elmo[f"he-she {place}"]
        assert printed["random"] == elmo[f"random {place}"]
    assert list(rows["table-12"].values()) == list(encoders.DEV_ELMO_DIRECTIONS.values())


def test_the_pages_have_the_list_of_all_tables_and_table_17(script: ModuleType) -> None:
    for (file, name), make in script.PAGE_TABLES.items():
        page = (script.PAGES / file).read_text(encoding="utf-8")
        assert script.filled(page, name, make()) == page, "run python scripts/reproduce_recorded.py"
    listed = [line for line in script.listed().splitlines() if line.startswith(("| dev", "| bor", "| daw", "| eth"))]
    assert len(listed) == 35
    assert script.best().count("| published |") == 3


@pytest.mark.parametrize("id", items())
def test_every_table_is_discussed_under_a_heading(id: str) -> None:
    file, _, anchor = item(id).place.partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / "reproductions" / file).read_text(encoding="utf-8"), flags=re.M)
    assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_pages_do_not_say_that_elmo_and_bert_are_missing() -> None:
    page = (ROOT / "reproductions" / "dev2019.md").read_text(encoding="utf-8")
    for table in ("11", "12", "13", "14", "15", "16", "17"):
        assert re.search(rf"\b{table}\b", page)
    assert "not reproduced" not in page
    encoders = (ROOT / "reproductions" / "encoders.md").read_text(encoding="utf-8")
    stability = json.loads((ROOT / "reproductions" / "elmo.json").read_text())["directions"]["stability"]
    single = [
        stability[f"layer:{n}"]["with_pairs"][p] for n in (1, 2) for p in ("man-woman", "himself-herself", "his-her")
    ]
    assert f"cosines of {min(single):.2f} to {max(single):.2f}".replace("0.", ".") in encoders
