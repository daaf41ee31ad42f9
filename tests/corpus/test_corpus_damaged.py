"""A damaged file counts up to the damage: whole lines, words or records, and nothing after it."""

import bz2
import gzip
import lzma
import random

import pytest

from evenhand import corpus
from evenhand.corpus.readers.text import BLOCK
from evenhand.errors import FormatError

GROUPS = {"f": ["she"], "m": ["he"]}
GOOD = "she nurse he nurse"


def read(path, **options):
    """Documents, words, and the documents that the account has of the file that broke."""
    b = corpus.bias(path, GROUPS, window=2, tokenizer="whitespace", skip_bad=True, **options)
    (bad,) = b.read_log["bad_files"]
    return b.documents, b.tokens, bad["documents_before"]


@pytest.mark.parametrize("repeats", [1, 10, 300_000])  # less than a block, and several of them
@pytest.mark.parametrize("bad", [b"\xff\xfe", b"\0"])
def test_text_counts_up_to_the_bad_byte(tmp_path, repeats, bad):
    path = tmp_path / "a.txt"
    path.write_bytes(f"{GOOD}\n".encode() * repeats + b"he doc" + bad + b"tor she\nshe nurse he\n")
    assert read(path, documents="line") == (repeats, 4 * repeats, repeats)
    assert read(path) == (1, 4 * repeats + 1, 1)  # of the last line "he", but no half of a word
    with pytest.raises(FormatError, match="NUL" if bad == b"\0" else f"line {repeats + 1}: not valid UTF-8"):
        corpus.bias(path, GROUPS)


def test_a_character_that_is_cut_off(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(f"{GOOD}\nshe caf".encode() + "é".encode()[:1])
    assert read(path, documents="line") == (1, 4, 1)
    assert read(path) == (1, 5, 1)


def test_a_last_line_without_its_end_counts_where_nothing_is_broken(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(f"{GOOD}\nhe nurse")
    assert corpus.bias(path, GROUPS, documents="line").tokens == 6


def test_nothing_before_the_break(tmp_path):
    path, good = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_bytes(b"she\xff nurse")
    good.write_text(GOOD)
    assert read([path, good]) == (1, 4, 0)


def test_a_line_longer_than_a_block_counts_its_whole_words(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(f"{GOOD}\n".encode() + f"{GOOD} ".encode() * (3 * BLOCK // len(GOOD)) + b"he doc\xff")
    documents, tokens, before = read(path, documents="line")
    assert documents == before == 2
    assert 4 < tokens <= 4 + 4 * (3 * BLOCK // len(GOOD)) + 1


def packed(kind: str, data: bytes) -> bytes:
    if kind == ".zst":
        return pytest.importorskip("zstandard").compress(data)
    return {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}[kind](data)


@pytest.mark.parametrize("kind", [".gz", ".xz", ".bz2", ".zst"])
@pytest.mark.parametrize("share", [0.6, 0.98])
def test_a_compressed_file_that_is_cut_off_counts_what_can_be_decompressed(tmp_path, kind, share):
    rng = random.Random(0)
    words = ["she", "he", *(f"w{i}" for i in range(2000))]
    lines = [" ".join(rng.choices(words, k=9)) for _ in range(50_000)]
    data = packed(kind, ("\n".join(lines) + "\n").encode())
    path = tmp_path / f"a.txt{kind}"
    path.write_bytes(data[: int(share * len(data))])
    documents, tokens, before = read(path, documents="line")
    assert documents == before
    assert tokens == 9 * documents
    assert documents > (share - 0.45) * len(lines)  # bzip2 and zstd work in blocks of up to 900 kB
    by_word = read(path)
    assert 0 <= by_word[1] - tokens <= 9
    first = corpus.bias(corpus.Texts(lines[:documents]), GROUPS, window=2, tokenizer="whitespace")
    again = corpus.bias(path, GROUPS, window=2, tokenizer="whitespace", documents="line", skip_bad=True)
    assert dict(again.scores) == dict(first.scores)


@pytest.mark.parametrize("lines", [3, 100_000])
def test_a_wrong_check_sum_loses_no_text(tmp_path, lines):
    text = "".join(f"she nurse{i} he\n" for i in range(lines)).encode()
    damaged = bytearray(gzip.compress(text))
    damaged[-6] ^= 1
    path = tmp_path / "a.txt.gz"
    path.write_bytes(damaged)
    assert read(path, documents="line") == (lines, 3 * lines, lines)


def test_records_before_the_break_count(tmp_path):
    rows = "".join(f"{i},{GOOD}\n" for i in range(500))
    table = tmp_path / "a.csv"
    table.write_bytes(b"id,text\n" + rows.encode() + b"500,she \xff he\n" + rows.encode())
    assert read(table) == (500, 2000, 500)
    packed_rows = tmp_path / "b.jsonl.gz"
    packed_rows.write_bytes(gzip.compress(f'{{"text": "{GOOD}"}}\n'.encode() * 500)[:-8])
    assert read(packed_rows) == (500, 2000, 500)


def test_articles_before_the_break_count(tmp_path):
    page = f"<page>\n<title>A</title>\n<text>{GOOD}</text>\n</page>\n".encode()
    path = tmp_path / "dump.xml"
    path.write_bytes(page * 3 + page.replace(b"nurse", b"nu\xffse") + page)
    assert read(path, format="mediawiki") == (3, 12, 3)
