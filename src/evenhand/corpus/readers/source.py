"""A corpus: where its documents are, and how they are read."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

from evenhand.corpus.counting.text_stream import END, document
from evenhand.corpus.readers.damaged import UpToBreak
from evenhand.corpus.readers.mediawiki import read_mediawiki
from evenhand.corpus.readers.paths import Paths, Size, expand, opened, size_of, stored, suffix
from evenhand.corpus.readers.read_log import Account, leave_out_told
from evenhand.corpus.readers.records import read_arrow, read_csv, read_jsonl, read_parquet, read_tsv
from evenhand.corpus.readers.text import BLOCK, How, Span, lines_of, read_text, spans
from evenhand.corpus.readers.warc import read_warc
from evenhand.errors import FormatError, InputMissingError, UsageError
from evenhand.files import compression_of

Shard: TypeAlias = tuple[Any, ...]

# Bytes on disk: the unit that is counted by itself and merged, here and on a cluster. How a corpus is cut depends on
# the corpus alone, never on who counts it: sums of fractions hang on the order in which they are added.
SHARD = 64 << 20
MOST_SHARDS = 1 << 10  # merging is done in one place, so that beyond this number shards grow instead,
LARGEST = 16  # up to so many times SHARD: what is lost when a worker dies
FORMATS: dict[str, Callable[..., Iterator[str]]] = {
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


class Source(Protocol):
    """Anything that hands out its documents in parts, each part as a stream of text."""

    @property
    def skip_bad(self) -> bool:
        """Whether what cannot be read is left out, counted, instead of an error."""

    def shards(self) -> list[Shard]:
        """Parts in a fixed order."""

    def fragments(self, shard: Shard, account: Account) -> Iterator[str]:
        """The text of one part, each document closed by `END`."""

    def to_dict(self) -> dict[str, Any]:
        """The choices that were made, for the record."""


@dataclass(frozen=True, init=False)
class Corpus:
    """Files, folders, globs or addresses as one corpus.

    `documents` says whether a plain text file is one document or one document a line; in the other formats a record is
    a document and `field` names the column with its text. With `skip_bad` a record that cannot be used is left out,
    and a file that breaks off counts up to the break: its whole lines or records, or its whole words where the file is
    one document. Both are counted and named in the result. Large files with a document a line are read in parts, each
    of which counts up to its own break.
    """

    files: tuple[str, ...]
    how: How
    format: str | None
    skip_bad: bool

    def __init__(
        self,
        paths: Paths,
        *,
        documents: str = "file",
        field: str = "text",
        format: str | None = None,
        encoding_errors: str = "strict",
        skip_bad: bool = False,
    ) -> None:
        for given, what, known in (
            (documents, "documents", ("file", "line")),
            (encoding_errors, "encoding_errors", ("strict", "replace")),
            (format, "format", (None, *FORMATS)),
        ):
            if given not in known:
                raise UsageError(f"unknown {what} {given!r}", hint=f"use {', '.join(map(str, known))}")
        vars(self).update(
            files=expand(paths), how=How(documents, field, encoding_errors), format=format, skip_bad=skip_bad
        )

    def shards(self) -> list[Shard]:
        """Parts of about equal size: small files together, in their order, and large ones cut between lines.

        Cut are files with one document a line, unless they are compressed; any other file is read by one worker.
        """
        sizes = [size_of(file) for file in self.files]
        total = sum(size.stored or 0 for size in sizes)
        target = min(max(SHARD, total // MOST_SHARDS), LARGEST * SHARD)
        parts: list[Shard] = []
        room = 0
        for file, size in zip(self.files, sizes, strict=True):
            pieces = self._spans(file, size, target)
            stored = target if size.stored is None else max(size.stored, 1)
            if len(pieces) > 1:
                parts += [(piece,) for piece in pieces]
                room = 0
            elif stored <= room:
                parts[-1] += (pieces[0],)
                room -= stored
            else:
                parts.append((pieces[0],))
                room = target - stored
        return parts

    def _spans(self, file: str, size: Size, target: int) -> list[Span]:
        by_line = self._format(file) == "jsonl" or (self._format(file) == "text" and self.how.documents == "line")
        if by_line and size.divisible and size.stored:
            return spans(file, size.stored, target)
        return [Span(file)]

    def _format(self, file: str) -> str:
        return self.format or SUFFIXES.get(suffix(file), "text")

    def fragments(self, shard: Shard, account: Account) -> Iterator[str]:
        """The text of these files or parts of files, each document closed by `END`."""
        for span in shard:
            yield from self._span(span, account)

    def _span(self, span: Span, account: Account) -> Iterator[str]:
        read = FORMATS[self._format(span.file)]
        documents, closed = 0, True
        try:
            with _part(span, to_break=self.skip_bad) as stream:
                if stream is None:
                    return
                for fragment in read(stream, span.name, replace(self.how, at_start=not span.start), account):
                    yield fragment
                    documents, closed = documents + fragment.count(END), fragment.endswith(END)
        except (FormatError, InputMissingError) as error:
            if not self.skip_bad:
                raise leave_out_told(error) from error
            if not closed:
                yield END
            account.bad_file(span.file, error.message, documents + (not closed))

    def to_dict(self) -> dict[str, Any]:
        """The choices that were made, for the record."""
        kept = {"documents": self.how.documents, "field": self.how.field, "format": self.format or "by name"}
        return {
            "files": len(self.files),
            **kept,
            "encoding_errors": self.how.encoding_errors,
            "skip_bad": self.skip_bad,
        }


@dataclass(frozen=True)
class Texts:
    """Documents in memory, such as texts that a model has just generated."""

    texts: Iterable[str]
    skip_bad: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.texts, str):  # a str is an iterable of texts, but hardly ever meant as one
            raise UsageError("one text where documents were expected", hint="write Texts([text])")
        object.__setattr__(self, "texts", tuple(self.texts))

    def shards(self) -> list[Shard]:
        """Everything at once."""
        return [tuple(self.texts)]

    def fragments(self, shard: Shard, account: Account) -> Iterator[str]:
        """Each text as a document."""
        return map(document, shard)

    def to_dict(self) -> dict[str, Any]:
        """The choices that were made, for the record."""
        return {"files": 0, "documents": "in memory"}


@contextmanager
def _part(span: Span, *, to_break: bool) -> Iterator[IO[bytes] | None]:
    """The stream of a span; none where no line begins in it, which is not the same as an empty document."""
    with opened(span.file) as stream:
        if span.stop is None and to_break and compression_of(Path(span.file)):
            yield io.BufferedReader(UpToBreak(stream, partial(stored, span.file), span.file), BLOCK)
        elif span.stop is None:
            yield stream
        else:
            lines = lines_of(stream, span)
            yield lines if lines.peek(1) else None


def as_source(given: Paths | Source, **options: Any) -> Source:
    """The corpus that paths mean, or the corpus itself; options belong to paths only."""
    if isinstance(given, (str, Path, Iterable)):
        return Corpus(given, **options)
    if options:
        raise UsageError(f"{', '.join(options)} cannot be given beside a corpus", hint="give them to Corpus(...)")
    return given
