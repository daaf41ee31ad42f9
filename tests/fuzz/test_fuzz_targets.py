"""Every reader on valid files, on inputs that once made it fail, and on a few structured mutations of each."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest
from fuzz_mutations import mutate_json
from fuzz_targets import TARGETS, Target

FOUND = Path(__file__).parent / "found"
MUTATIONS = 12
each_target = pytest.mark.parametrize("reader", TARGETS.values(), ids=list(TARGETS))


@pytest.fixture
def file(reader: Target, tmp_path: Path) -> Path:
    if reader.missing:
        pytest.skip(f"{reader.missing} is not installed")
    return reader.prepare(tmp_path)


@each_target
def test_a_reader_accepts_the_file_that_fuzzing_starts_from(reader: Target, file: Path) -> None:
    assert reader.execute(file, reader.seeds()[0])


@each_target
def test_a_reader_answers_or_refuses(reader: Target, file: Path) -> None:
    choose = random.Random(zlib.crc32(reader.name.encode()))
    for seed in reader.seeds():
        for _ in range(MUTATIONS):
            structured = mutate_json(seed, choose) if choose.random() < 0.7 else None
            reader.execute(file, structured if structured is not None else damaged(seed, choose))


def damaged(seed: bytes, choose: random.Random) -> bytes:
    """Cut, repeat or overwrite a few bytes."""
    data = bytearray(seed)
    for _ in range(choose.randrange(1, 4)):
        start = choose.randrange(len(data) + 1)
        stop = min(start + choose.choice((0, 1, 2, 8, 64)), len(data))
        data[start:stop] = choose.choice((b"", choose.randbytes(1), data[start:stop] * 2, b"\xff" * 8, bytes(4)))
    return bytes(data)


@pytest.mark.parametrize(
    "path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}"
)  # fmt: skip
def test_an_input_that_once_made_a_reader_fail(path: Path, tmp_path: Path) -> None:
    reader = TARGETS[path.parent.name]
    if reader.missing:
        pytest.skip(f"{reader.missing} is not installed")
    reader.execute(reader.prepare(tmp_path), path.read_bytes())
