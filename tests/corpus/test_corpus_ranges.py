"""Large files are cut between lines: the same documents and the same result as uncut, wherever the cuts fall."""

import gzip
import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import corpus
from evenhand.corpus.readers import Corpus, ReadLog
from evenhand.corpus.readers import source as source_module
from evenhand.corpus.readers.stream import END
from evenhand.corpus.readers.text import ByteSpan, span_lines, split_file
from evenhand.errors import FormatError

GROUPS = {"f": ["she"], "m": ["he"]}
LINES = ["she nurse he", "", "naïve 東京 he doctor", "\ufeffshe x", "x " * 30 + "she", "\r", "he nurse she"]


def pieces(data: bytes, at_most: int) -> list[bytes]:
    return [
        data if span.stop is None else span_lines(io.BytesIO(data), span).read()
        for span in split_file("f", len(data), at_most)
    ]


@given(st.lists(st.sampled_from([b"", b"a", b"bb", b"\n", b"long " * 9]), max_size=12), st.integers(1, 60))
def test_every_line_is_in_one_piece(parts, at_most):
    data = b"\n".join(parts)
    found = pieces(data, at_most) if data else []
    assert b"".join(found) == data
    for piece in [piece for piece in found if piece][:-1]:
        assert piece.endswith(b"\n")


def test_a_line_belongs_to_the_piece_in_which_it_begins():
    data = b"aaaa\nbb\ncccccccccc\nd\n"
    assert pieces(data, 5) == [b"aaaa\n", b"bb\n", b"cccccccccc\n", b"", b"d\n"]


def test_pieces_are_of_equal_size():
    assert split_file("f", 10, 4) == [ByteSpan("f", 0, 3), ByteSpan("f", 3, 6), ByteSpan("f", 6, 10)]
    assert split_file("f", 4, 4) == [ByteSpan("f")]


def documents(path, **options):
    source = Corpus(path, **options)
    account = ReadLog(source.skip_bad)
    shards = source.shards()
    text = "".join(fragment for shard in shards for fragment in source.fragments(shard, account))
    return text.split(END), len(shards)


def written(tmp_path, name, lines=LINES):
    path = tmp_path / name
    if name.endswith("jsonl"):
        lines = [json.dumps({"text": line}) if line else "" for line in lines]
    path.write_bytes(("\ufeff" + "\n".join(lines) + "\n").encode())
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
@pytest.mark.parametrize("size", [1, 7, 40, 1000])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_documents_are_the_same_wherever_a_file_is_cut(tmp_path, monkeypatch, name, size, scheme):
    path = written(tmp_path, name)
    whole, one = documents(path, documents="line")
    monkeypatch.setattr(source_module, "SHARD", size)
    monkeypatch.setattr(source_module, "LARGEST", 1)
    if scheme:
        pytest.importorskip("fsspec")
    cut, many = documents(f"{scheme}{path}", documents="line")
    assert one == 1
    assert cut == whole
    assert many == -(-path.stat().st_size // size)


words = st.lists(st.sampled_from(["she", "he", "nurse", "doctor", "x", "ü"]), max_size=9).map(" ".join)


@settings(max_examples=30)
@given(lines=st.lists(words, min_size=1, max_size=12), size=st.integers(5, 80), name=st.sampled_from(["txt", "jsonl"]))
def test_scores_and_counts_are_the_same_wherever_a_file_is_cut(tmp_path_factory, lines, size, name):
    path = written(tmp_path_factory.mktemp("cut"), f"a.{name}", ["she x he", *lines])
    options = {"documents": "line", "tokenizer": "whitespace", "lower": True}

    def results():
        scored = [corpus.bias(path, GROUPS, **reach, **options) for reach in ({"window": 2}, {"decay": 0.9})]
        return *scored, corpus.cooccurrence(path, 2, weighting="harmonic", min_count=2, **options)

    with pytest.MonkeyPatch.context() as patch:
        uncut = results()
        patch.setattr(source_module, "SHARD", size)
        cut = results()
    for one, many in zip(uncut[:2], cut[:2], strict=True):
        assert many.words == one.words
        assert many.scores == pytest.approx(dict(one.scores), abs=1e-12)
        assert (many.tokens, many.documents, many.empty_documents) == (one.tokens, one.documents, one.empty_documents)
    assert uncut[0].values.tolist() == cut[0].values.tolist()  # whole numbers: no rounding to differ in
    assert uncut[2].words == cut[2].words
    np.testing.assert_allclose(uncut[2].matrix.toarray(), cut[2].matrix.toarray(), atol=1e-12)


def test_what_cannot_be_cut_stays_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "SHARD", 10)
    text = "she nurse he\n" * 20
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "c.csv").write_text("text\n" + text)
    shards = Corpus(tmp_path, documents="line").shards()
    counts = {
        name: sum(span.file.endswith(name) for shard in shards for span in shard) for name in ("txt", "gz", "csv")
    }
    assert counts == {"txt": 26, "gz": 1, "csv": 1}
    assert len(Corpus(tmp_path / "a.txt").shards()) == 1  # the file is one document


def test_shards_depend_on_the_corpus_and_grow_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "SHARD", 10)
    monkeypatch.setattr(source_module, "MOST_SHARDS", 5)
    path = tmp_path / "a.txt"
    sizes = {}
    for lines in (10, 100, 1000):
        path.write_text("x\n" * lines)
        sizes[lines] = len(Corpus(path, documents="line").shards())
    assert sizes == {10: 2, 100: 5, 1000: 13}  # 10 bytes each, a fifth of 200, at most 160 of 2000


def test_a_line_longer_than_many_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "SHARD", 1 << 10)
    path = tmp_path / "a.txt"
    path.write_text("she nurse he\n" + "she nurse he " * 5_000 + "\nhe doctor she\n")
    b = corpus.bias(path, GROUPS, window=2, documents="line")
    assert (b.documents, b.tokens) == (3, 15_006)


def test_a_bad_line_is_named_by_its_place_in_the_cut_file(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"text": "she nurse he"})] * 6
    path.write_text("\n".join([*lines, "{", *lines]) + "\n")
    monkeypatch.setattr(source_module, "SHARD", 80)
    with pytest.raises(FormatError, match=r"a\.jsonl \(from byte 75 on\), line 4: not JSON"):
        corpus.bias(path, GROUPS)
    b = corpus.bias(path, GROUPS, skip_bad=True)
    assert (b.documents, b.read_log["bad_records"]) == (12, 1)


def test_broken_utf8_costs_the_part_it_is_in(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"she nurse he\n" * 20 + b"\xff\n" + b"he doctor she\n" * 20)
    monkeypatch.setattr(source_module, "SHARD", 100)
    b = corpus.bias(path, GROUPS, documents="line", skip_bad=True)
    (bad,) = b.read_log["bad_files"]
    assert bad["path"] == str(path)
    assert "from byte" in bad["reason"]
    assert 30 < b.documents < 41
