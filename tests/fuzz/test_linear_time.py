"""Every reader does work in proportion to the file, also on openings that are never closed.

Work is counted, not timed: calls of Python and C functions, and the most memory held. Regular expressions and parsers
in C do theirs inside one call; the slow form compares processor time as well, with a wide margin.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz_targets import JSON_TOKENS, TARGETS, Target, framed

SMALL, FACTOR = 500, 4
OPENINGS = {
    "json": (b"[", b'{"a":', b'"', b"\\", b"[{"),
    "table": (b'"', b",", b"\t", b'"\n', b'","'),
    "toml": (b"[", b'"""', b"a = [", b"[[", b"{", b"'''\n"),
    "vectors": (b" ", b"1 ", b"a 1\n", b"\n", b"\r", b"{"),
    "corpus-mediawiki": (
        b"{{", b"[[", b"{|\n", b"<ref>", b"<text>", b"<!--", b"<title>", b"&#", b"''", b"[http:", b"<text>\n{{", b"&lt;ref&gt;",
        b"<math", b"}}", b"|",
    ),
    "corpus-warc": (b"WARC/1.0\r\n", b"WARC/1.0\r\nContent-Length: 0\r\n\r\n", b"\r\n", b"a: b\r\n"),
    "winobias": (b"[", b"[the ", b"1 ", b"he ", b"]"),
    "gguf": (bytes(8), b"\x01" + bytes(7), b"\x09\0\0\0"),
    "onnx": (b"\x0a\x02", b"\x3a\x04", b"\x80", b"\x2a\x00", b"\x0a\x00"),
    "pages": (b"&words=a", b"%3C", b"{}", b"\n", b"\na: b", b"a\n\n", b"a,", b"%0A", b"<"),
    "texts": (b"\n", b"she ", b"a", b"\xe2\x80\xa8", b"\r"),
    "zstd": (b"\x50\x2a\x4d\x18\0\0\0\0", b"\x28\xb5\x2f\xfd"),
}  # fmt: skip
BINARY = ("archive", "parquet", "npy", "arrow", "zstd")


def openings(target: Target) -> tuple[bytes, ...]:
    """Return the tokens that a file of this format is flooded with."""
    for name in (target.name, target.name.partition("-")[0]):
        if name in OPENINGS and name != "vectors":
            return OPENINGS[name]
    if target.tokens is JSON_TOKENS or target.wrap is framed:
        return OPENINGS["json"]
    if target.file.endswith(".toml"):
        return OPENINGS["toml"]
    if target.name.startswith("vectors"):
        return OPENINGS["vectors"]
    return OPENINGS["table"]


def floods(target: Target, number: int) -> dict[str, bytes]:
    """Return files of a repeated token, alone and behind the beginning of a valid file."""
    start = target.seeds()[0]
    start = start[: len(start) // 2] if not any(kind in target.name for kind in BINARY) else start
    return {f"{place} {token!r}": head + token * number
            for token in openings(target) for place, head in (("alone", b""), ("behind", start))}  # fmt: skip


def calls(work: Callable[[], object]) -> int:
    """Return how many functions were called."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


READERS = list(TARGETS.values())


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_calls_and_memory_grow_with_the_file(reader: Target, tmp_path: Path) -> None:
    if reader.missing:
        pytest.skip(f"{reader.missing} is not installed")
    file = reader.prepare(tmp_path)
    reader.execute(file, reader.seeds()[0])  # imports on first use are not counted
    larger = floods(reader, FACTOR * SMALL)
    for what, small in floods(reader, SMALL).items():
        few, many = (calls(lambda data=data: reader.execute(file, data)) for data in (small, larger[what]))
        assert many <= 1.5 * FACTOR * few + 2000, (what, few, many)


def processor_time(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_processor_time_and_memory_grow_with_the_file(reader: Target, tmp_path: Path) -> None:
    """At 16 times the size, quadratic work takes 256 times as long; 64 is allowed."""
    if reader.missing:
        pytest.skip(f"{reader.missing} is not installed")
    file = reader.prepare(tmp_path)
    larger = floods(reader, 16 * 16 * SMALL)
    for what, small in floods(reader, 16 * SMALL).items():
        used, held = [], []
        for data in (small, larger[what]):
            used.append(min(processor_time(lambda data=data: reader.execute(file, data)) for _ in range(3)))
            tracemalloc.start()
            reader.execute(file, data)
            held.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert used[1] <= 64 * max(used[0], 0.005), (what, used)
        assert held[1] <= 24 * max(held[0], len(small)), (what, held)
