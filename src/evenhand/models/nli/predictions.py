"""Predictions made elsewhere: a JSONL or CSV file with one row for each pair of an exported probe, in its order."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from evenhand.errors import FormatError, UsageError
from evenhand.files import bare_name
from evenhand.models.nli.protocol import LABELS, Probabilities, require_equal_lengths
from evenhand.models.nli.text_rows import json_objects, opened_text
from evenhand.words.probes import Points, Probe

Row = Mapping[str, Any]


@dataclass(frozen=True)
class PredictionsFile:
    """A file of predictions as a model. Every row names its probabilities: entailment, neutral, contradiction.

    `columns` maps these to other names in the file. The columns index, premise and hypothesis are checked against the
    probe where the file has them. Rows are read as they are needed and never held.
    """

    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        object.__setattr__(self, "name", self.name or self.path.name)
        if set(self.columns) - set(LABELS):
            raise UsageError(f"columns maps {', '.join(LABELS)} to names in the file, got {dict(self.columns)!r}")
        if Path(bare_name(self.path)).suffix not in READERS:
            raise UsageError(f"{self.path}: predictions are read from {' or '.join(READERS)}")

    def recorded(self, probe: Probe, blocks: Iterable[Points]) -> Iterator[Probabilities]:
        """The rows of each block of pairs, in the order of the file."""
        rows, done = self._rows(), 0
        for points in blocks:
            some = list(islice(rows, len(points.phrase)))
            found = self._probabilities(some)  # first: a file without probabilities has another fault than its length
            self._refuse_other_pairs(some, probe, points)
            if len(some) < len(points.phrase):
                raise FormatError(
                    f"{self.path}: only {done + len(some):,} rows; {probe.name} has {probe.n_pairs:,} pairs",
                    hint="predict every row of the exported probe, or ask for the same sample and seed",
                )
            done += len(some)
            yield found
        if next(rows, None) is not None:
            raise FormatError(
                f"{self.path}: more than the {done:,} rows that were asked for of {probe.name}",
                hint="is it another probe, or a sample? give the same sample and seed as the export had",
            )

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """The rows with these texts, for files that have the columns premise and hypothesis."""
        require_equal_lengths(premises, hypotheses)
        wanted = dict.fromkeys(zip(premises, hypotheses, strict=True))
        found = {(row[1].get("premise"), row[1].get("hypothesis")): row for row in self._rows()}
        for pair in wanted:
            if pair not in found:
                raise FormatError(f"{self.path}: no row for the pair {pair[0]!r}, {pair[1]!r}")
        chosen = [found[pair] for pair in zip(premises, hypotheses, strict=True)]
        return self._probabilities(chosen)

    def _rows(self) -> Iterator[tuple[int, Row]]:
        """Line number and row; blank lines are passed over."""
        with opened_text(self.path) as text:
            yield from READERS[Path(bare_name(self.path)).suffix](text, self.path)

    def _probabilities(self, rows: Sequence[tuple[int, Row]]) -> Probabilities:
        names = [self.columns.get(label, label) for label in LABELS]
        numbers = np.empty((len(rows), len(LABELS)))
        for place, (line, row) in enumerate(rows):
            try:
                numbers[place] = [float(row[name]) for name in names]
            except KeyError as error:
                raise FormatError(
                    f"{self.path}:{line}: no column {error.args[0]!r}, only {sorted(map(str, row))}",
                    hint="name the three columns entailment, neutral, contradiction (in Python: columns={...})",
                ) from error
            except (TypeError, ValueError) as error:
                raise FormatError(
                    f"{self.path}:{line}: {[row[name] for name in names]} are no probabilities",
                    hint="write three numbers for each pair, such as 0.2",
                ) from error
        return self._checked(rows, numbers)

    def _checked(self, rows: Sequence[tuple[int, Row]], numbers: np.ndarray) -> Probabilities:
        try:
            found: Probabilities = Probabilities.named(numbers)
        except FormatError:
            # Once more, row by row: the error is to name the line of the file.
            for place, (line, _) in enumerate(rows):
                Probabilities.named(numbers[place : place + 1], where=f"{self.path}:{line}")
            raise
        return found

    def _refuse_other_pairs(self, rows: Sequence[tuple[int, Row]], probe: Probe, points: Points) -> None:
        expected: dict[str, list[Any]] = {}
        if rows and "index" in rows[0][1]:
            expected["index"] = np.ravel_multi_index(points, probe.shape).tolist()
        if rows and "premise" in rows[0][1] and "hypothesis" in rows[0][1]:
            expected["premise"], expected["hypothesis"] = probe.texts(points)
        for place, (line, row) in enumerate(rows):
            for column, values in expected.items():
                given, value = row.get(column), values[place]
                if str(given) != str(value):
                    raise FormatError(
                        f"{self.path}:{line}: {column} is {given!r}, in {probe.name} it is {value!r}",
                        hint="predict the pairs in the order of the export, in the same surface form",
                    )


def _csv(text: IO[str], path: Path) -> Iterator[tuple[int, Row]]:
    rows = csv.DictReader(text)
    for row in rows:
        yield rows.line_num, row


READERS: dict[str, Callable[[IO[str], Path], Iterator[tuple[int, Row]]]] = {".jsonl": json_objects, ".csv": _csv}
