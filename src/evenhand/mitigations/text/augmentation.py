"""Write a corpus after a text change: the same files in the same formats, in constant memory, resumable."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evenhand.corpus.readers.paths import Paths, expand, open_stream, suffix
from evenhand.corpus.readers.records import json_record
from evenhand.corpus.readers.source import SUFFIXES, Corpus
from evenhand.corpus.readers.stream import END, ReadLog, with_skip_hint
from evenhand.corpus.readers.text import TextOptions, decode
from evenhand.errors import FormatError, OutputError, UsageError, counted
from evenhand.files import MAX_RECORD, bare_name, limited_lines, record_too_long, require_inside, write_text, writing
from evenhand.mitigations.maps.vectormap import steps_of
from evenhand.mitigations.text.text_change import SwapCounts, TextChange
from evenhand.progress import Progress, tell

RECORD = ".augmentation.json"
"""File in the output folder that says which files are done; hidden, so that it is not read as text."""
WRITABLE = ("text", "jsonl")
TEXT_SUFFIXES = (".txt", ".text", ".tokens", ".raw")
REPORT_EVERY = 1000  # documents
MARK = "swapped"
"""Field of a changed JSON record; it names the concepts that were swapped."""
IDS = {"id", "_id", "idx", "index", "uid", "uuid", "guid", "docid", "doc_id", "document_id", "pairid", "pair_id"}
"""Fields, in lower case, whose values tell records apart."""


@dataclass(frozen=True)
class AugmentedCorpus:
    """What writing a changed corpus did.

    Attributes:
        out: the file or folder written.
        files: files of the original.
        resumed: files that an earlier run had finished.
        counts: what was swapped, in the changed forms of the documents; earlier runs included.
        read_log: what could not be read.
        seconds: time of this run.
        words: words read in this run.
    """

    out: Path
    files: int
    resumed: int
    counts: SwapCounts
    read_log: ReadLog
    seconds: float
    words: int

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        rate = self.words / self.seconds if self.seconds else 0.0
        return {
            "out": str(self.out), "files": self.files, "files_of_an_earlier_run": self.resumed,
            **self.counts.to_dict(), **self.read_log.to_dict(), "seconds": round(self.seconds, 3),
            "words_per_second": round(rate),
        }  # fmt: skip


def write_augmented(
    change: TextChange,
    paths: Paths,
    out: str | os.PathLike[str],
    *,
    documents: str = "file",
    fields: Sequence[str] = ("text",),
    format: str | None = None,
    encoding_errors: str = "strict",
    skip_bad: bool = False,
    max_record: int = MAX_RECORD,
    progress: Progress | None = None,
) -> AugmentedCorpus:
    """Write a corpus after a change of its documents.

    Where the change keeps the originals, a line or record is followed by its changed form if that differs. A plain text
    file that is one document is written as it is, and its changed form beside it as NAME.swapped.SUFFIX. A changed JSON
    record names the concept in the field `swapped`, and its ids differ from those of the original.

    Args:
        change: the change.
        paths: text and JSON-lines files, compressed or not, and folders and globs of them.
        out: a folder; for a single file also the name of a file. A folder of a stopped run is completed: finished
            files are kept.
        documents: `file` if a plain text file is one document, `line` if each line is one.
        fields: fields of a JSON record that are changed together; the others stay.
        format: text or jsonl; by the file name by default.
        encoding_errors: `strict`, or `replace` for invalid UTF-8.
        skip_bad: leave out records that cannot be read, and count them.
        max_record: longest line in bytes.
        progress: called with (files done, files, description); None: whoever follows is told.
    """
    if documents not in ("file", "line"):
        raise UsageError(f"unknown documents {documents!r}", hint="use file or line")
    if not fields:
        raise UsageError("name at least one field", hint="for example `field='text'`")
    options = TextOptions(documents, ",".join(fields), format, encoding_errors, skip_bad, max_record)
    files, target, report = expand(paths), Path(out), progress or tell
    single = _is_single(files, target)
    targets = _targets(change, files, paths, target, options, single=single)
    for path in () if single else (target / RECORD, *targets.values()):
        require_inside(path, target)
    record = _FinishedFiles(target, change, options, single=single)
    started, total, log, words = time.perf_counter(), SwapCounts(), ReadLog(skip_bad=skip_bad), 0
    finished = 0
    record.write()
    try:
        for number, (file, name) in enumerate(targets.items()):
            report(number, len(targets), file)
            counts = record.find(file, name)
            finished += counts is not None
            if counts is None:
                counts = _write_file(change, file, name, options, log, partial(report, number, len(targets)))
                words += counts.words
                record.add(file, name, counts)
            total.add(counts)
    except KeyboardInterrupt:
        where = "" if single else f" in {target}; run the same command again to continue"
        raise KeyboardInterrupt(f"{counted(len(record.files), 'finished file')}{where}") from None
    report(len(targets), len(targets), "done")
    return AugmentedCorpus(target, len(targets), finished, total, log, time.perf_counter() - started, words)


def _is_single(files: tuple[str, ...], out: Path) -> bool:
    """Return whether the output is one file: the input is, and the name has the suffix of a text file."""
    return len(files) == 1 and not out.is_dir() and bare_name(out).endswith((*TEXT_SUFFIXES, *SUFFIXES))


def _format(file: str, options: TextOptions) -> str:
    return options.format or SUFFIXES.get(suffix(file), "text")


def _is_one_document(file: str, options: TextOptions) -> bool:
    return _format(file, options) == "text" and options.documents == "file"


def _targets(
    change: TextChange, files: tuple[str, ...], paths: Paths, out: Path, options: TextOptions, *, single: bool
) -> dict[str, Path]:
    """Return where each file is written; refuse formats that cannot be written, and the input itself as output."""
    for file in files:
        if _format(file, options) not in WRITABLE:
            raise UsageError(
                f"{file}: files of the format {_format(file, options)} can be read but not written",
                hint="convert it to JSON lines",
            )
    if single:
        targets = {files[0]: out}
        if _is_one_document(files[0], options) and len(change.versions()) > 1:
            raise UsageError(
                f"{files[0]} is one document, and its swapped form is another: one file cannot hold both",
                hint="name a folder, or say that each line is a document: `documents='line'`",
            )
    else:
        given = [paths] if isinstance(paths, (str, Path)) else list(paths)
        roots = [Path(path) for path in given if "://" not in str(path) and Path(path).is_dir()]
        targets = {file: out / _name_inside(file, roots) for file in files}
    if len(set(targets.values())) < len(targets):
        raise UsageError("two files of the corpus have the same name", hint="write its folders one by one")
    inputs = {os.path.realpath(file) for file in files}
    folder = Path(os.path.realpath(out))
    if folder in {Path(file) for file in inputs} or any(folder in Path(file).parents for file in inputs):
        raise OutputError(f"{out} is or holds the corpus itself", hint="write to another place")
    return targets


def _name_inside(file: str, roots: list[Path]) -> Path:
    """Return the name of a file below the folder that it was found in."""
    for root in roots:
        if root in Path(file).parents:
            return Path(file).relative_to(root)
    return Path(file.rpartition("/")[2])


class _FinishedFiles:
    """The files of an output folder that are done, as its record says; a single file has no record."""

    def __init__(self, out: Path, change: TextChange, options: TextOptions, *, single: bool) -> None:
        self._out, self._single = out, single
        self._about = {"change": change.digest, "options": asdict(options)}
        self.files: dict[str, dict[str, Any]] = {}
        if single or not out.exists():
            return
        try:
            record = json.loads((out / RECORD).read_text(encoding="utf-8"))
            about, self.files = {name: record[name] for name in self._about}, dict(record["files"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            if any(not entry.name.endswith(".partial") for entry in out.iterdir()):
                raise OutputError(f"{out} is not empty", hint="choose a new folder") from None
            return
        if about != self._about and self.files:
            raise OutputError(
                f"{out} holds a corpus written with another method or with other options",
                hint="choose a new folder, or remove this one",
            )

    def find(self, file: str, target: Path) -> SwapCounts | None:
        """Return the counts of a file that is done; None if it is not, or if the original has changed."""
        entry = self.files.get(self._key(target))
        try:
            done = entry is not None and entry["source"] == _mark(file) and target.is_file()
            return SwapCounts.from_dict(entry["counts"]) if entry and done else None
        except (LookupError, TypeError, ValueError, AttributeError):  # a damaged record: the file is written again
            return None

    def add(self, file: str, target: Path, counts: SwapCounts) -> None:
        """Record that a file is done."""
        self.files[self._key(target)] = {"source": _mark(file), "counts": counts.to_dict()}
        self.write()

    def write(self) -> None:
        """Write the record; before the first file, so that a run that is killed there can be resumed."""
        if not self._single:
            write_text(self._out / RECORD, json.dumps({**self._about, "files": self.files}) + "\n")

    def _key(self, target: Path) -> str:
        return target.name if self._single else target.relative_to(self._out).as_posix()


def _mark(file: str) -> list[int]:
    """Return size and time of a file; nothing for an address."""
    path = Path(file)
    return [path.stat().st_size, path.stat().st_mtime_ns] if "://" not in file else []


def _write_file(
    change: TextChange, file: str, target: Path, options: TextOptions, log: ReadLog, report: Callable[[str], None]
) -> SwapCounts:
    counts = SwapCounts()
    if _is_one_document(file, options):
        for number, steps in reversed(list(enumerate(change.versions()))):  # the name of the original comes last
            read_log = log if number == 0 else ReadLog(options.skip_bad)
            _write_document(file, _version_name(target, number), steps, options, read_log, counts, report)
        return counts
    versions = _json_versions if _format(file, options) == "jsonl" else _line_versions
    try:
        with open_stream(file) as stream, writing(target) as out:
            for number, line in enumerate(limited_lines(stream, options.max_record), start=1):
                for version in versions(line, f"{file}, line {number}", change, options, log, counts):
                    out.write(version)
                if number % REPORT_EVERY == 0:
                    report(f"{target.name}: {counts.words:,} words")
    except FormatError as error:
        raise with_skip_hint(error) from error
    return counts


class _SameAsOriginalError(Exception):
    """A changed form that does not differ from the form before it; it is not written."""


def _write_document(
    file: str, target: Path, steps: Sequence[TextChange], options: TextOptions, log: ReadLog, counts: SwapCounts,
    report: Callable[[str], None],
) -> None:  # fmt: skip
    """Write one version of a file that is one document; leave out one that repeats another version."""
    parts = [SwapCounts() for _ in steps]
    try:
        with writing(target) as out:
            for fragment in _document(file, steps, options, log, parts):
                out.write(fragment.encode())
                report(f"{target.name}: {sum(part.words for part in parts):,} words")
            if any(step.keeps_original and not part.swapped for step, part in zip(steps, parts, strict=True)):
                raise _SameAsOriginalError
    except _SameAsOriginalError:
        target.unlink(missing_ok=True)  # of an earlier run, before the original changed
    else:
        counts.forms += bool(steps)
    for part in parts:
        counts.add(part)


def _version_name(target: Path, number: int) -> Path:
    """Return name.txt.gz for the first version, name.swapped.txt.gz for the second, name.swapped-2.txt.gz then."""
    if not number:
        return target
    stem, dot, suffixes = target.name.partition(".")
    return target.with_name(f"{stem}.swapped{f'-{number}' if number > 1 else ''}{dot}{suffixes}")


def _document(
    file: str, steps: Sequence[TextChange], options: TextOptions, log: ReadLog, parts: Sequence[SwapCounts]
) -> Iterator[str]:
    """Yield the text of a file that is one document, after some changes; count what each of them does."""
    corpus = Corpus(
        file,
        format="text",
        encoding_errors=options.encoding_errors,
        skip_bad=options.skip_bad,
        max_record=options.max_record,
    )
    (shard,) = corpus.shards()
    fragments = corpus.fragments(shard, log)
    for step, part in zip(steps, parts, strict=True):
        fragments = step.stream(fragments, part)
    return (fragment.replace(END, "") for fragment in fragments)


def _line_versions(
    line: bytes | None, where: str, change: TextChange, options: TextOptions, log: ReadLog, counts: SwapCounts
) -> Iterator[bytes]:
    """Yield every version of a line."""
    try:
        text = _decoded(line, where, options)
    except FormatError as error:
        log.bad_record(where, error.message.removeprefix(f"{where}: "), error.hint)
        return
    content = text.rstrip("\r\n")
    end = text[len(content) :] or "\n"
    for _, (changed,) in _forms([content], change, counts):
        yield (changed + end).encode()


def _json_versions(
    line: bytes | None, where: str, change: TextChange, options: TextOptions, log: ReadLog, counts: SwapCounts
) -> Iterator[bytes]:
    """Yield every version of a record; its fields are changed together, and what is not text in them is an error."""
    fields = options.field.split(",")
    try:
        text = _decoded(line, where, options)
        if not text.strip():
            return
        records = [json_record(text, where, field) for field in fields]
    except FormatError as error:
        log.bad_record(where, error.message.removeprefix(f"{where}: "), error.hint)
        return
    texts = [record[field] for field, record in zip(fields, records, strict=True)]
    if not isinstance(records[0].get(MARK, ""), str):
        log.bad_record(where, f"it has a field {MARK!r} of its own", "rename the field")
        return
    for number, changed in _forms(texts, change, counts):
        if changed == texts:
            yield text.rstrip("\r\n").encode() + b"\n"
            continue
        record = {**records[0], **dict(zip(fields, changed, strict=True))}
        if number:
            ids = {name: value for name, value in record.items() if name.lower() in IDS and name not in fields}
            record |= {name: _other_id(value, number, len(change.versions())) for name, value in ids.items()}
        record[MARK] = "+".join(filter(None, [records[0].get(MARK), _concepts(change)]))
        yield json.dumps(record, ensure_ascii="\\ud" in text.lower()).encode() + b"\n"


def _other_id(value: object, number: int, versions: int) -> object:
    """Return the id of a changed form: of two versions 7 becomes -8 and a12 becomes a12-swapped; the type stays."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return -(value * (versions - 1) + number)
    return f"{value}-swapped{f'-{number}' if number > 1 else ''}"


def _concepts(change: TextChange) -> str:
    """Return the concepts of a change, for the mark of a changed record."""
    return "+".join(str(report.get("concept", change.kind)) for report in steps_of(change.report))


def _forms(texts: list[str], change: TextChange, counts: SwapCounts) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each version of a record, and its texts; a version that repeats another is left out."""
    for number, steps in enumerate(change.versions()):
        form, part, repeats = texts, SwapCounts(), False
        for step in steps:
            changed = [step.change(text, part, key=texts[0]) for text in form]
            repeats = repeats or (step.keeps_original and changed == form)
            form = changed
        part.documents //= len(texts)
        part.forms += bool(steps) and not repeats and form != texts
        counts.add(part)
        if not repeats:
            yield number, form


def _decoded(line: bytes | None, where: str, options: TextOptions) -> str:
    if line is None:
        raise record_too_long(where, options.max_record)
    return decode(line, where, options.encoding_errors)
