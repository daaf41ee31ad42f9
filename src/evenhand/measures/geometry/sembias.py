"""SemBias: which pair of a row is most like he - she, the definitional or the stereotypical one? (Zhao et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, row_norms, unit_rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.geometry.bias_score import Direction, Pair, learned_on, pair_axis, pole_pair
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import clustered_means, interval
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
        "which he and she are nearly equal have no answer, and rows whose pairs were all made equal are undecided."
    ),
    cites=("zhao2018learning",),
    queries=("sembias", "sembias-subset"),
    family="geometry",
    concepts=("gender",),
)
UNDECIDED = 1e-4  # cosines nearer than this are rounding of single (and of the embedded half) precision
CHOICES = ("definition", "stereotype", "none", "undecided")


@measure(INFO)
def sembias(
    vectors: Vectors,
    table: Table | str | Path = "sembias",
    *,
    direction: Direction = "own",
    pair: Pair | None = None,
    undecided: float = UNDECIDED,
    concept: Concept | str = "gender",
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """The share of rows that choose the definitional pair; the shares of the other choices in the details.

    A row whose two largest cosines differ by less than `undecided` chooses nothing (the released code takes the first,
    which is the definitional one). A row that lacks a word is left out and counted. Vectors keep their lengths.
    he - she is that of these vectors (`direction="own"`) or of the `reference` ("original"). The interval draws
    definitional and stereotypical pairs anew, because rows that share one are not independent.

    What it does not tell you: anything about words outside its 42 pairs. See `evenhand show sembias`.
    """
    asked, about = find_table(table), as_concept(concept)
    if "definition" not in asked.columns or "stereotype" not in asked.columns:
        raise UsageError(
            f"table {asked.name!r} has no columns definition and stereotype: {', '.join(asked.columns)}",
            hint="use the table sembias, or one with these columns and cells like doctor:nurse",
        )
    source, ends = learned_on(vectors, reference, direction), pole_pair(about, pair)
    coverage = vectors.locate(word for two in _pairs_of(asked) for word in two)[1]
    complete = [row for row in asked if all(word in coverage.found for cell in row for word in cell.split(":"))]
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "params": {"concept": about.name, "pair": list(ends), "direction": direction, "undecided": undecided},
        "seed": seed,
    }
    if not complete:
        return undefined("sembias", f"no row of {asked.name} has all its words in the vocabulary", coverage, **common)
    try:
        cosines, equal = _cosines(vectors, complete, pair_axis(source, ends, normalise=False))
    except (DegenerateError, VocabularyError) as error:
        return undefined("sembias", error.message, coverage, **common)
    choices = _choices(cosines, asked.columns, undecided)
    hits = np.array([choice == "definition" for choice in choices], dtype=np.float64)
    clusters = [[row[asked.columns.index(name)] for row in complete] for name in ("definition", "stereotype")]
    return Measurement(
        "sembias",
        float(hits.mean()),
        len(complete),
        coverage,
        interval=interval(clustered_means(hits, clusters, seed=seed)),
        reading=f"in {100 * hits.mean():.1f} % of the rows the definitional pair is most like {ends[1]} - {ends[0]}",
        items=_items(complete, asked.columns, choices, cosines),
        details={name: choices.count(name) / len(choices) for name in CHOICES}
        | {"rows": len(asked), "lost_rows": len(asked) - len(complete), "equal_pairs": equal},
        **common,
    )


def _pairs_of(asked: Table) -> list[tuple[str, str]]:
    """Every pair of the table; a cell that is no pair is an error."""
    cells = [cell.split(":") for row in asked for cell in row]
    if wrong := [cell for cell in cells if len(cell) != 2]:
        raise UsageError(f"table {asked.name!r}: {':'.join(wrong[0])!r} is no pair", hint="write first:second")
    return [(first, second) for first, second in cells]


def _cosines(vectors: Vectors, rows: list[tuple[str, ...]], axis: Subspace) -> tuple[Matrix64, int]:
    """(rows, columns) cosines of each pair with the axis, and how many pairs have two equal words.

    The difference of equal words is rounding, and its cosine with anything is noise: it counts as 0.
    """
    pairs = list(dict.fromkeys(cell for row in rows for cell in row))
    # The tables have the male word first and the axis points to the female pole, hence second minus first.
    first, second = (_rows(vectors, [pair.split(":")[side] for pair in pairs]) for side in (0, 1))
    lengths = np.maximum(row_norms(first), row_norms(second))
    equal = row_norms(second - first) <= SAME_WORD * lengths
    cosines = np.where(equal, 0.0, axis.coordinates(unit_rows(second - first))[:, 0])
    place = {pair: spot for spot, pair in enumerate(pairs)}
    return cosines[[[place[cell] for cell in row] for row in rows]], int(equal.sum())


def _rows(vectors: Vectors, words: list[str]) -> Matrix64:
    """One row a word, repeats kept."""
    taken, coverage = vectors.take(words)
    place = {word: row for row, word in enumerate(coverage.found)}
    return taken[[place[word] for word in words]]


def _choices(cosines: Matrix64, columns: Sequence[str], undecided: float) -> list[str]:
    ordered = np.sort(cosines, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] >= undecided
    best = [columns[column] for column in np.argmax(cosines, axis=1)]
    named = [name if name in CHOICES else "none" for name in best]
    return [name if sure else "undecided" for name, sure in zip(named, clear, strict=True)]


def _items(
    rows: list[tuple[str, ...]], columns: Sequence[str], choices: list[str], cosines: Matrix64
) -> tuple[Mapping[str, Any], ...]:
    ends = [columns.index(name) for name in ("definition", "stereotype")]
    return tuple(
        {"row": f"{row[ends[0]]} {row[ends[1]]}", "value": float(values[ends[0]]), "stereotype": float(values[ends[1]])}
        | {"choice": choice}
        for row, choice, values in zip(rows, choices, cosines, strict=True)
    )
