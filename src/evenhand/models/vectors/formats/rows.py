"""Lines "word number number ..." to words and float32 rows: whole blocks at full speed, odd lines one by one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from evenhand.arrays import Matrix
from evenhand.errors import FormatError

NEWLINE = 0x0A


@dataclass(frozen=True)
class Layout:
    """How the lines of one file are laid out, told by its first lines."""

    path: Path
    dim: int
    separator: bytes = b" "
    trailing: int = 0  # fastText ends each line with a separator
    encoding_errors: str = "strict"

    @property
    def fields(self) -> int:
        """Separators on a line whose word contains none."""
        return self.dim + self.trailing


def parse_block(block: bytes, layout: Layout, out: Matrix, first_line: int) -> list[str]:
    """Fill `out`, one row a line, and return the words.

    Lines with the expected number of separators go through polars together. A token may contain the separator itself
    (GloVe 840B has ". . ."), so a line with more of them is split from the right by the dimension, on its own.
    """
    raw = np.frombuffer(block, dtype=np.uint8)
    separators = raw == layout.separator[0]
    # Too many fields make polars refuse the block, too few leave nulls: with the total right as well, no line is odd.
    if np.count_nonzero(separators) == len(out) * layout.fields:
        words = _parse_regular(block, layout, out)
        if words is not None:
            return words
    starts = np.concatenate(([0], np.flatnonzero(raw == NEWLINE)[:-1] + 1))
    odd = np.add.reduceat(separators, starts, dtype=np.int64) != layout.fields
    return _parse_mixed(block, layout, out, odd, first_line)


def _parse_regular(block: bytes, layout: Layout, out: Matrix) -> list[str] | None:
    numbers = {f"{i}": pl.Float32 for i in range(layout.dim)}
    tail = {"tail": pl.String} if layout.trailing else {}
    try:
        frame = pl.read_csv(
            block,
            has_header=False,
            separator=layout.separator.decode(),
            quote_char=None,
            schema={"word": pl.String, **numbers, **tail},
        )
    except pl.exceptions.PolarsError:
        return None
    numeric = frame.select(list(numbers))
    if len(frame) != len(out) or numeric.null_count().sum_horizontal().item():
        return None
    out[:] = numeric.to_numpy(order="c")
    words: list[str] = frame.to_series(0).to_list()
    return words if all(words) else None


def _parse_mixed(block: bytes, layout: Layout, out: Matrix, odd: np.ndarray, first_line: int) -> list[str]:
    lines = block[:-1].split(b"\n")
    words = [""] * len(lines)
    regular = np.flatnonzero(~odd)
    if len(regular):
        rows = np.empty((len(regular), layout.dim), dtype=np.float32)
        parsed = _parse_regular(b"\n".join(lines[i] for i in regular) + b"\n", layout, rows)
        if parsed is None:
            odd, regular = np.ones_like(odd), regular[:0]
        else:
            out[regular] = rows
            for i, word in zip(regular, parsed, strict=True):
                words[i] = word
    for i in np.flatnonzero(odd):
        words[i] = _parse_line(lines[i], layout, out[i], first_line + int(i))
    return words


def _parse_line(line: bytes, layout: Layout, out: Matrix, number: int) -> str:
    if not line.strip():
        raise FormatError(f"{layout.path}, line {number:,}: the line is blank", hint="remove blank lines from the file")
    if layout.trailing:
        line = line.removesuffix(layout.separator)
    fields = line.rsplit(layout.separator, layout.dim)
    if len(fields) != layout.dim + 1:
        found = len(fields) - 1
        raise FormatError(
            f"{layout.path}, line {number:,}: {found} numbers where the file's other rows have {layout.dim}",
            hint="the file may be cut off or two files run together; fetch it again or remove the line",
        )
    try:
        out[:] = [float(field) for field in fields[1:]]
    except ValueError:
        bad = next(field for field in fields[1:] if not _is_number(field))
        raise FormatError(
            f"{layout.path}, line {number:,}: {bad[:40].decode(errors='replace')!r} is not a number",
            hint=f"expected a word and then {layout.dim} numbers",
        ) from None
    return _word(fields[0], layout, number)


def _word(raw: bytes, layout: Layout, number: int) -> str:
    last = raw.rpartition(layout.separator)[2] if layout.separator in raw else b""
    if b"." in last and _is_number(last):
        raise FormatError(
            f"{layout.path}, line {number:,}: more than {layout.dim} numbers",
            hint="rows of unequal length; fetch the file again or remove the line",
        )
    try:
        word = raw.decode(errors=layout.encoding_errors)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{layout.path}, line {number:,}: the word is not valid UTF-8 ({error.reason} at byte {error.start})",
            hint='read it with encoding_errors="replace" (command line: --encoding-errors replace)',
        ) from None
    if not word:
        raise FormatError(f"{layout.path}, line {number:,}: there is no word before the numbers")
    return word


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
