"""Tables of predictions: what is read, guessed, counted and refused."""

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.errors import EvenhandError, EvenhandWarning, UsageError

ROWS = {
    "sex": ["f", "m", "f", "m", "f", "m"],
    "y": [1, 0, 1, 1, 0, 0],
    "yhat": [1, 1, 0, 1, 0, 0],
}


def csv(folder: Path, text: str, name: str = "t.csv") -> str:
    (folder / name).write_text(text)
    return f"table:{folder / name}"


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz"])
def test_every_format_holds_the_same_rows(tmp_path: Path, suffix: str) -> None:
    frame, file = pl.DataFrame(ROWS), tmp_path / f"t{suffix}"
    if suffix == ".csv.gz":
        file.write_bytes(gzip.compress(frame.write_csv().encode()))
    elif suffix == ".parquet":
        frame.write_parquet(file)
    elif suffix == ".jsonl":
        frame.write_ndjson(file)
    else:
        frame.write_csv(file, separator="\t" if suffix == ".tsv" else ",")
    subject = eh.open(f"table:{file}")
    view = subject.view("outcomes")
    assert view.grouping("sex").groups == ("f", "m")
    assert view.label.tolist() == [True, False, True, True, False, False]
    assert view.prediction.tolist() == [True, True, False, True, False, False]
    assert subject.opening | {"format": ""} == {"group": "sex", "label": "y", "prediction": "yhat", "format": ""}
    assert subject.offers == ("outcomes",)


def test_data_frames_are_tables() -> None:
    pandas = pytest.importorskip("pandas")
    first = eh.open(pl.DataFrame(ROWS)).view("outcomes")
    second = eh.open(pandas.DataFrame({**ROWS, "y": [1.0, 0.0, 1.0, 1.0, 0.0, float("nan")]})).view("outcomes")
    assert len(first) == 6
    assert len(second) == 5
    assert second.dropped == {"without y": 1}
    with pytest.raises(EvenhandError, match="option of a table"):
        eh.open(pl.DataFrame(ROWS), colour="red")


def test_missing_values_and_unknown_groups_are_counted(tmp_path: Path) -> None:
    text = "sex,y,yhat\nf,1,1\nm,0,\nf,,0\n,1,1\nunknown,1,0\nm,1,0\nf,0,1\n N/A ,0,0\n"
    subject = eh.open(csv(tmp_path, text))
    view = subject.view("outcomes")
    assert view.dropped == {"without yhat": 1, "without y": 1}
    assert view.grouping("sex").unknown == 3
    with pytest.warns(
        EvenhandWarning, match="5 of 8 rows are left out: 1 without yhat, 1 without y, 3 without a known sex"
    ):
        found = eh.measures.group_metrics(view)[0]
    assert found.n == 3
    assert found.details["unknown_group"] == 3
    assert subject.describe()["dropped"] == {"without yhat": 1, "without y": 1}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "the table is empty"),
        ("sex,y,yhat\n", {}, "the table has no rows"),
        ("a,b\n1,2\n", {}, "no column that is known to name groups"),
        ("sex,race,y,yhat\nf,a,1,1\n", {}, "could have its group in sex or race"),
        ("sex,y,yhat\nf,1,1\nm,2,0\nf,0,1\n", {}, "column y holds 3 values"),
        ("sex,y,yhat\nf,good,1\nm,bad,0\n", {}, "say which value is the positive one"),
        ("sex,y,yhat\nf,good,1\nm,bad,0\n", {"positive": "best"}, "none is 'best'"),
        ("sex,y,yhat\nf,1,1\nf,0,0\n", {}, "has 1 known group, and groups are compared"),
        ("sex,y,yhat\nf,1,1\nm,0,0\n", {"group": "gender"}, "there is no column of t.csv 'gender'"),
        ("sex,y\nf,1\nm,0\n", {}, "no column that is known to hold predictions or scores"),
        ("sex,y,score\nf,1,3\nm,0,-2\n", {}, "which are no probabilities"),
        ("sex,y,score\nf,1,high\nm,0,low\n", {}, "holds 'high', which is not a number"),
        ("sex,y,yhat\nf,1,1\nm,0,0\n", {"prediction": "yhat", "threshold": 0.5}, "makes predictions of scores"),
        ("sex,y,yhat\nf,,1\nm,,0\n", {}, "has no rows that can be measured"),
        ("sex,y,yhat\n" + "".join(f"g{k},1,1\n" for k in range(101)), {}, "has 101 groups, more than 100"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(EvenhandError) as refused:
        eh.open(csv(tmp_path, text), **options).view("outcomes")
    assert message in f"{refused.value.message} {refused.value.hint}"


def test_files_that_are_no_tables_end_in_a_sentence(tmp_path: Path) -> None:
    for name, content in (("t.parquet", b"PAR1 nothing"), ("t.jsonl", b"{'a': "), ("t.csv", b"a,b\n1\xff,2\n")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(EvenhandError):
            eh.open(f"table:{tmp_path / name}")
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(UsageError, match="does not tell the format"):
        eh.open(f"table:{tmp_path / 't.xlsx'}")
    with pytest.raises(EvenhandError, match="does not exist"):
        eh.open(f"table:{tmp_path / 'none.csv'}")


def test_a_named_positive_value_and_a_threshold(tmp_path: Path) -> None:
    address = csv(tmp_path, "sex,income,score\nf,>50K,0.9\nm,<=50K,0.6\nf,<=50K,0.4\nm,>50K,0.7\n")
    view = eh.open(address, label="income", positive=">50K").view("outcomes")
    assert view.label.tolist() == [True, False, False, True]
    assert view.prediction.tolist() == [True, True, False, True]
    assert view.threshold == 0.5
    high = eh.open(address, label="income", positive=">50K", threshold=0.65)
    assert high.view("outcomes").prediction.tolist() == [True, False, False, True]
    assert high.opening_digest != eh.open(address, label="income", positive=">50K").opening_digest


def test_another_process_reads_the_same_table(tmp_path: Path) -> None:
    subject = eh.open(csv(tmp_path, pl.DataFrame(ROWS).write_csv()), group="sex")
    again = pickle.loads(pickle.dumps(subject))
    assert again.digest == subject.digest
    assert again.view("outcomes").digest == subject.view("outcomes").digest


def test_an_audit_names_the_groups_of_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 400)
    frame = pl.DataFrame(
        {"sex": sex, "y": rng.integers(0, 2, 400), "yhat": (rng.random(400) < np.where(sex == "f", 0.2, 0.6)) * 1}
    )
    audit = eh.Audit.run(csv(tmp_path, frame.write_csv()))
    assert audit.concept == "sex"
    record = audit.to_dict()
    assert record["headline"].startswith("t.csv (table of predictions) shows sex bias: the selection rate")
    assert audit.manifest["subjects"][0]["groups"] == {"sex": ["f", "m"]}
    assert "table:" in audit.manifest["arguments"]["command"]
    page = audit.to_html(tmp_path / "report.html").read_text()
    assert "Rates by sex" in page
    again = eh.Audit.load(audit.save(tmp_path / "run").parent)
    assert json.dumps(again.to_dict(), sort_keys=True) == json.dumps(record, sort_keys=True)


# Hostile tables: few bytes that describe much, and what is no plain value.


def test_blanks_around_the_names_of_columns_do_not_matter(tmp_path: Path) -> None:
    view = eh.open(csv(tmp_path, "yhat, sex ,y\n1,f,1\n0,m,0\n")).view("outcomes")
    assert view.grouping("sex").groups == ("f", "m")


@pytest.mark.parametrize("value", ['{"a": null}', "[1]"])
def test_a_score_that_is_no_number_is_refused(value: str, tmp_path: Path) -> None:
    rows = f'{{"sex": "f", "score": {value}}}\n{{"sex": "m", "score": {value}}}\n'
    with pytest.raises(EvenhandError, match="column score holds lists or records"):
        eh.open(csv(tmp_path, rows, "t.jsonl"))


def test_dates_are_no_scores() -> None:
    days = pl.Series("score", [0, 1]).cast(pl.Date)
    with pytest.raises(EvenhandError, match="column score holds dates or times"):
        eh.open(pl.DataFrame({"sex": ["f", "m"], "score": days}))


def test_few_bytes_with_many_cells_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"c{number}" for number in range(3000)]
    wide = ",".join(["sex", "yhat", *names]) + "\n" + "m,1\n" * 3000
    keys = "".join(f'{{"{name}": 1}}\n' for name in names)
    same, column = [1] * 2_200_000, ["a" * 2_000_000] * 4
    pl.DataFrame({"sex": same, "yhat": same}).write_parquet(tmp_path / "rows.parquet")
    text = {"sex": ["f", "m"] * 2, "yhat": [1, 0] * 2, "text": column}
    pl.DataFrame(text).write_parquet(tmp_path / "text.parquet", compression="zstd")
    monkeypatch.setattr("evenhand.models.outcomes.LEAST_EXPANSION", 1 << 20)
    for name in ("read_csv", "read_ndjson", "read_parquet"):
        monkeypatch.setattr(pl, name, lambda *a, **k: pytest.fail("decoded"))
    for address in (csv(tmp_path, wide), csv(tmp_path, keys, "t.jsonl")):
        with pytest.raises(EvenhandError, match=r"rows of 3,00\d columns, which is too much"):
            eh.open(address)
    for file in ("rows.parquet", "text.parquet"):
        assert (tmp_path / file).stat().st_size < 50_000
        with pytest.raises(EvenhandError, match="values, which is too much"):
            eh.open(f"table:{tmp_path / file}")


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + b"\xff" * 8, b"x" * 40 + b"PAR1", bytes(4) + b"\x01\0\0\0PAR1"])
def test_a_damaged_footer_ends_in_a_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(EvenhandError, match=r"t\.parquet"):
        eh.open(f"table:{tmp_path / 't.parquet'}")


def test_cells_that_a_spreadsheet_would_compute_are_written_as_they_were(tmp_path: Path) -> None:
    """A table is data: what stands in it is neither run nor changed."""
    text = "sex,yhat,y,note\n" + "f,1,1,=1+1\nm,0,0,@x\nf,1,0,-2\nm,1,1,+3\n"
    subject = eh.open(csv(tmp_path, text))
    subject.save(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == text
