"""Labelled pairs of sentences: SNLI, MultiNLI, HANS, and plain JSONL, TSV or CSV files."""

from __future__ import annotations

import csv
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, UsageError
from evenhand.files import bare_name, existing
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.text_rows import SHOWN, json_objects, opened_text

Labels: TypeAlias = NDArray[np.int8]

NOT_ENTAILED = "non-entailment"  # HANS and RTE do not tell neutral from contradiction
PLACES = {label: place for place, label in enumerate((*LABELS, NOT_ENTAILED))}
NAMES = {**PLACES, **{label[0]: PLACES[label] for label in LABELS}}
NAMES |= dict.fromkeys(("not_entailment", "not-entailment", "non_entailment"), PLACES[NOT_ENTAILED])
HANS = ("entailment", NOT_ENTAILED)  # as numbers 0 and 1 in the copies of HANS that have no header
UNDECIDED = ("-", "-1", "")  # no majority among the annotators; -1 where labels are numbers


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """Premises, hypotheses and labels (places in LABELS; 3 where only non-entailment is known), and what was skipped.

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
        """Pairs from memory, with labels by name."""
        rows = zip(premises, hypotheses, labels, strict=True)
        named = [(n, {"premise": p, "hypothesis": h, "label": label}) for n, (p, h, label) in enumerate(rows)]
        return _gathered(named, source, {}, hashlib.sha256(repr(named).encode()).hexdigest())

    def __len__(self) -> int:
        return len(self.premises)

    @property
    def two_way(self) -> bool:
        """Whether all that is known of some pairs is that the hypothesis does not follow."""
        return bool((self.labels == PLACES[NOT_ENTAILED]).any())

    def take(self, rows: Sequence[int] | slice) -> LabelledPairs:
        """Some of the pairs; their digest tells them from the whole."""
        chosen = np.arange(len(self))[rows]
        digest = hashlib.sha256(f"{self.sha256} {chosen.tolist()}".encode()).hexdigest()
        premises, hypotheses = (tuple(side[i] for i in chosen) for side in (self.premises, self.hypotheses))
        return LabelledPairs(premises, hypotheses, self.labels[chosen], self.skipped, self.source, digest)

    def head(self, n: int) -> LabelledPairs:
        """The first n pairs."""
        return self.take(slice(0, n))

    def to_dict(self) -> dict[str, Any]:
        """What the data were, without the data."""
        counts = Counter(self.labels.tolist())
        return {
            "source": self.source,
            "sha256": self.sha256,
            "pairs": len(self),
            "by_label": {label: counts[place] for label, place in PLACES.items() if counts[place]},
            "skipped": dict(self.skipped),
        }


def read_pairs(
    path: str | os.PathLike[str], *, labels: Sequence[str] | None = None, one_class: bool = False
) -> LabelledPairs:
    """Read a file of labelled pairs, compressed or not, its form told by its name (.jsonl, .tsv, .txt, .csv).

    Sentences are found under premise and hypothesis or sentence1 and sentence2, labels under gold_label or label, by
    name in any case or by first letter. Numbers mean different labels in different files: they are refused unless
    `labels` gives their names in order, or the file's name begins with hans, in whose copies 1 is non-entailment. Pairs
    without a decided label or with an empty sentence are skipped and counted.

    Args:
        path: The file.
        labels: Names of the labels 0, 1, 2 or 0, 1, such as `("entailment", "neutral", "contradiction")`.
        one_class: Accept a file in which every pair has the same label.
    """
    file = existing(Path(path), what="file of labelled pairs")
    with file.open("rb") as raw:
        digest = hashlib.file_digest(raw, "sha256").hexdigest()
    order = numbered(HANS if file.name.lower().startswith("hans") else labels)
    found = _gathered(_rows(file), file.name, order, digest, where=str(path))
    if not one_class:
        refuse_one_class(found)
    return found


def numbered(labels: Sequence[str] | None) -> dict[str, int]:
    """Places of labels that a file writes as numbers, from their names in order."""
    if labels is None:
        return {}
    unknown = [label for label in labels if label not in NAMES]
    if isinstance(labels, str) or unknown or not len(set(labels)) == len(labels) > 1:
        raise UsageError(
            f"the order of labels must name two or three of {', '.join(PLACES)}, got {labels!r}",
            hint='such as ("entailment", "neutral", "contradiction") or ("entailment", "non-entailment")',
        )
    return {str(number): NAMES[label] for number, label in enumerate(labels)}


def refuse_one_class(pairs: LabelledPairs) -> None:
    """An error when all pairs have one label: from them nothing can be learnt."""
    if len(kinds := np.unique(pairs.labels)) < 2:
        only = [label for label, place in PLACES.items() if place in kinds]
        raise FormatError(
            f"{pairs.source}: every one of its {len(pairs):,} pairs is labelled {only[0]!r}",
            hint="a model needs pairs of every label: is this a part of a larger file?",
        )


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    suffix = Path(bare_name(path)).suffix
    if suffix not in READERS:
        raise UsageError(
            f"{path}: labelled pairs are read from {', '.join(READERS)}, not from {suffix or 'a name without suffix'}",
            hint="rename the file after its form",
        )
    with opened_text(path) as text:
        yield from READERS[suffix](text, path)


def _gathered(
    rows: Iterable[tuple[int, Row]], source: str, numbers: Mapping[str, int], sha256: str, *, where: str = ""
) -> LabelledPairs:
    where = where or source
    skipped: Counter[str] = Counter()
    premises, hypotheses, places = [], [], []
    for line, row in rows:
        premise, hypothesis, label = row["premise"].strip(), row["hypothesis"].strip(), row["label"].strip()
        if label in UNDECIDED:
            skipped["no decided label"] += 1
        elif not premise or not hypothesis:
            skipped["empty sentence"] += 1
        else:
            premises.append(premise)
            hypotheses.append(hypothesis)
            places.append(_place(label, numbers, f"{where}:{line}"))
    if not places:
        lost = "; ".join(f"{count:,} skipped: {reason}" for reason, count in skipped.items())
        raise FormatError(
            f"{where}: no labelled pair in it{f' ({lost})' if lost else ''}", hint="is it the right file?"
        )
    return LabelledPairs(tuple(premises), tuple(hypotheses), np.array(places, np.int8), dict(skipped), source, sha256)


def _place(label: str, numbers: Mapping[str, int], where: str) -> int:
    place = NAMES.get(label.lower(), numbers.get(label))
    if place is None:
        number = label.lstrip("-").isdigit()
        raise FormatError(
            f"{where}: unknown label {label!r}",
            hint="numbers mean other labels in other files: say which with labels=(...) or --labels"
            if number and not numbers
            else f"labels are {', '.join(PLACES)}" + (f", or {', '.join(numbers)}" if numbers else ""),
        )
    return place


Row: TypeAlias = Mapping[str, str]

# SNLI, MultiNLI and GLUE name the columns in the second way. gold_label comes first: some files have label1 ... label5
# of single annotators beside it, and HANS in JSON lines has both.
COLUMNS = {
    "premise": ("premise", "sentence1"),
    "hypothesis": ("hypothesis", "sentence2"),
    "label": ("gold_label", "label"),
}


def _jsonl(text: IO[str], path: Path) -> Iterator[tuple[int, Row]]:
    return ((line, _named(row, path, line)) for line, row in json_objects(text, path))


def _table(delimiter: str, quoting: Literal[0, 3]) -> Callable[[IO[str], Path], Iterator[tuple[int, Row]]]:
    return lambda text, path: _records(csv.reader(text, delimiter=delimiter, quoting=quoting), path)


def _records(rows: Any, path: Path) -> Iterator[tuple[int, Row]]:
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
            raise FormatError(f"{path}:{rows.line_num}: {len(cells)} columns, its header has {len(header)}")
        yield rows.line_num, _named(dict(zip(header, cells, strict=False)), path, rows.line_num)


def _is_header(cells: Iterable[str]) -> bool:
    known = {name for names in COLUMNS.values() for name in names}
    return bool(known & set(cells))


def _headerless(cells: Sequence[str], path: Path) -> Sequence[str]:
    """Three columns without a header are premise, hypothesis and label, as HANS is often passed on."""
    if len(cells) != len(COLUMNS):
        raise FormatError(
            f"{path}:1: no column of its header is known: {', '.join(cells)[:SHOWN]!r}",
            hint="name them premise, hypothesis and label, or sentence1, sentence2 and gold_label",
        )
    return tuple(COLUMNS)


def _complete(header: Sequence[str], cells: Sequence[str]) -> bool:
    """Whether a short row still has what is needed: releases leave out the last annotators' labels."""
    here = set(header[: len(cells)])
    return all(here & set(names) for names in COLUMNS.values())


def _named(row: Mapping[str, Any], path: Path, line: int) -> Row:
    found = {}
    for wanted, names in COLUMNS.items():
        name = next((name for name in names if name in row), None)
        if name is None:
            raise FormatError(
                f"{path}:{line}: no {' or '.join(names)}, only {', '.join(sorted(map(str, row)))[:SHOWN]}",
                hint="every pair needs two sentences and a label",
            )
        value = row[name]
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise FormatError(f"{path}:{line}: its {name} is {value!r}, expected text")
        found[wanted] = "" if value is None else str(value)
    return found


READERS: dict[str, Callable[[IO[str], Path], Iterator[tuple[int, Row]]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    # Quotation marks in the published tables are part of the sentences.
    ".tsv": _table("\t", csv.QUOTE_NONE),
    ".txt": _table("\t", csv.QUOTE_NONE),
    ".csv": _table(",", csv.QUOTE_MINIMAL),
}
