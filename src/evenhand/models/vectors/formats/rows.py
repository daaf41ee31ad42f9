"""Lines "word number number ...": their layout, inferred from the first lines, and how they become float32 rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix
from evenhand.errors import FormatError
from evenhand.files import record_too_long
from evenhand.models.vectors.formats.format import MAX_RECORD

MAX_DIM = 100_000
SAMPLED_LINES = 100
# float() also accepts underscores and white space. NaN and infinity match here and are refused later.
# Possessive quantifiers keep the match linear.
NUMBER = re.compile(rb"[+-]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d++)?|nan|inf|infinity)", re.IGNORECASE)
LONGEST_NUMBER = 1000  # bytes; converting a decimal takes time quadratic in its length

Header = tuple[int, int]  # rows and dimension
WordRows = tuple[list[str], Matrix]
NEWLINE, RETURN = 0x0A, 0x0D
WIDE = 10_000  # above this dimension polars needs more memory for its columns than the numbers take
BYTE_ORDER_MARK = "\ufeff".encode()
# Measured on a 400,000 x 100 text file with three parsers on two cores: 4 MiB 1.57 s, 8 MiB 1.42 s, 16 MiB 1.58 s.
BLOCK_BYTES = 8 << 20
COUNTED_BYTES = 1 << 18


@dataclass(frozen=True)
class Layout:
    """Line layout of a file."""

    path: Path
    dim: int
    separator: bytes = b" "
    trailing: int = 0  # fastText ends each line with a separator
    encoding_errors: str = "strict"
    row_name: str = "line"

    @property
    def fields(self) -> int:
        """Number of separators on a line whose word contains none."""
        return self.dim + self.trailing


def split_header(start: bytes) -> tuple[Header | None, bytes]:
    """Split off a word2vec header: a first line of two integers, rows and dimension."""
    first, _, rest = start.partition(b"\n")
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) < 12 for field in fields):
        return (int(fields[0]), int(fields[1])), rest
    return None, start


def infer(path: Path, body: bytes, header: Header | None, encoding_errors: str = "strict") -> Layout:
    """Infer the layout of a file from its first bytes after the header."""
    complete = body.rpartition(b"\n")[0] or body
    lines = [line for raw in complete.split(b"\n", SAMPLED_LINES)[:SAMPLED_LINES] if (line := raw.rstrip(b"\r"))]
    separator = b"\t" if lines and lines[0].count(b"\t") > lines[0].count(b" ") else b" "
    trailing = int(bool(lines) and all(line.endswith(separator) for line in lines))
    if any(line.count(separator) > 2 * MAX_DIM for line in lines):  # checked before the lines are split
        raise FormatError(
            f"{path}: the first lines have more than {2 * MAX_DIM:,} fields",
            hint=f"expected a word and at most {MAX_DIM:,} numbers on each line",
        )
    rows = [line[: len(line) - trailing].split(separator) for line in lines]
    dim = header[1] if header else _dimension(rows)
    if not 1 <= dim <= MAX_DIM:
        raise FormatError(
            f"{path}: the first lines are not word vectors ({max(dim, 0)} numbers per line)",
            hint="expected a word and its numbers on each line, separated by single spaces or tabs",
        )
    if header:
        _check_dimension(path, rows, dim)
    return Layout(path, dim, separator, trailing, encoding_errors)


def _dimension(rows: Sequence[Sequence[bytes]]) -> int:
    """Return the dimension that contradicts the fewest rows.

    Tokens that contain separators only add fields, so a valid file agrees with its shortest row.
    """
    candidates = {len(row) - 1 for row in rows if len(row) > 1}
    if not candidates:
        return 0
    first = len(rows[0]) - 1
    return min(candidates, key=lambda dim: (_contradictions(rows, dim), dim != first, dim))


def _contradictions(rows: Sequence[Sequence[bytes]], dim: int) -> int:
    return sum(len(row) <= dim or has_more_numbers(row, dim) for row in rows)


def has_more_numbers(row: Sequence[bytes], dim: int) -> bool:
    """Return True if the field before the last `dim` fields is a number as well.

    An integer may belong to the token ("catch 22"), unless all numbers of the row are integers.
    """
    if len(row) <= dim + 1 or not is_number(row[-dim - 1]):
        return False
    return not _is_whole(row[-dim - 1]) or all(_is_whole(field) for field in row[-dim:])


def _is_whole(field: bytes) -> bool:
    return field.lstrip(b"+-").isdigit()


def _check_dimension(path: Path, rows: Sequence[Sequence[bytes]], dim: int) -> None:
    lengths = {len(row) - 1 for row in rows}
    more = all(len(row) > dim + 1 and is_number(row[-dim - 1]) for row in rows)
    if rows and (more or max(lengths) < dim):
        raise FormatError(
            f"{path}, line 1: the header states {dim:,} numbers per row, the next rows have {min(lengths):,}",
            hint="correct the header, or fetch the file again",
        )


def is_number(field: bytes) -> bool:
    """Return True if a field is a decimal number."""
    return len(field) <= LONGEST_NUMBER and NUMBER.fullmatch(field) is not None


def parse_block(block: bytes, layout: Layout, first_line: int) -> WordRows:
    """Return the words and the matrix of a block, one row per line.

    Lines with the expected number of separators are parsed together by polars. A token may contain separators (GloVe
    840B has ". . ."), so a line with more of them is parsed on its own, split from the right.
    """
    raw = np.frombuffer(block, dtype=np.uint8)
    lines, fields = _count(raw, NEWLINE), _count(raw, layout.separator[0])
    if fields < lines * layout.dim:
        # Checked before memory is allocated for missing numbers.
        raise _short_line(block, raw, layout, first_line)
    # Polars raises for extra fields and returns nulls for missing ones; if the total is right, every line is regular.
    # Polars strips a carriage return at the end of any field, so blocks with one are parsed line by line.
    if fields == lines * layout.fields and b"\r" not in block and layout.dim <= WIDE:
        regular = _parse_regular(block, layout, lines)
        if regular is not None:
            return regular
    odd = (_per_line(raw == layout.separator[0], raw) != layout.fields) | (layout.dim > WIDE)
    if b"\r" in block:
        odd |= _per_line(raw == RETURN, raw) > 0
    return _parse_mixed(block, layout, odd, first_line)


def _count(raw: NDArray[np.uint8], byte: int) -> int:
    """Count a byte piece by piece: the comparison then stays in the cache of the processor."""
    pieces = range(0, len(raw), COUNTED_BYTES)
    return sum(int(np.count_nonzero(raw[start : start + COUNTED_BYTES] == byte)) for start in pieces)


def _per_line(marks: NDArray[np.bool_], raw: NDArray[np.uint8]) -> NDArray[np.int64]:
    starts = np.concatenate(([0], np.flatnonzero(raw == NEWLINE)[:-1] + 1))
    return np.asarray(np.add.reduceat(marks, starts, dtype=np.int64))


def _short_line(block: bytes, raw: NDArray[np.uint8], layout: Layout, first_line: int) -> FormatError:
    line = int(np.argmax(_per_line(raw == layout.separator[0], raw) < layout.dim))
    return _wrong_length(block.split(b"\n", line + 1)[line], layout, first_line + line)


def _wrong_length(line: bytes, layout: Layout, number: int) -> FormatError:
    position = f"{layout.path}, {layout.row_name} {number:,}"
    if not line.strip():
        return FormatError(f"{position}: the {layout.row_name} is blank", hint="remove blank lines from the file")
    numbers = line.removesuffix(layout.separator).count(layout.separator)
    return FormatError(
        f"{position}: {numbers:,} numbers where other rows have {layout.dim:,}",
        hint="the file may be truncated, or two files concatenated; fetch it again or remove the row",
    )


def _parse_regular(block: bytes, layout: Layout, lines: int) -> WordRows | None:
    import polars as pl  # takes 0.25 s

    numbers = {f"{i}": pl.Float32 for i in range(layout.dim)}
    tail = {"tail": pl.String} if layout.trailing else {}
    if block.startswith(BYTE_ORDER_MARK):
        block = BYTE_ORDER_MARK + block  # polars strips one, but here it belongs to a word
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
    if len(frame) != lines or numeric.null_count().sum_horizontal().item():
        return None
    if layout.trailing and frame["tail"].null_count() < len(frame):  # a number after the last column
        return None
    words: list[str] = frame.to_series(0).to_list()
    return (words, numeric.to_numpy(order="c")) if all(words) else None


def _parse_mixed(block: bytes, layout: Layout, odd: NDArray[np.bool_], first_line: int) -> WordRows:
    lines = block[:-1].split(b"\n")
    words, matrix = [""] * len(lines), np.empty((len(lines), layout.dim), dtype=np.float32)
    regular = np.flatnonzero(~odd)
    if len(regular):
        parsed = _parse_regular(b"\n".join(lines[i] for i in regular) + b"\n", layout, len(regular))
        if parsed is None:
            odd = np.ones_like(odd)
        else:
            matrix[regular] = parsed[1]
            for i, word in zip(regular, parsed[0], strict=True):
                words[i] = word
    for i in np.flatnonzero(odd):
        words[i] = _parse_line(lines[i], layout, matrix[i], first_line + int(i))
    return words, matrix


def _parse_line(line: bytes, layout: Layout, out: Matrix, number: int) -> str:
    if layout.trailing:
        line = line.removesuffix(layout.separator)
    fields = line.rsplit(layout.separator, layout.dim)
    if len(fields) != layout.dim + 1 or has_more_numbers(line.rsplit(layout.separator, layout.dim + 1), layout.dim):
        raise _wrong_length(line, layout, number)
    bad = next((field for field in fields[1:] if not is_number(field)), None)
    if bad is not None:
        raise FormatError(
            f"{layout.path}, {layout.row_name} {number:,}: {bad[:40].decode(errors='replace')!r} is not a number",
            hint=f"expected a word and then {layout.dim:,} numbers",
        )
    with np.errstate(over="ignore"):  # overflow gives infinity, which is refused later with its line number
        out[:] = np.array([float(field) for field in fields[1:]])
    return _word(fields[0], layout, number)


def _word(raw: bytes, layout: Layout, number: int) -> str:
    position = f"{layout.path}, {layout.row_name} {number:,}"
    try:
        word = raw.decode(errors=layout.encoding_errors)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{position}: the word is not valid UTF-8 ({error.reason} at byte {error.start})",
            hint='read it with `encoding_errors="replace"`',
        ) from None
    if not word:
        raise FormatError(f"{position}: there is no word before the numbers", hint="remove the row, or add its word")
    return word


def line_blocks(
    stream: IO[bytes],
    path: Path,
    start: bytes = b"",
    size: int = BLOCK_BYTES,
    *,
    first_line: int = 1,
    max_record: int = MAX_RECORD,
) -> Iterator[bytes]:
    """Yield blocks of complete lines, adding a missing final line end. `start` was read before.

    Raises:
        FormatError: if a line is longer than `max_record` bytes.
    """
    pieces, line = [start], first_line
    pending = len(start) - start.rfind(b"\n") - 1  # bytes of the incomplete last line
    while chunk := stream.read(min(size, max_record)):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            block = b"".join((*pieces, memoryview(chunk)[:cut]))  # a view avoids a second copy
            line += block.count(b"\n")
            yield block
            pieces, pending = [chunk[cut:]], len(chunk) - cut
        else:
            pieces.append(chunk)
            pending += len(chunk)
        if pending > max_record:
            raise record_too_long(f"{path}, line {line + sum(piece.count(NEWLINE) for piece in pieces):,}", max_record)
    if rest := b"".join(pieces):
        yield rest if rest.endswith(b"\n") else rest + b"\n"


class GrowingMatrix:
    """A matrix that grows in blocks of rows by reallocation, without copying where the system can remap pages."""

    def __init__(self, dim: int) -> None:
        self._matrix = np.empty((0, dim), dtype=np.float32)
        self.rows = 0

    def expect(self, rows: int) -> None:
        """Allocate an expected number of rows; untouched memory is not resident."""
        if not self.rows:
            self._matrix = np.empty((rows, self._matrix.shape[1]), dtype=np.float32)

    def reserve(self, count: int) -> Matrix:
        """Return a view of the next `count` rows, valid until the next call."""
        needed = self.rows + count
        if needed > len(self._matrix):
            # Earlier views are invalid by contract, so the reference check is disabled.
            self._matrix.resize((max(needed, len(self._matrix) * 3 // 2), self._matrix.shape[1]), refcheck=False)
        self.rows = needed
        return self._matrix[needed - count : needed]

    def finish(self) -> Matrix:
        """Return the matrix without its unused rows."""
        self._matrix.resize((self.rows, self._matrix.shape[1]), refcheck=False)
        return self._matrix
