"""What readers yield: one stream of text in which `END` closes each document, and a log of what was skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypedDict

from evenhand.errors import FormatError, InputMissingError, counted

END = "\0"  # closes every document; readers let no other NUL through
PIECE = 1 << 20  # characters; larger pieces are no faster, smaller ones cost more calls
BREAKS = (" ", END, "\n", "\t")  # the most frequent one first, see `end_of_words`


def document(text: str) -> str:
    """Return a whole document with its closing mark."""
    return text.replace(END, " ") + END


def cut(fragments: Iterable[str], size: int = PIECE) -> Iterator[str]:
    """Yield the stream in pieces of about `size` characters, at most twice as many, that never end inside a word.

    A stretch without whitespace is held until its end, so that a word is whole however long it is.
    """
    held: list[str] = []
    length, enough = 0, size
    for part in _split(fragments, size):
        if not length and 2 * len(part) >= size and part.endswith(BREAKS):
            yield part  # without a copy
            continue
        held.append(part)
        length += len(part)
        if length < enough:
            continue
        text = "".join(held)
        end = end_of_words(text)
        if end:
            yield text[:end]
        held, length = [text[end:]], len(text) - end
        enough = max(size, 2 * length)  # doubling keeps the cost of a word of 100 MB linear
    if length:
        yield "".join(held)


def end_of_words(text: str, breaks: tuple[str, ...] = BREAKS) -> int:
    """Return the position behind the last break, or 0 if there is none."""
    end = 0
    for mark in breaks:
        end = max(end, 1 + text.rfind(mark, end))  # searches only what lies behind the breaks found before
    return end


def _split(fragments: Iterable[str], size: int) -> Iterator[str]:
    for fragment in fragments:
        if len(fragment) <= 2 * size:
            yield fragment
        else:
            yield from (fragment[start : start + size] for start in range(0, len(fragment), size))


LISTED = 20  # skipped records kept with their reason
NAMED_FILES = 3
SKIP_HINT = "`skip_bad=True` to skip and count it"


class BadFile(TypedDict):
    """A file that could not be read to its end."""

    path: str
    reason: str
    documents_before: int


def with_skip_hint(error: FormatError | InputMissingError) -> FormatError | InputMissingError:
    """Return the error with `skip_bad` added to its hint."""
    hint = "; or ".join(part for part in (error.hint.removesuffix(f"; or {SKIP_HINT}"), SKIP_HINT) if part)
    return type(error)(error.message, hint=hint)


def no_words_error(source: object, read_log: ReadLog) -> FormatError:
    """Return the error for a corpus without a single word."""
    files = list(getattr(source, "files", ()))
    more = f" and {len(files) - NAMED_FILES:,} more" if len(files) > NAMED_FILES else ""
    return FormatError(
        f"{', '.join(files[:NAMED_FILES]) + more or 'the texts'}: no word was read{read_log.summary()}",
        hint="the text is empty or blank, or the tokenizer finds no word in it",
    )


@dataclass
class ReadLog:
    """Files that could not be read to their end and records that were skipped; filled while a corpus is read."""

    skip_bad: bool = False
    bad_files: list[BadFile] = field(default_factory=list)
    bad_records: int = 0
    first_bad: list[str] = field(default_factory=list)

    def bad_record(self, where: str, reason: str, hint: str) -> None:
        """Count a record that cannot be used, or raise an error if `skip_bad` is off."""
        if not self.skip_bad:
            raise FormatError(f"{where}: {reason}", hint=f"{hint}; or {SKIP_HINT}")
        self.bad_records += 1
        if len(self.first_bad) < LISTED:
            self.first_bad.append(f"{where}: {reason}")

    def bad_file(self, path: str, reason: str, documents: int) -> None:
        """Log a file that could not be read to its end; what came before stays counted."""
        self.bad_files.append({"path": path, "reason": reason, "documents_before": documents})

    def add(self, other: ReadLog) -> None:
        """Add the log of another part of the same corpus."""
        self.bad_files += other.bad_files
        self.bad_records += other.bad_records
        self.first_bad = (self.first_bad + other.first_bad)[:LISTED]

    def summary(self) -> str:
        """Return what was skipped as the end of a sentence; empty if everything could be read."""
        reasons = [*(bad["reason"] for bad in self.bad_files), *self.first_bad]
        parts = [counted(self.bad_records, "record")] if self.bad_records else []
        parts += [f"the rest of {counted(len(self.bad_files), 'file')}"] if self.bad_files else []
        return f", {' and '.join(parts)} skipped (the first: {reasons[0]})" if reasons else ""

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {"bad_files": self.bad_files, "bad_records": self.bad_records, "first_bad_records": self.first_bad}
