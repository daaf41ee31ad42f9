"""Predictions made elsewhere: JSONL or CSV files with one row per pair of an exported probe, in its order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from evenhand.errors import FormatError, UsageError, shown
from evenhand.files import MAX_RECORD, bare_name
from evenhand.models.nli.labelled_pairs import json_objects, open_records, table_rows
from evenhand.models.nli.protocol import LABELS, Probabilities, require_equal_lengths
from evenhand.words.probes import Points, Probe

PredictionRow = Mapping[str, object]


@dataclass(frozen=True)
class PredictionsFile:
    """A file of predictions as a model. Every row has the columns entailment, neutral and contradiction.

    `columns` maps these labels to other column names. The columns index, premise and hypothesis, if present, are
    checked against the probe. Rows are streamed.
    """

    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    max_record: int = MAX_RECORD
    """Longest line or row in bytes; a longer one is an error."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        object.__setattr__(self, "name", self.name or self.path.name)
        if set(self.columns) - set(LABELS):
            raise UsageError(f"columns must map {', '.join(LABELS)} to names in the file, got {dict(self.columns)!r}")
        if Path(bare_name(self.path)).suffix not in READERS:
            raise UsageError(
                f"{self.path}: predictions must be {' or '.join(READERS)} files",
                hint="rename the file after its format",
            )

    def recorded(self, probe: Probe, blocks: Iterable[Points]) -> Iterator[Probabilities]:
        """Yield the predictions of each block of pairs, in the order of the file."""
        rows, done = self._rows(), 0
        for points in blocks:
            block = list(islice(rows, len(points.phrase)))
            probabilities = self._probabilities(block)  # first: a missing column explains more than a missing row
            self._require_same_pairs(block, probe, points)
            if len(block) < len(points.phrase):
                raise FormatError(
                    f"{self.path}: only {done + len(block):,} rows; {probe.name} has {probe.n_pairs:,} pairs",
                    hint="predict every row of the exported probe, or give the sample and seed of the export",
                )
            done += len(block)
            yield probabilities
        if next(rows, None) is not None:
            raise FormatError(
                f"{self.path}: more than the {done:,} rows expected for {probe.name}",
                hint="give the probe, sample and seed of the export",
            )

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """Return the predictions for these texts; the file must have the columns premise and hypothesis."""
        require_equal_lengths(premises, hypotheses)
        rows = {(str(row.get("premise")), str(row.get("hypothesis"))): (line, row) for line, row in self._rows()}
        pairs = list(zip(premises, hypotheses, strict=True))
        for pair in pairs:
            if pair not in rows:
                raise FormatError(f"{self.path}: no row for the pair {pair[0]!r}, {pair[1]!r}")
        return self._probabilities([rows[pair] for pair in pairs])

    def _rows(self) -> Iterator[tuple[int, PredictionRow]]:
        """Yield line number and row; blank lines are skipped."""
        with open_records(self.path) as stream:
            yield from READERS[Path(bare_name(self.path)).suffix](stream, self.path, self.max_record)

    def _probabilities(self, rows: Sequence[tuple[int, PredictionRow]]) -> Probabilities:
        names = [self.columns.get(label, label) for label in LABELS]
        numbers = np.empty((len(rows), len(LABELS)))
        for index, (line, row) in enumerate(rows):
            missing = [name for name in names if name not in row]
            if missing:
                raise FormatError(
                    f"{self.path}:{line}: no column {missing[0]!r}, only {shown(sorted(map(str, row)))}",
                    hint="name the three columns entailment, neutral, contradiction (in Python: columns={...})",
                )
            values = [row[name] for name in names]
            try:
                numbers[index] = [_parse_number(value) for value in values]
            except (TypeError, ValueError, OverflowError) as error:
                raise FormatError(
                    f"{self.path}:{line}: {shown(values)} are not probabilities",
                    hint="write three numbers for each pair, such as 0.2",
                ) from error
        try:
            return Probabilities.named(numbers)
        except FormatError:
            # Check row by row, so that the error names the line of the file.
            for index, (line, _) in enumerate(rows):
                Probabilities.named(numbers[index : index + 1], where=f"{self.path}:{line}")
            raise

    def _require_same_pairs(self, rows: Sequence[tuple[int, PredictionRow]], probe: Probe, points: Points) -> None:
        expected: dict[str, Sequence[object]] = {}
        if rows and "index" in rows[0][1]:
            expected["index"] = np.ravel_multi_index(points, probe.shape).tolist()
        if rows and "premise" in rows[0][1] and "hypothesis" in rows[0][1]:
            expected["premise"], expected["hypothesis"] = probe.texts(points)
        for index, (line, row) in enumerate(rows):
            for column, values in expected.items():
                actual, value = row.get(column), values[index]
                if str(actual) != str(value):
                    raise FormatError(
                        f"{self.path}:{line}: {column} is {shown(actual, most=200)}, in {probe.name} it is {value!r}",
                        hint="predict the pairs in the order of the export, in the same surface form",
                    )


def _parse_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return float(value)


def _csv(stream: IO[bytes], path: Path, max_record: int) -> Iterator[tuple[int, PredictionRow]]:
    rows = table_rows(stream, path, max_record, strict=True)
    header = next(rows, [])
    for cells in rows:
        if cells:
            yield rows.line_num, dict(zip(header, cells, strict=False))


READERS: dict[str, Callable[[IO[bytes], Path, int], Iterator[tuple[int, PredictionRow]]]] = {
    ".jsonl": json_objects,
    ".csv": _csv,
}
