"""Every reader on files that nobody wrote: it answers, or it refuses with an error of ours."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vector_strategies import COMPRESSIONS, quiet_load

from evenhand import Vectors
from evenhand.errors import EvenhandError
from evenhand.files import writing

V = Vectors(
    ["the", "of", ". .", "Zoë", "女", "nan"],
    np.random.default_rng(0).standard_normal((6, 5)),
    source={"from": "nowhere"},
).with_matrix(np.random.default_rng(1).standard_normal((6, 5)), step={"method": "none"})
ALPHABET = b'ab .,:\t\r\n0123456789+-einfNA"{}[]\\\xc3\xbc\xff\x00'
WINK = b'{"dimensions":2,"words":["a","b"],"vectors":{"a":[1,2,3,0],"b\\u00e9":[-1.5e-3,2,3,1]},"unkVector":[0,0]}'
FASTTEXT = struct.pack("<2i12id", 793712314, 12, 2, 5, 5, 1, 5, 1, 1, 2, 4, 2, 3, 100, 1e-4)
FASTTEXT += (
    struct.pack("<3i2q", 2, 2, 0, 9, -1) + b"he\0" + struct.pack("<qb", 5, 0) + b"she\0" + struct.pack("<qb", 4, 0)
)
FASTTEXT += struct.pack("<B2q", 0, 6, 2) + np.ones((6, 2), "<f4").tobytes() + struct.pack("<B2q", 0, 2, 2) + bytes(16)


def saved(suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        words = V.words if suffix != ".bin" else [word.replace(" ", "_") for word in V.words]
        return Vectors(words, V.matrix, history=V.history).save(Path(folder) / f"x{suffix}").read_bytes()


def parquet() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        pl.DataFrame({"word": list(V.words)}).write_parquet(Path(folder) / "x")
        return (Path(folder) / "x").read_bytes()


WHOLE = {
    ".txt": saved(".txt"),
    ".vec": saved(".vec"),
    ".bin": saved(".bin"),
    ".npy": saved(".npy"),
    ".safetensors": saved(".safetensors"),
    ".json": WINK,
    ".ft.bin": FASTTEXT,
    ".parquet": parquet(),
}
IDS = {".txt": "glove", ".vec": "fasttext", ".bin": "word2vec-bin", ".npy": "npy", ".safetensors": "safetensors",
       ".json": "wink", ".ft.bin": "fasttext-bin", ".parquet": "parquet-npy"}  # fmt: skip


def answers_or_refuses(suffix: str, content: bytes, compression: str = "", **options: Any) -> Vectors | None:
    """Load the content; None when it was refused. Any other exception goes through and fails the test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}{compression}"
        (Path(folder) / "x.vocab").write_text("\n".join(V.words))
        if suffix == ".parquet":
            np.save(Path(folder) / "m.npy", np.asarray(V.matrix))
        with writing(path) as out:
            out.write(content)
        try:
            made = quiet_load(path, cache=False, **options)
        except EvenhandError as error:
            refusal = str(error)
        else:
            assert np.isfinite(made.matrix).all()
            assert len(set(made.words)) == len(made) > 0
            return made
    assert folder in refusal
    return None


FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
each_format = pytest.mark.parametrize("suffix", WHOLE)


@each_format
def test_the_files_that_are_damaged_below_are_whole(suffix: str) -> None:
    assert answers_or_refuses(suffix, WHOLE[suffix]) is not None


@each_format
@FUZZ
@given(content=st.binary(max_size=300), forced=st.booleans(), limit=st.none() | st.integers(1, 3))
def test_random_bytes(suffix: str, content: bytes, forced: bool, limit: int | None) -> None:
    answers_or_refuses(suffix, content, limit=limit, **({"format": IDS[suffix]} if forced else {}))


@each_format
@FUZZ
@given(letters=st.lists(st.sampled_from(list(ALPHABET)), max_size=120), errors=st.sampled_from(["strict", "replace"]))
def test_random_lines(suffix: str, letters: list[int], errors: str) -> None:
    answers_or_refuses(suffix, bytes(letters), format=IDS[suffix], encoding_errors=errors)


FIELDS = st.one_of(
    st.sampled_from(["1", "-2.5", "1e5", "nan", "inf", "", "x", ".", "1_0", "女", "\ufeff", "\r", "1e999", "\u2028"]),
    st.floats(width=32).map(str),
    st.text(max_size=3),
)
LINES = st.lists(st.lists(FIELDS, max_size=5).map(" ".join), max_size=8)


@pytest.mark.parametrize("suffix", [".txt", ".vec"])
@settings(FUZZ, max_examples=100)
@given(
    lines=LINES, header=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 5)), end=st.sampled_from(["\n", "\r\n"])
)
def test_lines_that_are_nearly_vectors(suffix: str, lines: list[str], header: tuple[int, int] | None, end: str) -> None:
    text = end.join(([f"{header[0]} {header[1]}"] if header else []) + lines)
    content = text.encode(errors="surrogatepass")
    made = answers_or_refuses(suffix, content)
    if made is not None:  # what was read says the same when it is written and read again
        again = answers_or_refuses(".safetensors", _written(made))
        assert again == made


def _written(made: Vectors) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return made.save(Path(folder) / "x.safetensors").read_bytes()


@each_format
def test_cut_off_at_every_byte(suffix: str) -> None:
    whole = WHOLE[suffix]
    for size in range(len(whole)):
        answers_or_refuses(suffix, whole[:size])


@each_format
@settings(FUZZ, max_examples=100)
@given(data=st.data())
def test_bits_flipped_and_bytes_put_in(suffix: str, data: st.DataObject) -> None:
    content = bytearray(WHOLE[suffix])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                content[place] ^= 1 << data.draw(st.integers(0, 7))
            case 1:
                content[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x20, 0x0A]))
            case _:
                content[place:place] = data.draw(st.binary(max_size=9))
    answers_or_refuses(suffix, bytes(content))
    answers_or_refuses(suffix, bytes(content), format=IDS[suffix], encoding_errors="replace")


@pytest.mark.parametrize("compression", COMPRESSIONS[1:])
@each_format
@settings(FUZZ, max_examples=25)
@given(data=st.data())
def test_damage_to_the_compressed_file(suffix: str, compression: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.vocab").write_text("\n".join(V.words))
        np.save(Path(folder) / "m.npy", np.asarray(V.matrix))
        path = Path(folder) / f"x{suffix}{compression}"
        with writing(path) as out:
            out.write(WHOLE[suffix])
        packed = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(packed) - 1))
        if data.draw(st.booleans()):
            packed[place] ^= 1 << data.draw(st.integers(0, 7))
        else:
            del packed[place:]
        path.write_bytes(packed)
        try:
            quiet_load(path, cache=False)
        except EvenhandError as error:
            refusal = str(error)
        else:
            refusal = folder
    assert folder in refusal
