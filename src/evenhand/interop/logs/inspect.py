"""Read a log of inspect: an `.eval` file, which is a zip archive with a file for each sample, or a `.json` file."""

from __future__ import annotations

import json
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evenhand.audit import Question
from evenhand.audit.schema import UNREADABLE
from evenhand.errors import FormatError, InputMissingError
from evenhand.files import LEAST_EXPANSION, MAX_EXPANSION, open_bytes
from evenhand.interop.logs import bias_sets
from evenhand.interop.logs.run import LONGEST_LINE, Fields, LoggedRun, LoggedTask
from evenhand.measures import Measurement

TOOL = "inspect"
LARGEST_LOG = 1 << 30  # bytes of a .json log; an .eval file is read sample by sample
ZSTANDARD = 93  # the method of zip that recent versions compress with, which Python reads from 3.14 on
LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, lengths of the name and of the extra field
# RuntimeError: an encrypted entry; OSError: one that begins before the file.
DAMAGED = (zipfile.BadZipFile, EOFError, struct.error, zlib.error, lzma.LZMAError, RuntimeError, OSError)
LETTER = re.compile(r"[A-Z]")


@dataclass(frozen=True)
class Answer:
    """One sample with the choice that inspect read from the answer."""

    number: int
    fields: Fields
    metadata: Fields
    choices: list[str]
    chosen: int | None
    """The place of the choice; None where the answer is none of them."""


def _bbq(task: LoggedTask, answers: list[Answer]) -> list[Measurement]:
    items, scores = [], []
    for answer in answers:
        if len(answer.choices) != 3:
            raise FormatError(f"{answer.fields.where}: {len(answer.choices)} choices, an item of BBQ has three")
        target = answer.fields.text("target")
        label = "ABC".find(target) if len(target) == 1 else -1
        if label < 0:
            raise FormatError(f"{answer.fields.where}: target is {target!r}, not A, B or C")
        texts = (answer.choices[0], answer.choices[1], answer.choices[2])
        items.append(bias_sets.bbq_item_of(answer.metadata, texts, label, "", str(answer.fields.values.get("input"))))
        scores.append(bias_sets.chosen_answer(answer.chosen))
    return bias_sets.bbq(task, "bbq-chat", items, scores)


def _stereoset(task: LoggedTask, answers: list[Answer]) -> list[Measurement]:
    examples, chosen = [], []
    for answer in answers:
        fields = answer.fields
        example, labels = bias_sets.stereoset_example_of(
            answer.metadata, fields.text("id"), str(fields.values.get("input")), answer.choices
        )
        examples.append(example)
        chosen.append(None if answer.chosen is None else labels[answer.chosen])
    return bias_sets.stereoset(task, examples, chosen)


# By the fields that the metadata of a sample have.
TASKS: tuple[tuple[str, tuple[str, ...], Callable[[LoggedTask, list[Answer]], list[Measurement]]], ...] = (
    ("bbq-chat", (*bias_sets.BBQ_FIELDS, "additional_metadata"), _bbq),
    ("stereoset", bias_sets.STEREOSET_FIELDS, _stereoset),
)


def read_inspect(path: str | Path) -> LoggedRun:
    """Read the bias task of a log.

    Raises:
        InputMissingError: If there is no such file.
        FormatError: If the file is damaged, or no log of inspect.
    """
    file = Path(path)
    if not file.is_file():
        raise InputMissingError(f"there is no log {str(path)!r}", hint="name the .eval or .json file of one run")
    try:
        header, samples = _open_archive(file) if zipfile.is_zipfile(file) else _open_json(file)
        return _run(file, header, samples)
    except FormatError:
        raise
    except (*UNREADABLE, *DAMAGED) as error:
        raise FormatError(
            f"{file} is not a log of inspect, or damaged ({error})",
            hint="name an .eval or .json file that inspect wrote",
        ) from error


def _run(file: Path, header: Fields, samples: Iterator[Fields]) -> LoggedRun:
    spec = header.fields("eval")
    packages = spec.values.get("packages")
    version = str(packages.get("inspect_ai", "")) if isinstance(packages, dict) else ""
    name, model = spec.text("task").rpartition("/")[2], spec.text("model")
    task = LoggedTask(TOOL, version, model, name)
    warnings: list[str] = []
    if (status := header.text("status", "success")) != "success":
        warnings.append(f"the log says that the run ended with the status {status!r}: samples may be missing")
    read = None
    answers: list[Answer] = []
    failed = unscored = 0
    for number, fields in enumerate(samples):
        if fields.values.get("error"):
            failed += 1
            continue
        metadata = fields.fields("metadata")
        read = read or next((one for _, names, one in TASKS if metadata.has(*names)), None)
        if read is None:
            return LoggedRun(TOOL, version, model, [], [file], [name])
        if not fields.values.get("scores"):  # inspect reads the choice from the answer when it scores
            unscored += 1
            continue
        answers.append(_answer(number, fields, metadata))
    if failed:
        warnings.append(f"{failed} samples ended with an error and are left out")
    if unscored:
        warnings.append(f"{unscored} samples were not scored and are left out")
    if read is None or not answers:
        hint = "score it first: inspect score LOG" if unscored else "run it again, without --no-log-samples"
        raise FormatError(f"{file} has no {'scored' if unscored else 'finished'} samples", hint=hint)
    rows = read(task, answers)
    measured: list[tuple[Question, list[Measurement]]] = [(task.question(rows[0].measure), rows)]
    return LoggedRun(TOOL, version, model, measured, [file], (), warnings)


def _answer(number: int, fields: Fields, metadata: Fields) -> Answer:
    """Return a sample with its choice: the first score of the log that is the letter of one."""
    choices = fields.texts("choices")
    scores = fields.fields("scores")
    chosen = None
    for name in scores.values:
        given = scores.fields(name).values.get("answer")
        if isinstance(given, str) and LETTER.fullmatch(given.strip()):
            place = ord(given.strip()) - ord("A")
            chosen = place if place < len(choices) else None
            break
    return Answer(number, fields, metadata, choices, chosen)


def _open_json(file: Path) -> tuple[Fields, Iterator[Fields]]:
    with open_bytes(file, kept=True) as stream:
        raw = stream.read(LARGEST_LOG + 1)
    if len(raw) > LARGEST_LOG:
        raise FormatError(f"{file} is larger than {LARGEST_LOG >> 30} GB", hint="convert it: inspect log convert")
    header = Fields(json.loads(raw), str(file))
    samples = header.values.get("samples") or []
    if not isinstance(samples, list):
        raise FormatError(f"{file}: samples is not a list", hint="the log is damaged")
    return header, (Fields(sample, f"{file}, sample {number}") for number, sample in enumerate(samples, start=1))


def _open_archive(file: Path) -> tuple[Fields, Iterator[Fields]]:
    with zipfile.ZipFile(file) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
    size, most = sum(entry.file_size for entry in entries.values()), MAX_EXPANSION * file.stat().st_size
    if size > max(most, LEAST_EXPANSION):
        raise FormatError(
            f"{file} expands to {size:,} bytes, which is too much", hint="convert it: inspect log convert"
        )
    # A run that was stopped has no header yet, only what it began with.
    name = next((name for name in ("header.json", "_journal/start.json") if name in entries), None)
    if name is None:
        raise FormatError(f"{file} is no log of inspect: it has no header.json", hint="name an .eval file")
    header = _entry(file, entries[name])
    if name != "header.json":
        header.values["status"] = "started"
    samples = [entry for each, entry in entries.items() if each.startswith("samples/") and each.endswith(".json")]
    return header, (_entry(file, entry) for entry in samples)


def _entry(file: Path, entry: zipfile.ZipInfo) -> Fields:
    where = f"{file}, {entry.filename}"
    if entry.file_size > LONGEST_LINE:
        raise FormatError(f"{where} is larger than {LONGEST_LINE >> 20} MB", hint="the log is damaged")
    if entry.compress_type != ZSTANDARD:
        with zipfile.ZipFile(file) as archive, archive.open(entry) as stream:
            return Fields(json.loads(stream.read(entry.file_size)), where)
    import zstandard

    with file.open("rb") as raw:
        raw.seek(entry.header_offset)
        signature, name, extra = LOCAL_HEADER.unpack(raw.read(LOCAL_HEADER.size))
        if signature != b"PK\x03\x04":
            raise FormatError(f"{where} is not where the archive says", hint="the log is damaged")
        raw.seek(name + extra, 1)
        compressed = raw.read(entry.compress_size)
    try:
        with zstandard.ZstdDecompressor().stream_reader(compressed) as stream:
            content = stream.read(entry.file_size)
    except zstandard.ZstdError as error:
        raise FormatError(f"{where} cannot be decompressed ({error})", hint="the log is damaged") from error
    if zlib.crc32(content) != entry.CRC:
        raise FormatError(f"{where} does not have its checksum", hint="the log is damaged")
    return Fields(json.loads(content), where)
