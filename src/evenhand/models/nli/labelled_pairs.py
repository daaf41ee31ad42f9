"""Labelled pairs of sentences (SNLI, MultiNLI, HANS, JSONL, TSV or CSV files), and the accuracy of models on them."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.errors import FormatError, UsageError, counted, shown
from evenhand.files import (
    MAX_RECORD,
    LineLimit,
    TableRows,
    bare_name,
    existing,
    limited_lines,
    open_bytes,
    record_too_long,
    sha256_of,
)
from evenhand.models.nli.protocol import LABELS, NLIModel
from evenhand.stats import wilson

Labels: TypeAlias = NDArray[np.int8]

NOT_ENTAILED = "non-entailment"  # HANS and RTE do not distinguish neutral from contradiction
INDICES = {label: index for index, label in enumerate((*LABELS, NOT_ENTAILED))}
NAMES = {**INDICES, **{label[0]: INDICES[label] for label in LABELS}}
NAMES |= dict.fromkeys(("not_entailment", "not-entailment", "non_entailment"), INDICES[NOT_ENTAILED])
HANS = ("entailment", NOT_ENTAILED)  # the numbers 0 and 1 in copies of HANS without a header
UNDECIDED = ("-", "-1", "")  # no majority among the annotators; -1 where labels are numbers


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """Premises, hypotheses and labels, with counts of the skipped pairs.

    `labels` are indices into LABELS; 3 means non-entailment, where neutral and contradiction are not distinguished.

    >>> pairs = LabelledPairs.of(["A man ate."] * 2, ["A person ate.", "A cat slept."], ["entailment", "neutral"])
    >>> len(pairs), pairs.labels.tolist(), pairs.two_way
    (2, [0, 1], False)
    """

    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: Labels
    skipped: Mapping[str, int] = field(default_factory=dict)
    source: str = "pairs"
    sha256: str = ""

    @classmethod
    def of(
        cls, premises: Iterable[str], hypotheses: Iterable[str], labels: Iterable[str], *, source: str = "pairs"
    ) -> LabelledPairs:
        """Return pairs from memory, with labels by name."""
        rows = zip(premises, hypotheses, labels, strict=True)
        named = [(n, {"premise": p, "hypothesis": h, "label": label}) for n, (p, h, label) in enumerate(rows)]
        return _collect(named, source, {}, hashlib.sha256(repr(named).encode()).hexdigest())

    def __len__(self) -> int:
        return len(self.premises)

    @property
    def two_way(self) -> bool:
        """True if some pairs are labelled non-entailment only."""
        return bool((self.labels == INDICES[NOT_ENTAILED]).any())

    def take(self, rows: Sequence[int] | slice) -> LabelledPairs:
        """Return some of the pairs, with a digest of their own."""
        indices = np.arange(len(self))[rows]
        digest = hashlib.sha256(f"{self.sha256} {indices.tolist()}".encode()).hexdigest()
        premises, hypotheses = (tuple(side[i] for i in indices) for side in (self.premises, self.hypotheses))
        return LabelledPairs(premises, hypotheses, self.labels[indices], self.skipped, self.source, digest)

    def head(self, n: int) -> LabelledPairs:
        """Return the first n pairs."""
        return self.take(slice(0, n))

    def to_dict(self) -> dict[str, object]:
        """Return source, digest and counts, without the pairs themselves."""
        counts = Counter(self.labels.tolist())
        return {
            "source": self.source,
            "sha256": self.sha256,
            "pairs": len(self),
            "by_label": {label: counts[index] for label, index in INDICES.items() if counts[index]},
            "skipped": dict(self.skipped),
        }


def read_pairs(
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    one_class: bool = False,
    max_record: int = MAX_RECORD,
) -> LabelledPairs:
    """Read labelled pairs from a .jsonl, .tsv, .txt or .csv file, compressed or not.

    Sentences are in the columns premise and hypothesis, or sentence1 and sentence2; labels are in gold_label or label,
    by name in any case or by first letter. The meaning of numeric labels differs between files: they need `labels`,
    except in files whose name begins with hans, where 1 is non-entailment. Pairs without a majority label and pairs
    with an empty sentence are skipped and counted.

    Args:
        path: The file.
        labels: Names of the labels 0, 1, 2 (or 0, 1), such as `("entailment", "neutral", "contradiction")`.
        one_class: Accept a file in which every pair has the same label.
        max_record: Longest line or row in bytes; a longer one is an error.
    """
    file = existing(Path(path), what="file of labelled pairs")
    if not file.is_file():
        raise FormatError(f"{path}: not a regular file", hint="write the pairs to a file first")
    digest = sha256_of(file)
    order = parse_label_order(HANS if file.name.lower().startswith("hans") else labels)
    if labels:  # the same file with its numbers read otherwise is other data
        digest = hashlib.sha256(f"{digest} {sorted(order.items())}".encode()).hexdigest()
    pairs = _collect(_rows(file, max_record), file.name, order, digest, where=str(path))
    if not one_class:
        require_several_labels(pairs)
    return pairs


def parse_label_order(labels: Sequence[str] | None) -> dict[str, int]:
    """Return the label index of each number that a file may use, given the names in order."""
    if labels is None:
        return {}
    unknown = [label for label in labels if label not in NAMES]
    if isinstance(labels, str) or unknown or not len(set(labels)) == len(labels) > 1:
        raise UsageError(
            f"the order of labels must name two or three of {', '.join(INDICES)}, got {labels!r}",
            hint='for example ("entailment", "neutral", "contradiction") or ("entailment", "non-entailment")',
        )
    return {str(number): NAMES[label] for number, label in enumerate(labels)}


def require_three_way(pairs: LabelledPairs) -> None:
    """Raise `UsageError` if some labels do not distinguish neutral from contradiction, as training needs."""
    if pairs.two_way:
        raise UsageError(
            f"{pairs.source}: its labels do not distinguish neutral from contradiction",
            hint="use it for evaluation only",
        )


def require_several_labels(pairs: LabelledPairs) -> None:
    """Raise `FormatError` if all pairs have the same label, from which nothing can be learned."""
    if len(present := np.unique(pairs.labels)) < 2:
        only = next(label for label, index in INDICES.items() if index in present)
        raise FormatError(
            f"{pairs.source}: the only label of its {counted(len(pairs), 'pair')} is {only!r}",
            hint="training needs pairs of every label; check whether the file is complete",
        )


def _rows(path: Path, max_record: int) -> Iterator[tuple[int, Row]]:
    suffix = Path(bare_name(path)).suffix
    if suffix not in READERS:
        raise UsageError(
            f"{path}: labelled pairs must be in a {', '.join(READERS)} file, got {suffix or 'a name without suffix'}",
            hint="rename the file after its format",
        )
    with open_records(path) as stream:
        yield from READERS[suffix](stream, path, max_record)


def _collect(
    rows: Iterable[tuple[int, Row]], source: str, numbers: Mapping[str, int], sha256: str, *, where: str = ""
) -> LabelledPairs:
    where = where or source
    skipped: Counter[str] = Counter()
    premises, hypotheses, indices = [], [], []
    for line, row in rows:
        premise, hypothesis, label = row["premise"].strip(), row["hypothesis"].strip(), row["label"].strip()
        if label in UNDECIDED:
            skipped["no decided label"] += 1
        elif not premise or not hypothesis:
            skipped["empty sentence"] += 1
        else:
            premises.append(premise)
            hypotheses.append(hypothesis)
            indices.append(_label_index(label, numbers, f"{where}:{line}"))
    if not indices:
        reasons = "; ".join(f"{count:,} skipped: {reason}" for reason, count in skipped.items())
        raise FormatError(
            f"{where}: no labelled pairs{f' ({reasons})' if reasons else ''}", hint="check that it is the right file"
        )
    return LabelledPairs(tuple(premises), tuple(hypotheses), np.array(indices, np.int8), dict(skipped), source, sha256)


def _label_index(label: str, numbers: Mapping[str, int], where: str) -> int:
    index = NAMES.get(label.lower(), numbers.get(label))
    if index is None:
        number = label.lstrip("-").isdigit()
        raise FormatError(
            f"{where}: unknown label {shown(label)}",
            hint="the meaning of numbers differs between files: name them in order: `labels=`"
            if number and not numbers
            else f"labels are {', '.join(INDICES)}" + (f", or {', '.join(numbers)}" if numbers else ""),
        )
    return index


Row: TypeAlias = Mapping[str, str]

# SNLI, MultiNLI and GLUE use the second names. gold_label comes first: some files also have label1 ... label5 of single
# annotators, and HANS as JSON lines has both.
COLUMNS = {
    "premise": ("premise", "sentence1"),
    "hypothesis": ("hypothesis", "sentence2"),
    "label": ("gold_label", "label"),
}


def _jsonl(stream: IO[bytes], path: Path, max_record: int) -> Iterator[tuple[int, Row]]:
    return ((line, _select_columns(row, path, line)) for line, row in json_objects(stream, path, max_record))


def _table(
    stream: IO[bytes], path: Path, max_record: int, *, delimiter: str, quoting: Literal[0, 3]
) -> Iterator[tuple[int, Row]]:
    rows = table_rows(stream, path, max_record, delimiter=delimiter, quoting=quoting)
    header: Sequence[str] | None = None
    for cells in rows:
        if not cells:
            continue
        if header is None:
            header = [cell.strip() for cell in cells]
            if _is_header(header):
                continue
            header = _headerless(cells, path)
        if len(cells) < len(header) and not _complete(header, cells):
            raise FormatError(f"{path}:{rows.line_num}: {len(cells)} columns, but the header has {len(header)}")
        yield rows.line_num, _select_columns(dict(zip(header, cells, strict=False)), path, rows.line_num)


def _is_header(cells: Iterable[str]) -> bool:
    columns = {name for names in COLUMNS.values() for name in names}
    return bool(columns & set(cells))


def _headerless(cells: Sequence[str], path: Path) -> Sequence[str]:
    """Return the columns of a table without a header: premise, hypothesis, label, as in many copies of HANS."""
    if len(cells) != len(COLUMNS):
        raise FormatError(
            f"{path}:1: the header names no known column: {', '.join(cells)[:SHOWN]!r}",
            hint="name the columns premise, hypothesis and label, or sentence1, sentence2 and gold_label",
        )
    return tuple(COLUMNS)


def _complete(header: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether a short row has the required columns; releases omit the labels of the last annotators."""
    present = set(header[: len(cells)])
    return all(present & set(names) for names in COLUMNS.values())


def _select_columns(row: Mapping[str, object], path: Path, line: int) -> Row:
    values = {}
    for column, names in COLUMNS.items():
        name = next((name for name in names if name in row), None)
        if name is None:
            raise FormatError(
                f"{path}:{line}: no {' or '.join(names)}, only {', '.join(sorted(map(str, row)))[:SHOWN]}",
                hint="every pair needs a premise, a hypothesis and a label",
            )
        value = row[name]
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise FormatError(f"{path}:{line}: {name} is {shown(value)}, expected text")
        values[column] = "" if value is None else str(value)
    return values


# Quotation marks in the published tables belong to the sentences.
_tab_separated = partial(_table, delimiter="\t", quoting=csv.QUOTE_NONE)
READERS: dict[str, Callable[[IO[bytes], Path, int], Iterator[tuple[int, Row]]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".tsv": _tab_separated,
    ".txt": _tab_separated,
    ".csv": partial(_table, delimiter=",", quoting=csv.QUOTE_MINIMAL),
}


SHOWN = 60
SURROGATE = "\\ud"  # how JSON escapes begin that may stand for half a character


@contextlib.contextmanager
def open_records(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of UTF-8 text, decompressed if its name says so.

    Raises:
        InputMissingError: If it is not a readable file.
        FormatError: If it is not UTF-8, or a table that cannot be parsed.
    """
    with open_bytes(existing(path), kept=True) as stream:
        try:
            yield stream
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: not UTF-8 text ({error.reason})", hint="save it as UTF-8") from error
        except csv.Error as error:
            raise FormatError(f"{path}: not a valid table ({error})", hint="check for an unclosed quote") from error


def table_rows(
    stream: IO[bytes],
    path: Path,
    max_record: int,
    *,
    delimiter: str = ",",
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL,
    strict: bool = False,
) -> TableRows:
    """Return the rows of a table; a row of more than `max_record` bytes is an error."""
    limited = cast(IO[bytes], LineLimit(stream, max_record, str(path)))
    text = io.TextIOWrapper(limited, encoding="utf-8-sig", newline="")
    return TableRows(text, max_record, str(path), delimiter=delimiter, quoting=quoting, strict=strict)


def json_objects(stream: IO[bytes], path: Path, max_record: int) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield line number and object of each line; blank lines are skipped, too long ones are an error."""
    for line, record in enumerate(limited_lines(stream, max_record), start=1):
        if record is None:
            raise record_too_long(f"{path}:{line}", max_record)
        if record.strip():
            yield line, _parse_object(record.decode("utf-8-sig"), f"{path}:{line}")


def _parse_object(record: str, where: str) -> dict[str, object]:
    try:
        row = json.loads(record)
        if SURROGATE in record.lower():
            json.dumps(row, ensure_ascii=False).encode()
    except RecursionError as error:
        raise FormatError(f"{where}: the JSON is nested too deeply", hint="write one flat object per line") from error
    except UnicodeEncodeError as error:
        raise FormatError(
            f"{where}: holds half a character (a lone surrogate escape)", hint="write the text as UTF-8"
        ) from error
    except ValueError as error:  # JSONDecodeError, integers of thousands of digits
        raise FormatError(f"{where}: not valid JSON ({error})", hint="write one object per line") from error
    if not isinstance(row, dict):
        raise FormatError(f"{where}: a row must be an object with named fields, got {shown(row, most=SHOWN)}")
    return row


TWO_WAY = (LABELS[0], NOT_ENTAILED)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Accuracy with its interval over pairs, recall by label, and the confusion matrix.

    `confusion` counts pairs, with true labels in rows and predictions in columns, in the order of `labels`. `by_label`
    is the recall of each label; None for a label that no pair has.
    """

    accuracy: float
    interval: tuple[float, float]
    n: int
    by_label: Mapping[str, float | None]
    confusion: Rows
    skipped: Mapping[str, int]
    labels: tuple[str, ...] = LABELS
    source: str = "pairs"

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "source": self.source,
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "n": self.n,
            "by_label": dict(self.by_label),
            "labels": list(self.labels),
            "confusion": self.confusion.tolist(),
            "skipped": dict(self.skipped),
        }


def evaluate(
    model: NLIModel,
    pairs: LabelledPairs,
    *,
    batch: int = 8_192,
    progress: Callable[[int, int, str], None] | None = None,
) -> Accuracy:
    """Return the accuracy of a model on labelled pairs.

    Ties go to the first label in the order of LABELS. If pairs are labelled entailment and non-entailment only, as in
    HANS, neutral and contradiction both count as non-entailment.

    What it does not tell you: pairs that share a premise are not independent, so the interval is somewhat too narrow.
    A model may also be right for reasons that have nothing to do with inference, such as single words of the
    hypothesis.
    """
    if batch < 1:
        raise UsageError(f"batch must be at least 1, got {batch}")
    predictions = np.empty(len(pairs), np.int64)
    for start in range(0, len(pairs), batch):
        span = slice(start, start + batch)
        predictions[span] = model.predict(pairs.premises[span], pairs.hypotheses[span]).matrix.argmax(axis=1)
        if progress:
            progress(min(start + batch, len(pairs)), len(pairs), pairs.source)
    return _accuracy(predictions, pairs)


def _accuracy(predictions: Rows, pairs: LabelledPairs) -> Accuracy:
    truth = pairs.labels.astype(np.int64)
    names: tuple[str, ...] = LABELS
    if pairs.two_way:
        truth, predictions, names = (truth > 0).astype(np.int64), (predictions > 0).astype(np.int64), TWO_WAY
    confusion = np.bincount(truth * len(names) + predictions, minlength=len(names) ** 2).reshape(len(names), -1)
    correct, totals = np.diag(confusion), confusion.sum(axis=1)
    by_label = {name: float(c / n) if n else None for name, c, n in zip(names, correct, totals, strict=True)}
    accuracy = int(correct.sum()) / len(pairs)
    low, high = wilson(accuracy, len(pairs)).tolist()
    return Accuracy(
        accuracy,
        (low, high),
        len(pairs),
        by_label,
        np.asarray(confusion, dtype=np.int64),
        dict(pairs.skipped),
        names,
        pairs.source,
    )
