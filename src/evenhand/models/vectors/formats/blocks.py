"""A stream of bytes cut into large blocks that end at line ends: constant memory for any size of file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

# Measured on a 400,000 x 100 text file: 4 MiB 1.14 s, 16 MiB 0.96 s, 64 MiB 1.58 s (and 170 MB more memory).
BLOCK_BYTES = 16 << 20


def line_blocks(stream: IO[bytes], start: bytes = b"", size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Blocks of whole lines; the last line gets its missing line end. `start` was read from the stream before."""
    pieces = [start]
    while chunk := stream.read(size):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join((*pieces, memoryview(chunk)[:cut]))  # a view: one copy of each block, not two
            pieces = [chunk[cut:]]
        else:
            pieces.append(chunk)
    if rest := b"".join(pieces):
        yield rest if rest.endswith(b"\n") else rest + b"\n"
