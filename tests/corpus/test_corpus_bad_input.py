"""Bad input is named or, with skip_bad, skipped and counted; what was read before it counts."""

import errno
import gzip
import json
import os
import re
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from evenhand import corpus
from evenhand.cli.app import app
from evenhand.errors import DegenerateError, FormatError, InputMissingError, OutputError, VocabularyError

GROUPS = {"f": ["she"], "m": ["he"]}
GOOD = "she nurse he nurse"


def scored(paths, **options):
    return corpus.bias(paths, GROUPS, window=2, **options)


def test_broken_utf8_names_file_and_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"she nurse\nhe \xff\xfe nurse")
    with pytest.raises(FormatError, match=r"a\.txt, line 2: not valid UTF-8 \(bytes ff fe 20 6e\)\n.*encoding_errors"):
        scored(path)
    assert scored(path, encoding_errors="replace").tokens == 4
    path.write_bytes(b"she nurse he \xe6\x9d")
    with pytest.raises(FormatError, match="line 1"):
        scored(path)


def test_nul_bytes_are_not_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("she nurse he".encode("utf-16-le"))
    with pytest.raises(FormatError, match=r"NUL byte.*\n.*UTF-16"):
        scored(path)
    path.write_bytes(b"she\0nurse he")
    assert scored(path, encoding_errors="replace").documents == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"body": "x"}', "line 2: no field 'text' among 'body'"),
        (b'{"text": 3}', "line 2: field 'text' holds a number, not text"),
        (b'{"text": ', "line 2: not JSON"),
        (b'{"text": null}', "line 2: field 'text' holds null, not text"),
        (b"[1]", "line 2: a list where an object was expected"),
        (b'{"text": "\xff"}', "line 2: not valid UTF-8"),
    ],
)
def test_a_bad_json_line_is_named_or_counted(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "' + GOOD.encode() + b'"}\n' + line + b'\n{"text": "he ran"}\n')
    with pytest.raises(FormatError, match=message + r"[^\n]*\n.*skip_bad=True"):
        scored(path)
    b = scored(path, skip_bad=True)
    assert b.documents == 2
    assert b.read_log["bad_records"] == 1
    assert message in b.read_log["first_bad_records"][0]


def test_a_short_row_of_a_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"id,text\n1,{GOOD}\n2\n")
    with pytest.raises(FormatError, match=r"a\.csv, line 3: 1 field, too few"):
        scored(path)
    assert scored(path, skip_bad=True).read_log["bad_records"] == 1
    path.write_text(f'id,text\n1,"{GOOD}\n')
    with pytest.raises(FormatError, match=r"a\.csv"):
        scored(path)
    path.write_bytes(b"id,text\n1,\xff\n")
    with pytest.raises(FormatError, match="not valid UTF-8"):
        scored(path)


def test_an_empty_cell_of_parquet(tmp_path):
    pl.DataFrame({"text": [GOOD, None]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(FormatError, match=r"a\.parquet, row 2: null instead of text"):
        scored(tmp_path)
    assert scored(tmp_path, skip_bad=True).read_log["bad_records"] == 1


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_damaged_table(tmp_path, name):
    (tmp_path / name).write_bytes(b"PAR1 nothing of the kind")
    with pytest.raises(FormatError, match=re.escape(name)):
        scored(tmp_path / name)


def test_a_truncated_gzip_in_the_middle_of_a_folder(tmp_path):
    texts = [b"she nurse he nurse\n" * 5000, b"he doctor she nurse\n" * 5000, b"she x he\n" * 5000]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt.gz").write_bytes(gzip.compress(text))
    whole = scored(tmp_path, documents="line")
    bad = tmp_path / "1.txt.gz"
    bad.write_bytes(bad.read_bytes()[:-20])
    with pytest.raises(FormatError, match=r"1\.txt\.gz.*\n.*fetch .*skip_bad=True"):
        scored(tmp_path, documents="line")
    rest = scored(tmp_path, documents="line", skip_bad=True)
    (found,) = rest.read_log["bad_files"]
    assert found["path"] == str(bad)
    assert "1.txt.gz" in found["reason"]
    assert 10_000 <= rest.documents <= whole.documents
    assert found["documents_before"] <= 5000
    assert rest.scores["x"] == pytest.approx(whole.scores["x"], abs=0.5)


def test_the_command_names_a_damaged_file_and_continues_only_with_skip_bad(tmp_path):
    text = b"she nurse he doctor\n" * 5000
    for name in "abc":
        (tmp_path / f"{name}.txt.gz").write_bytes(gzip.compress(text)[: -20 if name == "b" else None])
    arguments = ["corpus", "bias", str(tmp_path), "--documents", "line", "--json"]
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 4
    assert refused.stdout == ""
    assert re.search(r"error: .*b\.txt\.gz: not a complete \.gz stream", refused.stderr)
    done = CliRunner().invoke(app, [*arguments, "--skip-bad"])
    assert done.exit_code == 0
    assert re.search(r"note: .*b\.txt\.gz: not a complete .* \(read up to the damage: [\d,]+ documents\)", done.stderr)
    record = json.loads(done.stdout)
    assert [Path(bad["path"]).name for bad in record["bad_files"]] == ["b.txt.gz"]
    assert record["documents"] >= 10_000


def test_counts_of_pairs_tell_what_was_leave_one_out(tmp_path):
    (tmp_path / "a.jsonl").write_text(f'{{"text": "{GOOD}"}}\n{{"body": "x"}}\n')
    with pytest.raises(FormatError, match="line 2: no field 'text'"):
        corpus.cooccurrence(tmp_path)
    counts = corpus.cooccurrence(tmp_path, skip_bad=True)
    assert counts.params["bad_records"] == 1
    assert "line 2" in counts.params["first_bad_records"][0]


def test_a_list_without_a_hit_names_its_words_and_what_to_look_at(tmp_path):
    (tmp_path / "a.txt").write_text("he saw a doctor and a nurse")
    with pytest.raises(VocabularyError, match=r"'f' occurs in the text \(she\)\n.*tokenizer \(words\) and lower=True"):
        scored(tmp_path)
    done = CliRunner().invoke(app, ["corpus", "bias", str(tmp_path)])
    assert done.exit_code == 4
    assert "none of the words of group 'female'" in done.stderr
    assert "7 words were read" in done.stderr


def test_a_corpus_without_words_reports_skipped_records(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"body": "she"}\n{"body": "he"}\n')
    with pytest.raises(FormatError, match=r"a\.jsonl: no word was read, 2 records skipped .*line 1: no field 'text'"):
        scored(tmp_path, skip_bad=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_line_of_100_mb(tmp_path, name):
    path = tmp_path / name
    sentence = b"she is a nurse and he is a doctor "
    with path.open("wb") as out:
        out.write(b'{"text": "' if name == "a.jsonl" else b"")
        for _ in range(100):
            out.write(sentence * (1_000_000 // len(sentence)))
        out.write(b'"}\n' if name == "a.jsonl" else b"\n")
    b = scored(path, documents="line")
    assert b.documents == 1
    assert b.tokens == 100 * (1_000_000 // len(sentence)) * 9


def test_an_unreadable_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(GOOD)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(InputMissingError, match="is not readable"):
        scored(path)


def test_a_very_long_line_and_a_very_long_word(tmp_path, monkeypatch):
    monkeypatch.setattr("evenhand.corpus.readers.text.BLOCK", 1 << 10)
    path = tmp_path / "a.txt"
    path.write_text(GOOD + " " + "w" * 300_000 + " " + GOOD * 20_000)
    b = scored(path, documents="line", piece=1 << 10)
    assert b.documents == 1
    assert b.tokens == 5 + 60_001
    rows = tmp_path / "a.csv"
    rows.write_text(f'text\n"{GOOD} {"x " * 200_000}"\n')
    assert scored(rows).tokens == 200_004


def test_empty_documents_are_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": ""}}\n{{"text": "{GOOD}"}}\n{{"text": "  "}}\n')
    b = scored(path)
    assert (b.documents, b.empty_documents, b.tokens) == (3, 2, 4)


def test_nothing_but_empty_documents(tmp_path):
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(FormatError, match=r"a\.txt: no word was read\n.*empty or blank"):
        scored(tmp_path)


def test_no_word_meets_both_groups(tmp_path):
    (tmp_path / "a.txt").write_text("she nurse\nhe doctor")
    b = scored(tmp_path, documents="line")
    assert b.n == 0
    assert b.scores == {}
    assert b.to_dict()["mu"] is None
    with pytest.raises(DegenerateError, match=r"0 words are scored.*\n.*smoothing"):
        _ = b.mu
    with pytest.raises(DegenerateError):
        _ = b.sigma


def test_a_group_alone_in_its_documents_is_undefined_not_nan(tmp_path):
    (tmp_path / "a.txt").write_text("she\nhe doctor")
    b = scored(tmp_path, documents="line", smoothing=0.0)
    assert b.n == 0


def test_web_archives(tmp_path):
    path = tmp_path / "a.warc"
    path.write_bytes(b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n")
    with pytest.raises(FormatError, match=r"none of 1 record is plain text.*\n.*WET"):
        scored(path)
    path.write_bytes(b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 9\r\n\r\nabc")
    with pytest.raises(FormatError, match="record 1: 3 of 9 bytes"):
        scored(path)
    path.write_bytes(b"WARC/1.0\r\nWARC-Type: conversion\r\n\r\nabc")
    with pytest.raises(FormatError, match="no Content-Length"):
        scored(path)
    path.write_bytes(b"<html>")
    with pytest.raises(FormatError, match="expected a record"):
        scored(path)


def test_a_full_disk_leaves_the_old_counts_alone(tmp_path, monkeypatch):
    path = tmp_path / "counts.safetensors"
    counts = corpus.cooccurrence(corpus.Texts([GOOD]))
    counts.save(path)
    before = path.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"counts\.safetensors.*No space left"):
        counts.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["counts.safetensors"]
