"""SemBias: which pair of a row is most like he - she, the definitional or the stereotypical one? (Zhao et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evenhand.arrays import Matrix64, row_norms, unit_rows
from evenhand.errors import UsageError
from evenhand.measures.call import MIN_SHARE, Call, ListCoverage, measure
from evenhand.measures.geometry.bias_score import Direction, Pair, concept_poles, direction_source
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import clustered_interval, crossed_share_note
from evenhand.stats.units import mean_units
from evenhand.subspaces import Subspace
from evenhand.subspaces.lookup import SAME_WORD
from evenhand.words import Concept, Table, as_concept
from evenhand.words import table as find_table

INFO = Info(
    id="sembias",
    title="SemBias",
    takes="table",
    better="higher",
    formula="share of the rows whose definitional pair (a, b) has the largest cos(he - she, a - b) of the four",
    reading="1: gender is found where it belongs to the meaning. `stereotype` in the details is the share gone wrong.",
    limits=(
        "Only 22 definitional and 20 stereotypical pairs, so that 440 rows are far fewer independent ones. Vectors in "
        "which he and she are nearly equal, or in which every row is undecided, have no value."
    ),
    cites=("zhao2018learning",),
    queries=("sembias", "sembias-subset"),
    family="geometry",
    concepts=("gender",),
    definition=3,
    two_groups=True,
)
UNDECIDED = 1e-4  # cosines nearer than this are rounding of single (and of the embedded half) precision
CHOICES = ("definition", "stereotype", "none", "undecided")
TableRow = tuple[str, ...]


@measure(INFO)
def sembias(
    call: Call,
    vectors: Vectors,
    table: Table | str | Path = "sembias",
    *,
    direction: Direction = "own",
    pair: Pair | None = None,
    undecided: float = UNDECIDED,
    min_share: float = MIN_SHARE,
    concept: Concept | str = "gender",
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the share of rows whose definitional pair is most like the poles; vectors keep their lengths.

    Args:
        vectors: the vectors to measure.
        table: rows of pairs in columns definition, stereotype and any others; its id or its file.
        direction: "own" takes he - she of these vectors, "original" that of the reference.
        pair: the two poles; by default those of the concept.
        undecided: a row whose two largest cosines differ by less than this chooses nothing (the released code takes
            the first, which is the definitional one). When every row is undecided, there is no value.
        min_share: smallest share of complete rows, and of the concept's groups, that the vocabulary must have.
        concept: the concept that the table is about. Without a published pair, its positive group is compared with
            all others together.
        reference: vectors before mitigation.
        seed: recorded only. The interval is over definitional and stereotypical pairs: rows that share one are not
            independent.

    Returns:
        The share of rows that choose the definitional pair; the shares of the other choices are in `details`.

    What it does not tell you: anything about words outside its 42 pairs. See `evenhand show sembias`.
    """
    table_rows, concept = find_table(table), as_concept(concept)
    if "definition" not in table_rows.columns or "stereotype" not in table_rows.columns:
        raise UsageError(
            f"table {table_rows.name!r} needs columns definition and stereotype, has {', '.join(table_rows.columns)}",
            hint="use the table sembias, or one with these columns and cells like doctor:nurse",
        )
    source, poles = direction_source(vectors, reference, direction), concept_poles(concept, pair)
    coverage = vectors.locate(word for two in _split_cells(table_rows) for word in two)[1]
    vocabulary = frozenset(coverage.found)
    complete = [row for row in table_rows if all(word in vocabulary for cell in row for word in cell.split(":"))]
    call.describe(table_rows.name, coverage=coverage, params=poles.to_dict())
    rows_list = ListCoverage(table_rows.name, len(complete), len(table_rows), "complete row")
    call.require((rows_list, *poles.lists(source)), min_share)
    cosines, equal = _cosines(vectors, complete, poles.axis(source, normalise=False))
    choices = _choices(cosines, table_rows.columns, undecided)
    items = _items(complete, table_rows.columns, choices, cosines)
    if set(choices) == {"undecided"}:
        reason = f"every row is undecided: its two largest cosines differ by less than {undecided:g}"
        return call.undefined(reason, items=items)
    hits = np.array([choice == "definition" for choice in choices], dtype=np.float64)
    clusters = [[row[table_rows.columns.index(name)] for row in complete] for name in ("definition", "stereotype")]
    first, second = poles.names
    return call.measurement(
        float(hits.mean()),
        len(complete),
        note=crossed_share_note(float(hits.mean()), clusters),
        interval=clustered_interval(hits, clusters, share=True),
        units=tuple(
            mean_units(f"{name} pair", labels, hits)
            for name, labels in zip(("definition", "stereotype"), clusters, strict=True)
        ),
        reading=f"in {100 * hits.mean():.1f} % of the rows the definitional pair is most like {second} - {first}",
        items=items,
        details={
            **{name: choices.count(name) / len(choices) for name in CHOICES},
            "rows": len(table_rows),
            "lost_rows": len(table_rows) - len(complete),
            "equal_pairs": equal,
        },
    )


def _split_cells(table: Table) -> list[tuple[str, str]]:
    """Return every pair of the table; raise `UsageError` for a cell that is not a pair."""
    cells = [cell.split(":") for row in table for cell in row]
    if wrong := [cell for cell in cells if len(cell) != 2]:
        raise UsageError(f"table {table.name!r}: {':'.join(wrong[0])!r} is not a pair", hint="write first:second")
    return [(first, second) for first, second in cells]


def _cosines(vectors: Vectors, rows: list[TableRow], axis: Subspace) -> tuple[Matrix64, int]:
    """Return (rows, columns) cosines of each pair with the axis, and how many pairs have two equal words.

    The difference of equal words is rounding, and its cosine with anything is noise: it counts as 0.
    """
    pairs = list(dict.fromkeys(cell for row in rows for cell in row))
    # The tables have the male word first and the axis points to the female pole, hence second minus first.
    first, second = (_word_rows(vectors, [pair.split(":")[side] for pair in pairs]) for side in (0, 1))
    lengths = np.maximum(row_norms(first), row_norms(second))
    equal = row_norms(second - first) <= SAME_WORD * lengths
    cosines = np.where(equal, 0.0, axis.coordinates(unit_rows(second - first))[:, 0])
    index = {pair: number for number, pair in enumerate(pairs)}
    return cosines[[[index[cell] for cell in row] for row in rows]], int(equal.sum())


def _word_rows(vectors: Vectors, words: list[str]) -> Matrix64:
    """Return one row for each word, repeated words included."""
    rows, coverage = vectors.take(words)
    index = {word: row for row, word in enumerate(coverage.found)}
    return rows[[index[word] for word in words]]


def _choices(cosines: Matrix64, columns: Sequence[str], undecided: float) -> list[str]:
    ordered = np.sort(cosines, axis=1)
    decided = ordered[:, -1] - ordered[:, -2] >= undecided
    best = [columns[column] for column in np.argmax(cosines, axis=1)]
    named = [name if name in CHOICES else "none" for name in best]
    return [name if clear else "undecided" for name, clear in zip(named, decided, strict=True)]


def _items(
    rows: list[TableRow], columns: Sequence[str], choices: list[str], cosines: Matrix64
) -> tuple[MeasuredItem, ...]:
    definition, stereotype = (columns.index(name) for name in ("definition", "stereotype"))
    return tuple(
        {
            "row": f"{row[definition]} {row[stereotype]}",
            "value": float(values[definition]),
            "stereotype": float(values[stereotype]),
            "choice": choice,
        }
        for row, choice, values in zip(rows, choices, cosines, strict=True)
    )
