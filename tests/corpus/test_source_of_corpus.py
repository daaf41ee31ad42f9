"""How a corpus is divided, opened and named, and what is logged of damaged files."""

import numpy as np
import pytest

from evenhand.corpus import Corpus, Texts
from evenhand.corpus.readers import ReadLog
from evenhand.corpus.readers import source as module
from evenhand.corpus.readers.paths import Size
from evenhand.corpus.readers.source import as_source
from evenhand.corpus.readers.stream import END
from evenhand.corpus.readers.text import ByteSpan
from evenhand.errors import FormatError, InputMissingError, UsageError


def written(folder, **files):
    paths = []
    for name, content in files.items():
        paths.append(folder / name.replace("_", "."))
        paths[-1].write_bytes(content)
    return paths


def divided(monkeypatch, sizes, **options):
    """Return the shards of files of given sizes as (file, start, stop)."""
    monkeypatch.setattr(module, "expand", lambda paths: tuple(paths))
    monkeypatch.setattr(module, "size_of", lambda file: sizes[file])
    shards = Corpus(list(sizes), **options).shards()
    return [[(span.file, span.start, span.stop) for span in shard] for shard in shards]


def test_small_files_share_a_shard_as_long_as_there_is_room(monkeypatch):
    monkeypatch.setattr(module, "SHARD", 10)
    monkeypatch.setattr(module, "MOST_SHARDS", 1000)
    sizes = {"a": 4, "b": 6, "c": 1, "d": 9, "e": 1, "f": 12, "g": 1, "h": None, "i": 0, "j": 0, "k": 9}
    shards = divided(monkeypatch, {name: Size(size, False) for name, size in sizes.items()})
    assert ["".join(file for file, *_ in shard) for shard in shards] == ["ab", "cd", "e", "f", "g", "h", "ij", "k"]
    assert all(span[1:] == (0, None) for shard in shards for span in shard)


def test_large_files_of_lines_are_cut(monkeypatch):
    monkeypatch.setattr(module, "SHARD", 10)
    sizes = {
        "a.txt": Size(3, True),
        "b.txt": Size(25, True),
        "c.txt": Size(3, True),
        "d.txt": Size(25, False),
        "e": Size(0, True),
    }
    cut = [("b.txt", 0, 8), ("b.txt", 8, 16), ("b.txt", 16, 25)]
    whole = [
        [("a.txt", 0, None)],
        *[[span] for span in cut],
        [("c.txt", 0, None)],
        [("d.txt", 0, None)],
        [("e", 0, None)],
    ]
    assert divided(monkeypatch, sizes, documents="line") == whole
    files = [[name for name, *_ in shard] for shard in divided(monkeypatch, sizes)]
    assert files == [["a.txt"], ["b.txt"], ["c.txt"], ["d.txt"], ["e"]]
    sizes = {"a.jsonl": Size(20, True), "b.csv": Size(20, True)}
    assert [len(shard) for shard in divided(monkeypatch, sizes)] == [1, 1, 1]
    assert len(divided(monkeypatch, sizes, documents="line")) == 3
    assert len(divided(monkeypatch, sizes, documents="line", format="csv")) == 2


@pytest.mark.parametrize(("stored", "target"), [(40, 10), (44, 11), (79, 19), (80, 20), (99, 20)])
def test_shards_grow_where_there_would_be_too_many(monkeypatch, stored, target):
    monkeypatch.setattr(module, "SHARD", 10)
    monkeypatch.setattr(module, "MOST_SHARDS", 4)
    monkeypatch.setattr(module, "LARGEST", 2)
    asked = []
    monkeypatch.setattr(
        module, "split_file", lambda file, size, at_most: asked.append((size, at_most)) or [ByteSpan(file)]
    )
    divided(monkeypatch, {"a.jsonl": Size(stored - 1, True), "b": Size(None, True), "c": Size(1, True)})
    assert asked == [(stored - 1, target)]


def texts(source):
    log = ReadLog(source.skip_bad)
    return "".join(part for shard in source.shards() for part in source.fragments(shard, log)), log


def test_the_format_comes_from_the_name_unless_it_is_given(tmp_path):
    raw = b'{"text": "a b"}\n'
    paths = written(
        tmp_path, a_jsonl=raw, a_ndjson=raw, a_json=raw, a_csv=b"text\na b\n", a_tsv=b"text\na b\n", a_txt=b"a b"
    )
    for path in paths:
        assert texts(Corpus(path))[0] == f"a b{END}"
    assert texts(Corpus(paths[0], format="text"))[0] == '{"text": "a b"}\n' + END
    assert texts(Corpus(paths[-1], format="text", documents="line"))[0] == f"a b{END}"


def test_a_byte_order_mark_counts_at_the_start_of_a_file_only(tmp_path, monkeypatch):
    (path,) = written(tmp_path, a_txt="\ufeffab\n\ufeffcd\n".encode())
    assert texts(Corpus(path, documents="line"))[0] == f"ab{END}\ufeffcd{END}"
    monkeypatch.setattr(module, "SHARD", 6)
    source = Corpus(path, documents="line")
    assert len(source.shards()) == 2
    assert texts(source)[0] == f"ab{END}\ufeffcd{END}"


def test_a_span_without_a_line_is_no_document(tmp_path):
    (path,) = written(tmp_path, a_txt=b"aaaaaaaa\nb\n")
    source, log = Corpus(path, documents="line"), ReadLog()
    assert list(source.fragments((ByteSpan(str(path), 1, 5),), log)) == []
    assert list(source.fragments((ByteSpan(str(path), 5, 10),), log)) == [f"b{END}"]
    assert list(source.fragments(("no span",), log)) == []


def test_a_damaged_file_counts_up_to_the_damage(tmp_path):
    damaged, lines, good = written(
        tmp_path, a_txt=b"a b\xff", b_jsonl=b'{"text": "c"}\nx\n{"text": "d"}\n', c_txt=b"e f"
    )
    found, log = texts(Corpus([damaged, lines, good, tmp_path / "c.txt"], skip_bad=True))
    assert found == f"a {END}c{END}d{END}e f{END}"
    assert log.bad_files == [
        {"path": str(damaged), "reason": f"{damaged}, line 1: not valid UTF-8 (bytes ff)", "documents_before": 1}
    ]
    assert log.bad_records == 1
    with pytest.raises(FormatError) as error:
        texts(Corpus(damaged))
    assert error.value.hint.endswith("; or `skip_bad=True` to skip and count it")
    found, log = texts(Corpus(damaged, documents="line", skip_bad=True))
    assert (found, log.bad_files[0]["documents_before"]) == ("", 0)
    (many,) = written(tmp_path, d_txt=b"a\nb\nc \xff\n")
    found, log = texts(Corpus(many, documents="line", skip_bad=True))
    assert (found, log.bad_files[0]["documents_before"]) == (f"a{END}b{END}", 2)


def test_a_file_that_is_gone_is_skipped_or_named(tmp_path):
    (path,) = written(tmp_path, a_txt=b"a")
    strict, lenient = Corpus(path), Corpus(path, skip_bad=True)
    path.unlink()
    assert strict.size is None
    found, log = texts(lenient)
    assert (found, len(log.bad_files)) == ("", 1)
    with pytest.raises(InputMissingError, match=r"\n.*`skip_bad=True` to skip and count it"):
        texts(strict)


def test_the_record_of_a_corpus(tmp_path):
    one, two = written(tmp_path, a_txt=b"abc", b_txt=b"de")
    both = Corpus([one, two], documents="line", field="body", encoding_errors="replace", skip_bad=True, max_record=9)
    assert both.to_dict() == {
        "files": 2,
        "documents": "line",
        "field": "body",
        "format": "by name",
        "encoding_errors": "replace",
        "skip_bad": True,
    }
    assert (both.name, both.size, both.skip_bad, both.options.max_record) == ("2 files", 5, True, 9)
    assert (Corpus(one).name, Corpus(one).size, Corpus(one, format="text").to_dict()["format"]) == ("a.txt", 3, "text")
    assert Corpus(one, max_record=1).options.max_record == 1
    with pytest.raises(UsageError, match="max_record must be at least 1 byte, got 0"):
        Corpus(one, max_record=0)
    for name, value in (("documents", "page"), ("encoding_errors", "ignore"), ("format", "pdf")):
        with pytest.raises(UsageError, match=f"unknown {name} '{value}'"):
            Corpus(one, **{name: value})


def test_texts_in_memory():
    source = Texts(iter(["a", "bc"]))
    assert (source.name, source.size, source.skip_bad, repr(source)) == (
        "2 texts",
        3,
        False,
        "Texts(texts=('a', 'bc'))",
    )
    assert source.shards() == [("a", "bc")]
    assert source.to_dict() == {"files": 0, "documents": "in memory"}
    assert texts(Texts(["naïve", f"a{END}b"]))[0] == f"naïve{END}a b{END}"
    with pytest.raises(FormatError, match=r"text 2: lone surrogate \(\\ud800\) at character 1"):
        texts(Texts(["a", "b\ud800"]))
    with pytest.raises(UsageError, match="text 2 is a int, not a str"):
        texts(Texts(["a", 3]))
    with pytest.raises(UsageError, match="expected several documents, got one text"):
        Texts("a b")


def test_what_is_given_becomes_a_source(tmp_path):
    (path,) = written(tmp_path, a_txt=b"a")
    ready = Texts(["a"])
    assert as_source(ready) is ready
    with pytest.raises(UsageError, match="documents, field cannot be given with a corpus"):
        as_source(ready, documents="line", field="x")
    assert as_source(path, documents="line") == Corpus(path, documents="line")
    assert as_source([str(path)]) == Corpus([path])
    import polars as pl

    frame = pl.DataFrame({"text": ["a", "b"], "n": [1, 2], "gap": ["a", None]})
    assert as_source(frame) == Texts(["a", "b"])
    with pytest.raises(UsageError, match="no column 'body'"):
        as_source(frame, field="body")
    with pytest.raises(FormatError, match="row 0 of the column 'n' is 1, not a text"):
        as_source(frame, field="n")
    with pytest.raises(FormatError, match="row 1 of the column 'gap' is None, not a text"):
        as_source(frame, field="gap")
    assert np.isfinite(as_source(frame).size)
