"""fastText binaries, against hand-made files and, where it is installed, against gensim."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import EvenhandError, FormatError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.formats import ReadOptions, format_for_reading
from evenhand.models.vectors.formats.fasttext_bin import Ngrams, ngram_rows, read

MAGIC = 793712314
BUCKET = 5
WORDS = ["</s>", "ab", "né"]


def fnv1a_signed(raw: bytes) -> int:
    """fastText's hash, byte by byte: each byte is a C++ signed char, widened to 32 bits before it is mixed in."""
    value = 2166136261
    for byte in raw:
        signed = byte - 256 if byte >= 128 else byte
        value = ((value ^ (signed & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
    return value


def model_bytes(
    words: list[bytes],
    rows: np.ndarray,
    *,
    minn: int = 2,
    maxn: int = 3,
    bucket: int = BUCKET,
    version: int = 12,
    model: int = 2,
    labels: tuple[bytes, ...] = (),
    pruned: int = -1,
    quantised: int = 0,
    dim: int | None = None,
    row_count: int | None = None,
) -> bytes:
    count, width = rows.shape
    width = dim or width
    parts = [struct.pack("<2i", MAGIC, version)]
    parts.append(struct.pack("<12id", width, 5, 5, 1, 5, 1, 2, model, bucket, minn, maxn, 100, 1e-4))
    parts.append(struct.pack("<3i2q", len(words) + len(labels), len(words), len(labels), 99, pruned))
    for kind, entries in enumerate((words, labels)):
        parts += [word + b"\0" + struct.pack("<qb", 7, kind) for word in entries]
    parts.append(bytes(8 * max(pruned, 0)))
    parts.append(struct.pack("<B2q", quantised, row_count or count, width) + rows.astype("<f4").tobytes())
    parts.append(struct.pack("<B2q", 0, 2, width) + bytes(8 * width))
    return b"".join(parts)


def small_rows(words: int = len(WORDS), bucket: int = BUCKET, dim: int = 2) -> np.ndarray:
    return np.arange(1, (words + bucket) * dim + 1, dtype=np.float32).reshape(-1, dim) ** 2


SMALL = model_bytes([word.encode() for word in WORDS], small_rows())


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.bin"
    path.write_bytes(SMALL)
    return path


def bucket_row(ngram: str) -> np.ndarray:
    return small_rows()[len(WORDS) + fnv1a_signed(ngram.encode()) % BUCKET].astype(np.float64)


def test_hash_matches_the_published_value_and_the_signed_quirk() -> None:
    assert fnv1a_signed(b"a") == 0xE40C292C  # FNV-1a test vector of its authors
    # 0xC3 widens to 0xFFFFFFC3: the plain FNV-1a of these bytes is another number.
    assert (
        fnv1a_signed("é".encode())
        == ((((2166136261 ^ 0xFFFFFFC3) * 16777619 & 0xFFFFFFFF) ^ 0xFFFFFFA9) * 16777619) & 0xFFFFFFFF
    )


def test_words_are_the_mean_of_their_own_row_and_their_ngrams(small: Path) -> None:
    parsed = read(small, ReadOptions())
    rows = small_rows().astype(np.float64)
    assert list(parsed.words) == WORDS
    np.testing.assert_array_equal(parsed.matrix[0], rows[0])  # the end of a sentence has no n-grams
    ngrams = {
        1: ["<a", "ab", "b>", "<ab", "ab>"],
        2: ["<n", "né", "é>", "<né", "né>"],
    }
    for row, parts in ngrams.items():
        expected = np.mean([rows[row], *map(bucket_row, parts)], axis=0)
        np.testing.assert_allclose(parsed.matrix[row], expected, rtol=1e-6)


def test_unseen_words_are_composed_from_their_ngrams(small: Path) -> None:
    compose = read(small, ReadOptions()).compose
    assert compose is not None
    expected = np.mean([bucket_row(part) for part in ["<é", "éa", "a>", "<éa", "éa>"]], axis=0)
    composed = compose(["éa", "éa"])
    np.testing.assert_allclose(composed, [expected, expected], rtol=1e-6)
    assert composed.dtype == np.float32


def test_only_the_vocabulary_has_vectors_until_words_are_composed(small: Path) -> None:
    assert format_for_reading(small).id == "fasttext-bin"
    vectors = Vectors.load(small)
    assert "ba" not in vectors
    assert vectors.find("ba") is None
    assert vectors.locate(["ba"])[1].missing == ("ba",)
    with pytest.raises(VocabularyError, match=r"'ba' is not in .*\n.*composed\(\['ba'\]\)"):
        vectors["ba"]
    more = vectors.composed(["ba"])
    assert more.words[-1] == "ba"
    assert more.locate(["ba"])[1].missing == ()
    np.testing.assert_array_equal(more["ba"], vectors.compose(["ba"])[0])  # type: ignore[misc]
    assert more.composed(["éa"]).words[-2:] == ("ba", "éa")


def test_lone_brackets_are_not_ngrams() -> None:
    owners, rows = ngram_rows([b"ab", b"</s>", b"\xc3\xa9"], Ngrams(1, 1, 1000, 10))
    assert owners.tolist() == [0, 0, 2]
    assert rows.tolist() == [10 + fnv1a_signed(part.encode()) % 1000 for part in "abé"]


@given(st.lists(st.text(max_size=8), min_size=1, max_size=6), st.integers(0, 4), st.integers(1, 6))
def test_every_ngram_is_hashed_as_in_the_definition(words: list[str], shortest: int, longest: int) -> None:
    raw = [word.encode(errors="surrogatepass") for word in words]
    owners, rows = ngram_rows(raw, Ngrams(shortest, longest, 997, 3))
    for position, word in enumerate(words):
        marked = f"<{word}>"
        spans = [
            (start, start + size)
            for size in range(max(shortest, 1), longest + 1)
            for start in range(len(marked) - size + 1)
            if size > 1 or 0 < start < len(marked) - 1
        ]
        texts = [] if word == "</s>" else [marked[start:stop].encode(errors="surrogatepass") for start, stop in spans]
        expected = sorted(3 + fnv1a_signed(text) % 997 for text in texts)
        assert sorted(rows[owners == position].tolist()) == expected


def test_the_mean_does_not_depend_on_the_blocks(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(small, ReadOptions()).matrix
    monkeypatch.setattr("evenhand.models.vectors.formats.fasttext_bin.GATHERED_BYTES", 1)
    np.testing.assert_array_equal(read(small, ReadOptions()).matrix, whole)


def test_the_dictionary_does_not_depend_on_the_chunks(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(small, ReadOptions())
    monkeypatch.setattr("evenhand.models.vectors.formats.fasttext_bin.CHUNK", 3)
    monkeypatch.setattr("evenhand.models.vectors.formats.fasttext_bin.CHUNK", 3)
    packed = small.with_suffix(".bin.gz")
    packed.write_bytes(gzip.compress(SMALL))
    for path in (small, packed):
        pieces = read(path, ReadOptions())
        assert pieces.words == whole.words
        np.testing.assert_array_equal(pieces.matrix, whole.matrix)


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".xz", ".bz2"])
def test_compressed_files_give_the_same(small: Path, suffix: str) -> None:
    from evenhand.files import writing

    packed = small.with_name("small.bin" + suffix)
    with writing(packed) as out:
        out.write(SMALL)
    plain, unpacked = read(small, ReadOptions()), read(packed, ReadOptions())
    assert unpacked.words == plain.words
    np.testing.assert_array_equal(unpacked.matrix, plain.matrix)
    np.testing.assert_array_equal(unpacked.compose(["xyz"]), plain.compose(["xyz"]))  # type: ignore[misc]


def test_rows_stay_in_the_file(small: Path) -> None:
    assert isinstance(read(small, ReadOptions()).compose.table, np.memmap)  # type: ignore[union-attr]


def test_a_limit_keeps_the_own_rows_of_the_words_left_out(small: Path) -> None:
    whole, cut = read(small, ReadOptions()), read(small, ReadOptions(limit=1))
    assert list(cut.words) == ["</s>"]
    np.testing.assert_array_equal(cut.compose(["né", "ab"]), whole.matrix[[2, 1]])  # type: ignore[misc]


def test_without_ngrams_there_is_nothing_to_compose_from(tmp_path: Path) -> None:
    path = tmp_path / "plain.bin"
    path.write_bytes(model_bytes([b"ab", b"c"], small_rows(2, 0), maxn=0, bucket=0))
    parsed = read(path, ReadOptions())
    assert parsed.compose is None
    assert parsed.matrix.flags.aligned
    np.testing.assert_array_equal(parsed.matrix, small_rows(2, 0))


def test_labels_are_not_words(tmp_path: Path) -> None:
    path = tmp_path / "classifier.bin"
    path.write_bytes(model_bytes([b"ab"], small_rows(1), model=3, labels=(b"__label__x", b"__label__y")))
    parsed = read(path, ReadOptions())
    assert list(parsed.words) == ["ab"]
    assert parsed.source["labels"] == 2
    assert parsed.source["model"] == "supervised"


def test_version_11_classifiers_have_no_ngrams_whatever_they_say(tmp_path: Path) -> None:
    path = tmp_path / "old.bin"
    path.write_bytes(model_bytes([b"ab"], small_rows(1), model=3, version=11))
    np.testing.assert_array_equal(read(path, ReadOptions()).matrix, small_rows(1)[:1])
    path.write_bytes(model_bytes([b"ab"], small_rows(1), model=2, version=11))
    assert read(path, ReadOptions()).compose is not None


def test_words_that_are_not_utf8_keep_their_own_ngrams(tmp_path: Path) -> None:
    path = tmp_path / "bytes.bin"
    path.write_bytes(model_bytes([b"a\xff"], small_rows(1), minn=4, maxn=4))
    with pytest.raises(FormatError, match=r"bytes.bin, word 1: not valid UTF-8.*\n.*encoding_errors"):
        read(path, ReadOptions())
    parsed = read(path, ReadOptions(encoding_errors="replace"))
    rows = small_rows(1).astype(np.float64)
    expected = (rows[0] + rows[1 + fnv1a_signed(b"<a\xff>") % BUCKET]) / 2
    assert parsed.words == ["a\ufffd"]
    np.testing.assert_allclose(parsed.matrix[0], expected, rtol=1e-6)


@pytest.mark.parametrize("word", ["", "</s>"])
def test_a_word_without_ngrams_cannot_be_composed(tmp_path: Path, word: str) -> None:
    path = tmp_path / "long.bin"
    path.write_bytes(model_bytes([b"abc"], small_rows(1), minn=3, maxn=4))
    with pytest.raises(
        VocabularyError, match=f"long.bin cannot compose '{word}': it has no n-gram of 3 to 4 characters"
    ):
        read(path, ReadOptions()).compose(["abcd", word])  # type: ignore[misc]


def test_not_a_number_among_the_ngram_rows_is_refused(tmp_path: Path) -> None:
    rows = small_rows(1)
    rows[1:] = np.uint32(0x7F800001).view(np.float32)  # a signalling NaN, which even a cast warns about
    path = tmp_path / "nan.bin"
    path.write_bytes(model_bytes([b"</s>"], rows))
    with pytest.raises(FormatError, match=r"nan.bin: NaN or infinity.*'abc'"):
        read(path, ReadOptions()).compose(["abc"])  # type: ignore[misc]


BAD = {
    "quantised": ({"quantised": 1}, "quantised or pruned.*\n.*use the .bin"),
    "pruned": ({"pruned": 2}, "quantised or pruned"),
    "version": ({"version": 13}, "fastText version 13; versions 11 and 12"),
    "model": ({"model": 9}, "invalid settings.*model=9"),
    "maxn": ({"maxn": 10**9}, "invalid settings.*maxn=1000000000"),
    "bucket": ({"bucket": 10**9}, "an input matrix of 7 x 2; the header requires 1,000,000,002 x 2"),
    "dim": ({"dim": 90_000}, "the input matrix takes 2,520,000 bytes"),
    "rows": ({"row_count": 10**15}, "the input matrix takes 8,000,000,000,000,000 bytes"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_a_header_that_cannot_be_true_names_the_file(tmp_path: Path, case: str) -> None:
    changes, message = BAD[case]
    path = tmp_path / "bad.bin"
    path.write_bytes(model_bytes([b"ab", b"cd"], small_rows(2), **changes))  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=rf"bad\.bin.*{message}"):
        read(path, ReadOptions())


def test_sizes_are_checked_before_memory_is_spent(tmp_path: Path) -> None:
    head = struct.pack("<2i12id", MAGIC, 12, 100_000, 5, 5, 1, 5, 1, 2, 2, 5, 3, 6, 100, 1e-4)
    plain, packed = tmp_path / "huge.bin", tmp_path / "huge.bin.gz"
    plain.write_bytes(head + struct.pack("<3i2q", 2**31 - 1, 2**31 - 1, 0, 9, -1) + b"word\0")
    with pytest.raises(FormatError, match=r"huge.bin, byte 92: the dictionary takes .* only 5 are left"):
        read(plain, ReadOptions())
    one = head + struct.pack("<3i2q", 1, 1, 0, 9, -1) + b"ab\0" + struct.pack("<qb", 1, 0)
    packed.write_bytes(gzip.compress(one + struct.pack("<B2q", 0, 2**40, 100_000) + bytes(400_000)))
    with pytest.raises(FormatError, match=r"huge.bin.gz, byte .*the file ends inside row 1 or later"):
        read(packed, ReadOptions())


def test_a_word_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "endless.bin"
    path.write_bytes(SMALL[:92] + b"x" * 300_000)
    with pytest.raises(FormatError, match="dictionary entry 1 of 3 has no end"):
        read(path, ReadOptions())


def test_empty_words_and_labels_among_words_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "kinds.bin"
    path.write_bytes(model_bytes([b"", b"a"], small_rows(2)))
    with pytest.raises(FormatError, match="an empty word, or a label among its words"):
        read(path, ReadOptions())
    path.write_bytes(SMALL.replace(b"ab\0" + struct.pack("<qb", 7, 0), b"ab\0" + struct.pack("<qb", 7, 1)))
    with pytest.raises(FormatError, match="an empty word, or a label among its words"):
        read(path, ReadOptions())


@pytest.mark.parametrize("packed", [False, True])
def test_every_truncation_is_found_and_placed(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("cut.bin.gz" if packed else "cut.bin")
    for length in range(len(SMALL)):
        path.write_bytes(gzip.compress(SMALL[:length]) if packed else SMALL[:length])
        with pytest.raises(FormatError, match=rf"{path.name}, byte \d+: "):
            read(path, ReadOptions())


def only_our_errors(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    complaint = f"{path.name} is fine"
    try:
        parsed = read(path, ReadOptions(encoding_errors="replace"))
        assert len(parsed.words) == len(parsed.matrix)
        if parsed.compose is not None:
            parsed.compose(["word"])
    except EvenhandError as error:
        complaint = str(error)
    assert path.name in complaint


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "fuzz.bin"


@given(st.binary(max_size=300))
def test_garbage_raises_only_our_errors(fuzzed: Path, garbage: bytes) -> None:
    only_our_errors(fuzzed, garbage)
    only_our_errors(fuzzed, SMALL[:8] + garbage)
    only_our_errors(fuzzed, SMALL[:92] + garbage)


@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 7)), min_size=1, max_size=4))
def test_flipped_bits_raise_only_our_errors(fuzzed: Path, flips: list[tuple[int, int]]) -> None:
    damaged = bytearray(SMALL)
    for position, bit in flips:
        damaged[position] ^= 1 << bit
    only_our_errors(fuzzed, bytes(damaged))


@pytest.mark.parametrize("settings", [{}, {"min_n": 1, "max_n": 4}, {"min_n": 2, "max_n": 3, "sg": 1}, {"max_n": 0}])
def test_gensim_computes_the_same_vectors(tmp_path: Path, settings: dict[str, int]) -> None:
    pytest.importorskip("gensim")
    from gensim.models import FastText
    from gensim.models.fasttext import save_facebook_model

    corpus = [["nurse", "doctor", "élève", "Straße", "日本語", "he", "she", "a", "naïve", "😀x"]] * 10
    model = FastText(corpus, vector_size=7, min_count=1, bucket=40, epochs=1, workers=1, seed=3, **settings)
    path = tmp_path / "gensim.bin"
    save_facebook_model(model, str(path))
    parsed = read(path, ReadOptions())
    assert list(parsed.words) == model.wv.index_to_key
    np.testing.assert_allclose(parsed.matrix, model.wv.vectors, rtol=0, atol=1e-6)
    if parsed.compose is None:
        assert settings == {"max_n": 0}
        return
    unseen = ["nurses", "écoles", "日本", "b", "😀", "Grüße"]
    np.testing.assert_allclose(parsed.compose(unseen), model.wv[unseen], rtol=0, atol=1e-6)
