"""The same three documents come out of every kind of file, compressed or not, by file, folder, glob and address."""

import bz2
import gzip
import json
import lzma
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest
import zstandard

from evenhand import corpus
from evenhand.corpus.readers import Corpus, ReadLog, Texts
from evenhand.corpus.readers import source as source_module
from evenhand.corpus.readers.stream import END, cut
from evenhand.errors import FormatError, InputMissingError, MissingExtraError, UsageError

DOCUMENTS = ["she is a nurse", "", 'he said "no",\nthen naïve 東京']
PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress}


def read(paths, **options):
    source = Corpus(paths, **options)
    account = ReadLog(source.skip_bad)
    text = "".join(fragment for shard in source.shards() for fragment in source.fragments(shard, account))
    assert text.endswith(END)
    return text[:-1].split(END), account


def write_table(path: Path, delimiter: str) -> None:
    import csv

    with path.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, delimiter=delimiter).writerows([["id", "text"], *enumerate(DOCUMENTS)])


def write_wet(path: Path) -> None:
    records = [(b"warcinfo", b"software: x")] + [(b"conversion", text.encode()) for text in DOCUMENTS]
    with path.open("wb") as out:
        for kind, body in records:
            out.write(
                b"WARC/1.0\r\nWARC-Type: " + kind + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body + b"\r\n\r\n"
            )


WRITERS = {
    "a.jsonl": lambda path: path.write_text("\n".join(json.dumps({"text": d}) for d in DOCUMENTS), encoding="utf-8"),
    "a.ndjson": lambda path: path.write_text("\n\n".join(json.dumps({"text": d}) for d in DOCUMENTS) + "\n"),
    "a.csv": lambda path: write_table(path, ","),
    "a.tsv": lambda path: write_table(path, "\t"),
    "a.parquet": lambda path: pl.DataFrame({"id": [1, 2, 3], "text": DOCUMENTS}).write_parquet(path),
    "a.arrow": lambda path: pl.DataFrame({"id": [1, 2, 3], "text": DOCUMENTS}).write_ipc_stream(path),
    "b.arrow": lambda path: pl.DataFrame({"id": [1, 2, 3], "text": DOCUMENTS}).write_ipc(path),
    "a.warc.wet": write_wet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_holds_the_same_documents(tmp_path, name):
    WRITERS[name](tmp_path / name)
    assert read(tmp_path / name)[0] == DOCUMENTS


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.warc.wet"])
def test_compressed(tmp_path, name, suffix):
    WRITERS[name](tmp_path / name)
    packed = tmp_path / (name + suffix)
    packed.write_bytes(PACK[suffix]((tmp_path / name).read_bytes()))
    assert read(packed)[0] == DOCUMENTS


def test_plain_text_is_one_document_or_one_a_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffshe ran\r\n\nhe ran".encode())
    assert read(path)[0] == ["she ran\r\n\nhe ran"]
    assert read(path, documents="line")[0] == ["she ran\r", "", "he ran"]
    path.write_text("one\ntwo\n")
    assert read(path, documents="line")[0] == ["one", "two"]
    path.write_text("")
    assert read(path)[0] == [""]


def test_blocks_never_split_a_character(tmp_path, monkeypatch):
    monkeypatch.setattr("evenhand.corpus.readers.text.BLOCK", 3)
    path = tmp_path / "a.txt"
    path.write_text("東京 naïve she\n𝔘𝔫\n", encoding="utf-8")
    assert read(path, documents="line")[0] == ["東京 naïve she", "𝔘𝔫"]


def test_folder_glob_and_list_in_a_fixed_order(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.txt", "sub/c.txt", "image.png", "state.json", ".hidden.txt"):
        (tmp_path / name).write_text(name)
    assert read(tmp_path)[0] == ["a.txt", "b.txt", "sub/c.txt"]
    assert read(str(tmp_path / "*.txt"))[0] == ["a.txt", "b.txt"]
    assert read(str(tmp_path / "**/*.txt"))[0] == ["a.txt", "b.txt", "sub/c.txt"]
    assert read([tmp_path / "b.txt", tmp_path / "a.txt", tmp_path / "b.txt"])[0] == ["b.txt", "a.txt"]
    assert read(tmp_path / "image.png")[0] == ["image.png"]


def test_a_file_may_be_called_like_a_pattern(tmp_path):
    (tmp_path / "a[1].txt").write_text("odd")
    assert read(tmp_path / "a[1].txt")[0] == ["odd"]


def test_addresses_through_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://corpus/a.jsonl.gz", "wb") as out:
        out.write(gzip.compress(b'{"text": "she ran"}\n'))
    assert read("memory://corpus/a.jsonl.gz")[0] == ["she ran"]
    assert read("memory://corpus/*.gz")[0] == ["she ran"]
    with pytest.raises(FormatError, match=r"memory://corpus/none.txt"):
        read("memory://corpus/none.txt")


@pytest.mark.parametrize("name", ["gone.txt", "*.none", "empty"])
def test_missing_files_are_reported(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputMissingError):
        Corpus(str(tmp_path / name))


@pytest.mark.parametrize("address", ["s3://bucket/a.txt", "s3://bucket/*.txt"])
def test_an_address_names_the_package_that_it_needs(address):
    pytest.importorskip("fsspec")
    if find_spec("s3fs"):
        pytest.skip("s3fs is installed")
    with pytest.raises(MissingExtraError, match=r"s3://bucket/.*: a package .* is missing\n.*s3fs"):
        read(address)


def test_an_address_of_an_unknown_kind():
    pytest.importorskip("fsspec")
    with pytest.raises(FormatError, match=r"nowhere://a\.txt: could not be read"):
        read("nowhere://a.txt")
    with pytest.raises(InputMissingError, match=r"nowhere://\*\.txt: could not be listed"):
        read("nowhere://*.txt")


def test_no_path_and_no_text():
    with pytest.raises(UsageError, match="no file"):
        Corpus([])
    with pytest.raises(UsageError, match="Texts"):
        Corpus([b"she"])
    with pytest.raises(UsageError, match="one text"):
        Texts("she ran")
    with pytest.raises(UsageError, match=r"'page'.*\n.*file, line"):
        Corpus(".", documents="page")


def test_field_names_the_column(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"body": "x"}')
    assert read(tmp_path / "a.jsonl", field="body")[0] == ["x"]
    pl.DataFrame({"body": ["x"]}).write_parquet(tmp_path / "a.parquet")
    for name in ("a.parquet",):
        with pytest.raises(FormatError, match=r"a.parquet: no column 'text'\n.*there are: body"):
            read(tmp_path / name)


def test_format_overrides_the_name(tmp_path):
    (tmp_path / "a.dump").write_text('{"text": "x"}')
    assert read(tmp_path / "a.dump", format="jsonl")[0] == ["x"]
    assert read(tmp_path / "a.dump")[0] == ['{"text": "x"}']


def test_shards_gather_small_files_and_leave_large_ones_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "SHARD", 10)
    for name, size in (("a", 4), ("b", 5), ("c", 30), ("d", 1), ("e", 2)):
        (tmp_path / f"{name}.txt").write_text("x" * size)
    shards = Corpus(tmp_path).shards()
    assert [[Path(span.file).stem for span in shard] for shard in shards] == [["a", "b"], ["c"], ["d", "e"]]
    assert {span.stop for shard in shards for span in shard} == {None}


@pytest.mark.parametrize("options", [{"window": 2}, {"decay": 0.9}, {"window": 2, "bootstrap": 100}])
def test_shards_do_not_change_the_result(tmp_path, monkeypatch, options):
    for number, text in enumerate(["she nurse x he", "he doctor x she nurse", "x x she he nurse doctor"]):
        (tmp_path / f"{number}.txt").write_text(text)
    groups = {"f": ["she"], "m": ["he"]}
    one = corpus.bias(tmp_path, groups, **options)
    monkeypatch.setattr(source_module, "SHARD", 1)
    many = corpus.bias(tmp_path, groups, **options)
    assert one.words == many.words
    assert one.scores == pytest.approx(dict(many.scores), abs=1e-12)
    assert (one.tokens, one.documents, one.hits) == (many.tokens, many.documents, many.hits)
    if one.intervals is not None:
        assert one.intervals == pytest.approx(many.intervals, nan_ok=True)


def test_cut_holds_words_together():
    text = "aa bbbb c" + END + "dddddddddd" + END + "e"
    for size in range(1, 30):
        pieces = list(cut([text[:4], text[4:]], size))
        assert "".join(pieces) == text
        assert all(piece[-1] in (END, " ") for piece in pieces[:-1])
