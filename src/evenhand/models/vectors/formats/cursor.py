"""Reading forward through a binary file that may be compressed, cut off, or not what it claims to be."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, Any

from evenhand.errors import FormatError
from evenhand.files import compression_of

CHUNK = 16 << 20


class Cursor:
    """A position in a stream. A stream that ends too early is an error that says where."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path = stream, path
        self.size = None if compression_of(path) else path.stat().st_size
        self.position = 0
        self._ahead = b""

    def take(self, count: int, what: str) -> bytes:
        """Exactly so many bytes; at most a chunk, or a number that was promised."""
        while len(self._ahead) < count:
            more = self.stream.read(count - len(self._ahead))
            if not more:
                raise self.broken(f"the file ends inside {what}")
            self._ahead += more
        taken = self._ahead[:count]
        self.advance(count)
        return taken

    def numbers(self, layout: str, what: str) -> tuple[Any, ...]:
        """Little-endian numbers without padding, in the letters of `struct`."""
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout), what))

    def window(self) -> tuple[bytes, bool]:
        """What lies ahead, with one chunk more than before, and whether there was any more."""
        more = self.stream.read(CHUNK)
        self._ahead += more
        return self._ahead, bool(more)

    def advance(self, count: int) -> None:
        """Step over bytes of the window."""
        self.position += count
        self._ahead = self._ahead[count:]

    def skip(self, count: int, what: str) -> None:
        """Step over bytes that nobody looks at, without holding them."""
        if self.size is None:
            while count > 0:
                count -= len(self.take(min(count, CHUNK), what))
            return
        self.promise(count, what)
        self._ahead = b""
        self.position += count
        self.stream.seek(self.position)

    def promise(self, count: int, what: str) -> None:
        """Refuse a size that the file cannot hold, before any memory is spent on it."""
        if self.size is not None and count > self.size - self.position:
            raise self.broken(f"{what} should take {count:,} bytes, and {self.size - self.position:,} are left")

    def broken(self, why: str) -> FormatError:
        """The error for a file that is not whole, with the place."""
        return FormatError(
            f"{self.path}, byte {self.position:,}: {why}",
            hint="fetch the file again, or name another --format if it is of another kind",
        )
