"""Each kind of bad file: the error names file, place and remedy, has exit code 4, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from vector_strategies import COMPRESSIONS

from evenhand import Vectors
from evenhand.errors import EvenhandError, EvenhandWarning, FormatError, InputMissingError, UsageError
from evenhand.files import writing

GARBAGE = np.random.default_rng(0).integers(0, 256, 5000, np.uint8).tobytes()
ROW = np.array([1.0, 2.0], "<f4").tobytes()


def refused(path: Path, content: bytes, why: str, **options: object) -> EvenhandError:
    with writing(path) as out:
        out.write(content)
    before = sorted(path.parent.iterdir())
    with pytest.raises((FormatError, InputMissingError), match=why) as caught:
        Vectors.load(path, **options)
    assert path.name in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 4
    assert sorted(path.parent.iterdir()) == before
    assert not list(Path(os.environ["EVENHAND_CACHE"]).rglob("*.safetensors"))
    return caught.value


@pytest.mark.parametrize(
    "name", ["x.txt", "x.vec", "x.bin", "x.ft.bin", "x.npy", "x.safetensors", "x.json", "x.parquet"]
)
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("content", [b"", b"\n", GARBAGE, bytes(5000)], ids=["empty", "blank", "garbage", "zeros"])
def test_nothing_and_garbage(name: str, compression: str, content: bytes, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.ones((2, 2)))
    refused(tmp_path / f"{name}{compression}", content, name)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"just some prose\nwithout any numbers at all\n", "line 1.*not a number|not word vectors"),
        (b"word\nword\n", "not word vectors"),
        (b"word\na 1 2\nb 3 4\n", r"line 1: 0 numbers where other rows have 2"),
        (b"a 1 2\nb 3\nc 5 6\n", r"line 2: 1 numbers where other rows have 2"),
        (b"a 0.1 0.2\nb 0.3\n", r"line 2: 1 numbers where"),
        (b"a 0.1 0.2\nb 0.3 0.4 0.5\nc 0.3 0.4\n", r"line 2: 3 numbers where other rows have 2"),
        (b"a 1 2\nb 3 4 5\nc 5 6\n", r"line 2: 3 numbers where"),
        (b"a 0.5 2\nb 3 x\n", r"line 2: 'x' is not a number"),
        (b"a 0.5 2\nb 3 1_0\n", r"line 2: '1_0' is not a number"),
        (b"a 0.5 2\nb 3 0x10\n", r"line 2: '0x10' is not a number"),
        (b"a 0.5 2\nb 3 \n", r"line 2: '' is not a number"),
        (b"a 0.5 2\n\nb 3 4\n", r"line 2: the line is blank\n.*remove blank lines"),
        (b"a 0.5 2\nb 3 4\n\n", r"line 3: the line is blank"),
        (b"a 0.5 2\n 3 4\n", r"line 2: there is no word"),
        (b"a 0.5 2\nb 3 nan\n", r"line 2 \('b'\): NaN or infinity"),
        (b"a 0.5 2\nb 3 -inf\n", r"line 2 \('b'\): NaN or infinity"),
        (b"a 0.5 2\nb 3 1e39\n", r"line 2 \('b'\): NaN or infinity"),
        (b". . 0.5 1e39\nb 3 4.5\n", r"line 1 \('\. \.'\): NaN or infinity"),
        (b"a 0.5 2\nb\xff 3 4\n", r"line 2: the word is not valid UTF-8.*\n.*replace"),
        (b"a 0.5 2\n. \xff 3 4.5\n", r"line 2: the word is not valid UTF-8"),
        (b"a 0.5 2\nb\xed\xa0\x80 3 4\n", r"line 2: the word is not valid UTF-8"),
        (b"3 2\na 1 2\nb 3 4\n", r"line 1: the header states 3 rows, the file has 2\n.*'2 2'"),
        (b"1 2\na 1 2\nb 3 4\n", r"line 1: the header states 1 rows, the file has 2"),
        (b"2 3\na 1 2\nb 3 4\n", r"line 1: the header states 3 numbers per row, the next rows have 2"),
        (b"2 1\na 1 2\nb 3 4\n", r"line 1: the header states 1 numbers per row, the next rows have 2"),
        (b"2 0\na 1 2\nb 3 4\n", r"not word vectors"),
        (b"2 2\n", r"no vectors|not word vectors|states"),
        (b"999999999 300\na 1 2\n", r"line 1: the header states 300"),
        (b"99999999999 100000\n" + b"a\n" * 9999, r"line 1: the header states 100,000"),
        (b"a" + b" 1" * 100_001 + b"\n", r"not word vectors"),
        (b"a 1 2\0\n", r"binary data where text was expected\n.*`format="),
    ],
)
@pytest.mark.parametrize("compression", ["", ".zst"])
def test_text(content: bytes, why: str, compression: str, tmp_path: Path) -> None:
    refused(tmp_path / f"x.txt{compression}", content, why)


def test_a_line_far_down_is_named_by_its_number(tmp_path: Path) -> None:
    good = b"".join(b"w%d 0.5 -1.5\n" % row for row in range(50_000))
    refused(tmp_path / "x.txt", good + b"bad 1\n", r"line 50,001: 1 numbers")
    refused(tmp_path / "x.vec", b"50001 2\n" + good + b"bad 1 nan\n", r"line 50,002 \('bad'\)")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"2 2\na " + ROW + b"\nb " + ROW[:5], r"inside word 2 of 2|more than the file holds"),
        (b"2 2\na " + ROW, "more than the file holds|inside word 2"),
        (b"999999999 300\na " + ROW, r"999,999,999 words of 300 numbers, more|inside word 1"),
        (b"1 2\na " + ROW + b"\nb " + ROW, r"more data after the 1 words"),
        (b"1 2\na " + ROW + b"\n!", r"more data after the 1 words"),
        (b"1 0\na " + ROW, r"line 1: the header states a dimension of 0"),
        (b"1 999999\na " + ROW, r"line 1: the header states a dimension of 999,999"),
        (b"0 2\n", "contains no vectors"),
        (b"nonsense\n" + ROW, r"not a word2vec header"),
        (b"1 2 3\n" + ROW, r"not a word2vec header"),
        (b"1 2\n\xff\xfe " + ROW, r"word 1: not valid UTF-8.*\n.*replace"),
        (b"2 2\na " + ROW + b"\n " + ROW, r"word 2: the word is empty"),
        (b"1 2\na " + np.array([1, np.nan], "<f4").tobytes(), r"row 1 \('a'\): NaN or infinity"),
        (b"1 2\n" + b"a" * 70_000 + b" " + ROW, r"word 1 has no end within 65,536 bytes"),
    ],
)
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_word2vec_binary(content: bytes, why: str, compression: str, tmp_path: Path) -> None:
    refused(tmp_path / f"x.bin{compression}", content, why, format="word2vec-bin")


def test_word2vec_binary_cut_off_at_every_byte(tmp_path: Path) -> None:
    whole = Vectors(["he", "she", "it"], np.ones((3, 2))).save(tmp_path / "x.bin").read_bytes()
    for size in range(1, len(whole) - 1):  # the last byte is a line end that other tools leave out
        refused(tmp_path / "x.bin", whole[:size], "x.bin", format="word2vec-bin")


def npy_header(text: str) -> bytes:
    padded = text.ljust(118 - 10 - 1) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode("latin1")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (999999999, 300)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 300)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '<U4', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 1)}",
        "{'descr': '|V9999999999', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 2)}",
        "{'descr': '<f4', 'shape': (2, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 'x')}",
        "((((((((((((((((((((((((((",
        "__import__('os')",
        "",
    ],
)
@pytest.mark.parametrize("compression", ["", ".zst"])
def test_npy(header: str, compression: str, tmp_path: Path) -> None:
    (tmp_path / "x.vocab").write_text("a\nb\n")
    refused(tmp_path / f"x.npy{compression}", npy_header(header) + bytes(16), r"x\.npy")


@pytest.mark.parametrize("size", [3, 6, 7, 8, 9, 10, 60, 127, 128, 130, 143])
@pytest.mark.parametrize("compression", ["", ".xz"])
def test_npy_cut_off(size: int, compression: str, tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.ones((2, 2), np.float32))
    (tmp_path / "x.vocab").write_text("a\nb\n")
    content = (tmp_path / "whole.npy").read_bytes()[:size]
    refused(tmp_path / f"x.npy{compression}", content, r"x\.npy", format="npy")


def test_npy_with_more_behind_a_packed_matrix(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.ones((2, 2), np.float32))
    (tmp_path / "x.vocab").write_text("a\nb\n")
    refused(tmp_path / "x.npy.gz", (tmp_path / "whole.npy").read_bytes() + b"!", "more data follows")


def test_nan_in_a_mapped_matrix_is_found_by_row(tmp_path: Path) -> None:
    matrix = np.ones((60_000, 2), np.float32)
    matrix[55_555, 1] = np.nan
    np.save(tmp_path / "x.npy", matrix)
    (tmp_path / "x.vocab").write_text("\n".join(f"w{row}" for row in range(60_000)))
    with pytest.raises(FormatError, match=r"row 55,556 \('w55555'\)"):
        Vectors.load(tmp_path / "x.npy")


def test_duplicates_keep_the_first_row_and_are_reported(tmp_path: Path) -> None:
    (tmp_path / "x.vec").write_text("4 1\na 1\nb 2\na 3\nb 4\n")
    with pytest.warns(EvenhandWarning, match=r"x\.vec: 2 rows repeat an earlier word.*line 4 \('a'\)"):
        made = Vectors.load(tmp_path / "x.vec")
    assert made.words == ("a", "b")
    assert made.matrix.tolist() == [[1], [2]]


def test_a_zero_row_is_kept_and_reported(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a 1 2\nz 0 -0\n")
    with pytest.warns(EvenhandWarning, match=r"x\.txt: 1 rows are all zero, the first at line 2 \('z'\).*cosine"):
        assert Vectors.load(tmp_path / "x.txt").words == ("a", "z")


@pytest.mark.parametrize("options", [{"limit": 0}, {"limit": -3}, {"encoding_errors": "ignore"}])
def test_options_that_make_no_sense(options: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a 1 2\n")
    with pytest.raises(UsageError, match="replace"):
        Vectors.load(tmp_path / "x.txt", **options)


@pytest.mark.parametrize(
    "name", ["nothing-here.txt", "~nobody-of-that-name/x.txt", "x" * 300, "a\0b", "no-such-data-set"]
)
def test_a_path_to_nothing(name: str) -> None:
    with pytest.raises(InputMissingError, match=r"no vector file.*no data set.*\n.*evenhand list data"):
        Vectors.load(name)


def test_a_folder_a_pipe_and_a_device(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match="is a folder, not a vector file"):
        Vectors.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for endless in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises((FormatError, InputMissingError), match=r"pipe or a device.*\n.*write it to a file"):
            Vectors.load(endless)


def test_an_unwritable_target_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    made = Vectors(["a"], [[1.0]])
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.txt").mkdir()
    for bad in (tmp_path / "file" / "x.txt", tmp_path / "folder.txt", tmp_path / ("x" * 300 + ".txt")):
        with pytest.raises(OSError, match="could not be written") as caught:
            made.save(bad)
        assert str(bad) in str(caught.value)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder.txt"]


def safetensors(*, rows: int) -> bytes:
    """A valid header over tensors of zeros, more than the memory of the test allows."""
    size = 4 * rows
    header = json.dumps({"vectors": {"dtype": "F32", "shape": [rows, 1], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


LIMITED = """
import resource, sys
from evenhand import Vectors
from evenhand.errors import FormatError
Vectors.load(sys.argv.pop(1), cache=False)  # threads and libraries take their memory now
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20),) * 2)
for path in sys.argv[1:]:
    try:
        Vectors.load(path, cache=False)
    except FormatError as error:
        print(type(error).__name__)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs the process file system of Linux")
def test_headers_that_promise_too_much_take_no_memory(tmp_path: Path) -> None:
    bombs = {
        "a.vec": b"999999999 300\n" + b"a" + b" 1" * 300 + b"\n",
        "b.vec": b"99999999999 100000\n" + b"a" + b" 1" * 100_000 + b"\n" + b"a\n" * 500_000,
        "c.txt": b"a" + b" 1" * 90_000 + b"\n" + b"b\n" * 500_000,
        "d.bin": b"999999999 300\na " + bytes(5000),
        "e.bin.gz": b"999999999 300\na " + bytes(5000),
        "f.npy": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (999999999, 300)}"),
        "g.npy.zst": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (999999999, 300)}"),
        "h.json": b'{"dimensions":100000,"vectors":{' + b'"a":[1],' * 500_000 + b"}}",
        "i.safetensors.gz": safetensors(rows=80_000_000),
        "j.txt": b"a 1 2\nb 3 4\n" + b"1" * (100 << 20) + b"\n",
        "k.txt.gz": b"a 1 2\nb 3 4\n" + b" " * (100 << 20) + b"\n",
        "l.txt.gz": b"1 " * (32 << 20),
        "m.json.gz": b'{"dimensions":2,"vectors":{"a":[' + b"1," * (32 << 20),
        "n.npy.gz": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 80000000)}") + bytes(320_000_000),
    }
    for name, content in bombs.items():
        with writing(tmp_path / name) as out:
            out.write(content)
    (tmp_path / "good.txt").write_text("".join(f"w{row} 1 2\n" for row in range(1000)))
    for name in ("f", "g", "n"):
        (tmp_path / f"{name}.vocab").write_text("a\n")
    files = [str(tmp_path / name) for name in ("good.txt", *bombs)]
    done = subprocess.run([sys.executable, "-c", LIMITED, *files], capture_output=True, text=True)
    assert done.stdout.split() == ["FormatError"] * len(bombs), done.stderr


def test_the_longest_record_is_adjustable(tmp_path: Path) -> None:
    long = b"x" * 3_000_000
    error = refused(
        tmp_path / "x.txt",
        b"a 1 2\n" + long + b" 3 4\n",
        "line 2: a record or word is longer than 1,000,000",
        max_record=10**6,
    )
    assert "`max_record=`" in error.hint
    (tmp_path / "y.txt").write_bytes(b"a 1 2\n" + long + b" 3 4\n")
    assert len(Vectors.load(tmp_path / "y.txt")) == 2
    with pytest.raises(UsageError, match="max_record"):
        Vectors.load(tmp_path / "y.txt", max_record=0)


def test_a_vocabulary_without_line_ends_is_limited(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 2), np.float32))
    with writing(tmp_path / "x.vocab.gz") as out:
        out.write(b"a" * 5_000_000)
    with pytest.raises(FormatError, match=r"x\.vocab\.gz, line 1: a record or word is longer than 1,000,000"):
        Vectors.load(tmp_path / "x.npy", vocabulary=tmp_path / "x.vocab.gz", max_record=10**6)


def test_wide_rows_are_read(tmp_path: Path) -> None:
    numbers = np.arange(40_000, dtype=np.float32).reshape(2, 20_000) / 7
    Vectors(["a", "b"], numbers).save(tmp_path / "x.txt")
    assert np.array_equal(Vectors.load(tmp_path / "x.txt").matrix, numbers)


def seconds(path: Path, content: bytes) -> float:
    """Processor time of the faster of three attempts to load a broken file."""
    path.write_bytes(content)
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        with pytest.raises(FormatError):
            Vectors.load(path, cache=False)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("field", [b"1", b"1.", b".1", b"1e1", b"+-", b"nan", b"_1"])
def test_a_long_field_takes_linear_time(field: bytes, tmp_path: Path) -> None:
    def line(size: int) -> bytes:
        return b"a " + field * (size // len(field)) + b"x 1\n"

    # Eight times the length takes eight times as long; with a quadratic pattern it took 64 times as long, in minutes.
    short, long = (seconds(tmp_path / "x.txt", b"b 1 2\n" * 20 + line(size)) for size in (100_000, 800_000))
    assert long < 24 * max(short, 0.005)


def test_a_number_of_a_million_digits_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "x.txt", b"b 1 2\r\nc 1 2\r\na " + b"1" * 1_000_000 + b" 1\n", "is not a number|NaN or infinity")


@pytest.mark.parametrize("name", ["x.vocab", "x.npy.history.json"])
def test_a_pipe_beside_the_vectors_does_not_block(name: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 2), np.float32))
    (tmp_path / "vocab.txt").write_text("a\n")
    os.mkfifo(tmp_path / name)
    code = (
        "import sys, warnings; from evenhand import Vectors; from evenhand.errors import EvenhandError\n"
        "warnings.simplefilter('error')\n"
        "try: Vectors.load(sys.argv[1])\n"
        "except (EvenhandError, UserWarning) as error: print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x.npy")], capture_output=True, text=True, timeout=60, check=True
    )
    assert "is a pipe or a device" in run.stdout, run.stderr


def test_a_vocabulary_tensor_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = Vectors(["aé", "b"], [[1.0], [2.0]]).save(tmp_path / "x.safetensors")
    path.write_bytes(path.read_bytes().replace("aé".encode(), b"a\xff\xfe"))
    with pytest.raises(FormatError, match=r"x\.safetensors, line 1 of the vocabulary: not valid UTF-8"):
        Vectors.load(path)


@pytest.mark.parametrize("depth", [200_000])
@pytest.mark.parametrize("where", ["header", "source"])
def test_deep_nesting_is_refused(where: str, depth: int, tmp_path: Path) -> None:
    deep = "[" * depth
    metadata = {"layout": "evenhand-vectors-1", "source": deep}
    header = f'{{"vectors": {deep}' if where == "header" else json.dumps({"__metadata__": metadata})
    raw = header.encode()
    (tmp_path / "x.safetensors").write_bytes(len(raw).to_bytes(8, "little") + raw)
    with pytest.raises(FormatError, match=r"x\.safetensors"):
        Vectors.load(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        (["config.json", "model.safetensors"], r"Hugging Face.*\n.*eh\.open\('hf:.*view\('vectors'\)"),
        (["meta.json", "vocab/vectors"], r"spaCy.*\n.*_md or _lg"),
        (["x.vec"], r"a folder, not a vector file\n.*file inside"),
    ],
)
def test_a_folder_is_refused_with_the_way_to_open_it(files: list[str], hint: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_text("{}")
    with pytest.raises(InputMissingError, match=hint):
        Vectors.load(tmp_path / "model")
