"""A corpus: its documents, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Protocol, TypeAlias, TypedDict, Unpack

from evenhand.arrays import texts_of
from evenhand.corpus.readers.archives import read_mediawiki, read_warc
from evenhand.corpus.readers.paths import Paths, Size, expand, open_stream, size_of, suffix
from evenhand.corpus.readers.records import read_arrow, read_csv, read_jsonl, read_parquet, read_tsv
from evenhand.corpus.readers.stream import END, ReadLog, document, with_skip_hint
from evenhand.corpus.readers.text import ByteSpan, TextOptions, read_text, span_lines, split_file
from evenhand.errors import FormatError, InputMissingError, UsageError, counted
from evenhand.files import MAX_RECORD

Shard: TypeAlias = tuple[ByteSpan, ...] | tuple[str, ...]
Reader: TypeAlias = Callable[[IO[bytes], str, TextOptions, ReadLog], Iterator[str]]

# Bytes on disk that are counted together and merged, on one machine and on a cluster. How a corpus is divided depends
# on the corpus alone, never on the workers: floating-point sums depend on the order of addition.
SHARD = 64 << 20
MOST_SHARDS = 1 << 10  # merging is done in one process, so that beyond this number shards grow instead,
LARGEST = 16  # up to this multiple of SHARD, which is lost when a worker dies
FORMATS: dict[str, Reader] = {
    "text": read_text,
    "jsonl": read_jsonl,
    "csv": read_csv,
    "tsv": read_tsv,
    "parquet": read_parquet,
    "arrow": read_arrow,
    "warc": read_warc,
    "mediawiki": read_mediawiki,
}
SUFFIXES = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet",
    ".arrow": "arrow", ".wet": "warc", ".warc": "warc",
}  # fmt: skip


class ReadArguments(TypedDict, total=False):
    """The keyword arguments of `Corpus`."""

    documents: str
    field: str
    format: str | None
    encoding_errors: str
    skip_bad: bool
    max_record: int


class TextSource(Protocol):
    """Documents in shards, each shard a stream of text."""

    @property
    def name(self) -> str:
        """A short name for records."""

    @property
    def size(self) -> int | None:
        """Stored bytes, or None if unknown."""

    @property
    def skip_bad(self) -> bool:
        """True if bad input is skipped and counted, False if it raises an error."""

    def shards(self) -> list[Shard]:
        """Return the shards in a fixed order."""

    def fragments(self, shard: Shard, log: ReadLog) -> Iterator[str]:
        """Yield the text of a shard, each document closed by `END`."""

    def to_dict(self) -> dict[str, object]:
        """Return the options for the record."""


@dataclass(frozen=True, init=False)
class Corpus:
    """Files, folders, globs or addresses as one corpus.

    Args:
        paths: files, folders, globs or addresses.
        documents: `file` if a plain text file is one document, `line` if each line is one. In the other formats a
            record is a document.
        field: field or column that holds the text.
        format: text, jsonl, csv, tsv, parquet, arrow, warc or mediawiki; by default chosen by the file name.
        encoding_errors: `strict`, or `replace` for invalid UTF-8.
        skip_bad: skip records that cannot be used, and read a damaged file up to the damage: its whole lines or
            records, or its whole words if the file is one document. The result counts and names both. Of a compressed
            file the block that holds the damage is lost. Large files with one document per line are read in parts,
            each up to its own damage.
        max_record: longest record (JSON line, CSV row, archive record, article, or word of plain text) in bytes.
            A longer one is bad input, so that a damaged or hostile file cannot fill the memory.
    """

    files: tuple[str, ...]
    options: TextOptions

    def __init__(
        self,
        paths: Paths,
        *,
        documents: str = "file",
        field: str = "text",
        format: str | None = None,
        encoding_errors: str = "strict",
        skip_bad: bool = False,
        max_record: int = MAX_RECORD,
    ) -> None:
        for value, name, choices in (
            (documents, "documents", ("file", "line")),
            (encoding_errors, "encoding_errors", ("strict", "replace")),
            (format, "format", (None, *FORMATS)),
        ):
            if value not in choices:
                raise UsageError(f"unknown {name} {value!r}", hint=f"use {', '.join(map(str, choices))}")
        if max_record < 1:
            raise UsageError(f"max_record must be at least 1 byte, got {max_record}")
        options = TextOptions(documents, field, format, encoding_errors, skip_bad, max_record)
        vars(self).update(files=expand(paths), options=options)

    @property
    def name(self) -> str:
        """The file name, or the number of files."""
        return self.files[0].rpartition("/")[2] if len(self.files) == 1 else counted(len(self.files), "file")

    @property
    def size(self) -> int | None:
        """Stored bytes of all files, or None if one is unknown."""
        sizes = [size_of(file).stored for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def skip_bad(self) -> bool:
        """True if bad input is skipped and counted."""
        return self.options.skip_bad

    def shards(self) -> list[Shard]:
        """Return shards of about equal size: small files together, in their order, and large ones cut between lines.

        Only uncompressed files with one document per line are cut; any other file is read by one worker.
        """
        sizes = [size_of(file) for file in self.files]
        total = sum(size.stored or 0 for size in sizes)
        target = min(max(SHARD, total // MOST_SHARDS), LARGEST * SHARD)
        shards: list[tuple[ByteSpan, ...]] = []
        room = 0
        for file, size in zip(self.files, sizes, strict=True):
            spans = self._spans(file, size, target)
            stored = target if size.stored is None else max(size.stored, 1)
            if len(spans) > 1:
                shards += [(span,) for span in spans]
                room = 0
            elif stored <= room:
                shards[-1] += (spans[0],)
                room -= stored
            else:
                shards.append((spans[0],))
                room = target - stored
        return list(shards)

    def _spans(self, file: str, size: Size, target: int) -> list[ByteSpan]:
        by_line = self._format(file) == "jsonl" or (self._format(file) == "text" and self.options.documents == "line")
        if by_line and size.divisible and size.stored:
            return split_file(file, size.stored, target)
        return [ByteSpan(file)]

    def _format(self, file: str) -> str:
        return self.options.format or SUFFIXES.get(suffix(file), "text")

    def fragments(self, shard: Shard, log: ReadLog) -> Iterator[str]:
        """Yield the text of a shard, each document closed by `END`."""
        for span in shard:
            if isinstance(span, ByteSpan):
                yield from self._read_span(span, log)

    def _read_span(self, span: ByteSpan, log: ReadLog) -> Iterator[str]:
        format = self._format(span.file)
        # A byte order mark can stand at the start of the file only; elsewhere its bytes are text like any other.
        read: Reader = partial(read_text, at_start=not span.start) if format == "text" else FORMATS[format]
        documents, closed = 0, True
        try:
            with _open_span(span) as stream:
                if stream is None:
                    return
                for fragment in read(stream, span.name, self.options, log):
                    yield fragment
                    if self.skip_bad:
                        documents, closed = documents + fragment.count(END), fragment.endswith(END)
        except (FormatError, InputMissingError) as error:
            if not self.skip_bad:
                raise with_skip_hint(error) from error
            if not closed:
                yield END
            log.bad_file(span.file, error.message, documents + (not closed))

    def to_dict(self) -> dict[str, object]:
        """Return the options for the record."""
        return {
            "files": len(self.files),
            "documents": self.options.documents,
            "field": self.options.field,
            "format": self.options.format or "by name",
            "encoding_errors": self.options.encoding_errors,
            "skip_bad": self.skip_bad,
        }


@dataclass(frozen=True)
class Texts:
    """Documents in memory, such as texts that a model has generated."""

    texts: Iterable[str]
    skip_bad: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.texts, str):  # a str is an iterable of texts, but hardly ever meant as one
            raise UsageError("expected several documents, got one text", hint="write Texts([text])")
        object.__setattr__(self, "texts", tuple(self.texts))

    @property
    def name(self) -> str:
        """The number of texts."""
        return counted(len(tuple(self.texts)), "text")

    @property
    def size(self) -> int:
        """Characters of all texts."""
        return sum(map(len, self.texts))

    def shards(self) -> list[Shard]:
        """Return all texts as one shard."""
        return [tuple(self.texts)]

    def fragments(self, shard: Shard, log: ReadLog) -> Iterator[str]:
        """Yield each text as a document."""
        for number, text in enumerate(shard, start=1):
            if not isinstance(text, str):
                raise UsageError(f"text {number} is a {type(text).__name__}, not a str")
            if not text.isascii():
                _check_surrogates(text, number)
            yield document(text)

    def to_dict(self) -> dict[str, object]:
        """Return the options for the record."""
        return {"files": 0, "documents": "in memory"}


def _check_surrogates(text: str, number: int) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FormatError(
            f"text {number}: lone surrogate (\\u{ord(text[error.start]):04x}) at character {error.start}",
            hint="decode the text without 'surrogateescape', or remove it",
        ) from error


@contextmanager
def _open_span(span: ByteSpan) -> Iterator[IO[bytes] | None]:
    """Open a span; None if no line begins in it, which is not the same as an empty document."""
    with open_stream(span.file) as stream:
        if span.stop is None:
            yield stream
        else:
            lines = span_lines(stream, span)
            yield lines if lines.peek(1) else None


def as_source(paths: Paths | TextSource, **reading: Unpack[ReadArguments]) -> TextSource:
    """Return the corpus of some paths or of a data frame, or the corpus itself; reading options are for paths only."""
    field = str(reading.get("field", "text"))
    if (texts := texts_of(paths, field)) is not None:
        paths = Texts(texts)
    elif isinstance(paths, (str, Path, Iterable)):
        return Corpus(paths, **reading)
    if unread := sorted(reading.keys() - ({"field"} if texts else set())):
        raise UsageError(f"{', '.join(unread)} cannot be given with a corpus or texts in memory", hint="pass files")
    return paths
