"""Vectors as text: GloVe, word2vec and fastText .vec, and the JSON of the wink packages.

A line is "word number number ...". Its layout is inferred from the first lines, with or without a header. wink files
are {"dimensions": d, "vectors": {"the": [d numbers, norm, rank], ...}}; they are parsed as a stream, because
300 MB of JSON would create 35 million Python floats.
"""

from __future__ import annotations

import io
import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix
from evenhand.errors import FormatError
from evenhand.files import compression_of, open_bytes, record_too_long, writing
from evenhand.models.vectors.formats.format import MAX_RECORD, Format, Parsed, ReadOptions, WordMatrix, register_format

START_BYTES = 1 << 20
WRITE_ROWS = 20_000
PARSERS = 3


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read any of the three layouts, detected from the first lines."""
    with open_bytes(path, kept=True) as stream:
        header, body = split_header(_first_lines(stream, path, options.max_record))
        layout = infer(path, body, header, options.encoding_errors)
        words, matrix = _read_rows(stream, body, layout, options, 2 if header else 1)
    if header and options.limit is None:
        _check_header(path, header, len(words))
    return Parsed(words, matrix, first_line=2 if header else 1)


def _first_lines(stream: IO[bytes], path: Path, max_record: int = MAX_RECORD) -> bytes:
    """Return the start of the file, with at least two complete lines if it has them."""
    start = stream.read(START_BYTES)
    while start.count(b"\n") < 2 and len(start) <= max_record and (more := stream.read(START_BYTES)):
        start += more
    if b"\n" not in start and len(start) > max_record:
        raise record_too_long(f"{path}, line 1", max_record)
    if not start.strip():
        raise FormatError(f"{path}: the file is empty", hint="fetch it again")
    if b"\0" in start:
        raise FormatError(
            f"{path}: binary data where text was expected",
            hint="name the format, `format='word2vec-bin'` or `format='fasttext-bin'`, or give its usual suffix",
        )
    # A byte order mark is not part of the first word.
    marked = start.startswith(BYTE_ORDER_MARK) and start[3:4] not in (b" ", b"\t")
    return start[3:] if marked else start


def _read_rows(stream: IO[bytes], body: bytes, layout: Layout, options: ReadOptions, line: int) -> ParsedLines:
    """Parse blocks of lines side by side, and collect them in their order."""
    words: list[str] = []
    matrix = GrowingMatrix(layout.dim)
    # Polars parses a block on all cores, but counting separators, transposing and copying take one core each.
    with ThreadPoolExecutor(PARSERS) as pool:
        pending: deque[Future[ParsedLines]] = deque()
        for first_line, block in _numbered_blocks(stream, body, layout, options, line):
            if first_line == line:
                matrix.expect(_rows_by_size(layout, block))
            pending.append(pool.submit(parse_block, block, layout, first_line))
            if len(pending) > PARSERS:
                _collect(pending.popleft().result(), words, matrix)
        while pending:
            _collect(pending.popleft().result(), words, matrix)
    return words, matrix.finish()


def _collect(parsed: ParsedLines, words: list[str], matrix: GrowingMatrix) -> None:
    matrix.reserve(len(parsed[0]))[:] = parsed[1]
    words += parsed[0]


def _numbered_blocks(
    stream: IO[bytes], body: bytes, layout: Layout, options: ReadOptions, line: int
) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of lines, each with the number of its first line, up to the row limit."""
    limit, first_line = options.limit, line
    size = BLOCK_BYTES if limit is None else min(BLOCK_BYTES, START_BYTES)
    reader = line_blocks(stream, layout.path, body, size, first_line=line, max_record=options.max_record)
    for raw in reader:
        block = _plain(raw, layout) if limit is None else _first(_plain(raw, layout), line + limit - first_line)
        yield first_line, block
        first_line += block.count(b"\n")
        if limit is not None and first_line >= line + limit:
            break


def _plain(block: bytes, layout: Layout) -> bytes:
    """Return the block with plain line ends, and with valid UTF-8 if errors are replaced."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    return block.decode(errors="replace").encode() if layout.encoding_errors == "replace" else block


def _rows_by_size(layout: Layout, block: bytes) -> int:
    """Estimate the number of rows from the first block, with a margin."""
    if compression_of(layout.path):
        return 0
    size = layout.path.stat().st_size
    likely = int(size / len(block) * block.count(b"\n") * 1.03)
    return min(likely, size // (2 * layout.dim))  # a number takes at least two bytes


def _first(block: bytes, lines: int) -> bytes:
    return b"".join(line + b"\n" for line in block[:-1].split(b"\n", lines)[:lines])


def _check_header(path: Path, header: Header, rows: int) -> None:
    if header[0] != rows:
        raise FormatError(
            f"{path}, line 1: the header states {header[0]:,} rows, the file has {rows:,}",
            hint=f"the file is truncated (fetch it again), or its first line should be '{rows} {header[1]}'",
        )


def write_glove(vectors: WordMatrix, path: Path) -> None:
    """Write GloVe text, without a header."""
    _write(vectors, path, header=b"")


def write_word2vec(vectors: WordMatrix, path: Path) -> None:
    """Write word2vec text, also the fastText .vec format: a header line, then the rows."""
    _write(vectors, path, header=f"{len(vectors)} {vectors.dim}\n".encode())


def _write(vectors: WordMatrix, path: Path, *, header: bytes) -> None:
    """Write each number as the shortest decimal that gives the same float32."""
    for word in vectors.words:
        _refuse_unreadable(word, path)
    with writing(path) as out:
        out.write(header)
        for start in range(0, len(vectors), WRITE_ROWS):
            lines = _lines(vectors, start)
            if not start:
                _refuse_ambiguous(header + lines, vectors.dim, path)
            out.write(lines)


def _lines(vectors: WordMatrix, start: int) -> bytes:
    rows = np.ascontiguousarray(vectors.matrix[start : start + WRITE_ROWS])
    import polars as pl  # takes 0.25 s

    words = pl.Series("word", vectors.words[start : start + WRITE_ROWS], dtype=pl.String)
    frame = pl.from_numpy(rows).insert_column(0, words)
    text: str = frame.write_csv(None, include_header=False, separator=" ", quote_style="never")
    return text.encode()


def _refuse_unreadable(word: str, path: Path) -> None:
    """Raise `FormatError` for a word that would be read back differently."""
    numbers_follow = " " in word and has_more_numbers([*word.encode().split(b" "), b"0.5"], 1)
    if not word or "\n" in word or "\0" in word or numbers_follow:
        raise FormatError(f"{path}: a text file cannot hold the word {word!r}", hint="write .safetensors")


def _refuse_ambiguous(written: bytes, dim: int, path: Path) -> None:
    """Read the first lines back, and raise `FormatError` if the layout would be misread."""
    start = _first_lines(io.BytesIO(written), path)
    header, body = split_header(start)
    try:
        layout: Layout | None = infer(path, body, header)
    except FormatError:
        layout = None
    if layout is None or (layout.dim, layout.separator) != (dim, b" ") or not written.startswith(start):
        raise FormatError(
            f"{path}: the first words contain spaces, tabs or a byte order mark, so the file could not be read back",
            hint="write .safetensors",
        )


register_format(Format("glove", "GloVe text", (".txt",), read, write_glove))
register_format(Format("word2vec", "word2vec text, with header", (".w2v", ".w2v.txt"), read, write_word2vec))
register_format(Format("fasttext", "fastText text", (".vec",), read, write_word2vec))


MAX_DIM = 100_000
SAMPLED_LINES = 100
# float() also accepts underscores and white space. NaN and infinity match here and are refused later.
# Possessive quantifiers keep the match linear.
NUMBER = re.compile(rb"[+-]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d++)?|nan|inf|infinity)", re.IGNORECASE)
LONGEST_NUMBER = 1000  # bytes; converting a decimal takes time quadratic in its length

Header = tuple[int, int]  # rows and dimension
ParsedLines = tuple[list[str], Matrix]
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


def parse_block(block: bytes, layout: Layout, first_line: int) -> ParsedLines:
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


def _parse_regular(block: bytes, layout: Layout, lines: int) -> ParsedLines | None:
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


def _parse_mixed(block: bytes, layout: Layout, odd: NDArray[np.bool_], first_line: int) -> ParsedLines:
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


# Possessive quantifiers: no backtracking over a long unterminated string.
ENTRY = re.compile(rb'\s*+,?\s*+("(?:[^"\\]++|\\.)*+")\s*+:\s*+\[([^\[\]"]*+)\]')
VECTORS = re.compile(rb'"vectors"\s*+:\s*+\{')
DIMENSIONS = re.compile(rb'"dimensions"\s*+:\s*+(\d{1,6})\b')
LONGEST_HEAD = 64 << 20  # it lists all words before the vectors
EXTRA = 2  # each entry ends with its norm and its rank


def read_wink(path: Path, options: ReadOptions) -> Parsed:
    """Read the vectors in file order."""
    words: list[str] = []
    with open_bytes(path, kept=True) as stream:
        layout, start = _wink_layout(stream, path, options)
        matrix = GrowingMatrix(layout.dim)
        for entries in _wink_entries(stream, start, path, options.max_record):
            if entries:
                numbers = b"".join(b"x," + _wink_numbers(row, layout.dim) + b"\n" for _, row in entries)
                matrix.reserve(len(entries))[:] = parse_block(numbers, layout, len(words) + 1)[1]
            words += [_wink_word(key, layout, row) for row, (key, _) in enumerate(entries, len(words) + 1)]
            if options.limit is not None and len(words) >= options.limit:
                break
    rows = matrix.finish()
    return Parsed(words[: options.limit], rows[: options.limit])


def _wink_layout(stream: IO[bytes], path: Path, options: ReadOptions) -> tuple[Layout, bytes]:
    start = b""
    while not (found := VECTORS.search(start)):
        chunk = stream.read(BLOCK_BYTES)
        if not chunk or len(start) > LONGEST_HEAD:
            raise FormatError(
                f'{path}: the "vectors" object of the wink layout is missing', hint="name another `format=`"
            )
        start += chunk
    dimensions = DIMENSIONS.search(start, 0, found.start())
    if not dimensions or not 1 <= int(dimensions[1]) <= MAX_DIM:
        raise FormatError(
            f'{path}: the key "dimensions" (1 to {MAX_DIM:,}) is missing before "vectors"',
            hint="name another `format=`",
        )
    return Layout(path, int(dimensions[1]), b",", 0, options.encoding_errors, "entry"), start[found.end() :]


def _wink_entries(stream: IO[bytes], buffer: bytes, path: Path, max_record: int) -> Iterator[list[tuple[bytes, bytes]]]:
    done = 0
    while True:
        entries, end = [], 0
        while match := ENTRY.match(buffer, end):
            entries.append((match[1], match[2]))
            end = match.end()
        done += len(entries)
        yield entries
        buffer = buffer[end:]
        if buffer.lstrip().startswith(b"}"):
            while stream.read(BLOCK_BYTES):  # reading to the end verifies the checksum of a compressed stream
                pass
            return
        chunk = stream.read(BLOCK_BYTES)
        if len(buffer) > max_record:
            raise record_too_long(f"{path}, entry {done + 1:,}", max_record)
        if not chunk:
            raise FormatError(
                f"{path}, entry {done + 1:,}: truncated or malformed near {buffer[:60]!r}", hint="fetch the file again"
            )
        buffer += chunk


def _wink_numbers(row: bytes, dim: int) -> bytes:
    if row.count(b",") == dim + EXTRA - 1:
        row = row.rsplit(b",", EXTRA)[0]
    return b"".join(row.split())


def _wink_word(key: bytes, layout: Layout, number: int) -> str:
    try:
        return str(json.loads(key.decode(errors=layout.encoding_errors)))
    except ValueError as error:
        raise FormatError(
            f"{layout.path}, entry {number:,}: the key {key[:60]!r} is not a JSON string ({error})",
            hint="fetch the file again, or use encoding_errors='replace' if the keys are not valid UTF-8",
        ) from error


register_format(
    Format(
        "wink", "JSON of the wink packages", (".json",), read_wink, why_not_written="it is the layout of other packages"
    )
)
