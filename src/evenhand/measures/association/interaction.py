"""Interaction: is the intersection of two groups more than the sum of its two parts?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Vector64, unit_rows
from evenhand.errors import DegenerateError
from evenhand.measures.association.located_query import locate_query
from evenhand.measures.association.weat import association
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats.permutation import InteractionTest, interaction_test
from evenhand.stats.units import linearised_units
from evenhand.words import Query
from evenhand.words.intersection import FEWEST, SIGN, cell_name

INFO = Info(
    id="interaction",
    title="Interaction of two concepts",
    takes="query",
    better="zero",
    formula=(
        "I_ij = (m_ij - m_i. - m_.j + m_..) / sd within cells;  m_ij = mean of s(w) over the words of a cell, "
        "s(w) = mean_A cos(w, a) - mean_B cos(w, b)"
    ),
    reading=(
        "The value is that of the first cell. Above 0: it is nearer to the first attributes than the sum of its two "
        "groups predicts. In standard deviations within cells; the p-value is that of the whole table."
    ),
    limits=(
        "It tests departure from a sum, not how badly a cell is off: a cell can be worst of all because two large "
        "parts add up, see the means in the items. First names are proxies. A vector composed of the words of a "
        "phrase is a sum by construction. Words that share a name or a noun are not independent."
    ),
    cites=("guo2021", "freedman1983", "caliskan2017"),
    arity=(None, 2),
    crossed=True,
    null=0.0,
    definition=3,
)


@measure(INFO)
def interaction(
    call: Call,
    vectors: Vectors,
    query: Query | str,
    *,
    samples: int = 10_000,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure what the cells of an intersection have beyond the sum of their two groups.

    With m_ij the mean association of the words of cell ij, the sum of the two parts is m_i. + m_.j - m_.., where the
    marginal means are unweighted over cells; I_ij is the cell mean minus that sum, over the pooled standard deviation
    within cells. In a table of 2 x 2, all four are the same up to the sign, and I_11 is a quarter of
    (m_11 - m_12 - m_21 + m_22) / sd.

    A cell with fewer than four words in the vocabulary leaves the measure undefined.

    Args:
        vectors: the vectors to measure.
        query: target sets that are named as the cells of a table ("female x old"), and two attribute sets.
            `words.concept_query("gender x race/pleasant-unpleasant", words.concept("gender x race"))` builds one.
        samples: permutations of the test (see `stats.permutation.interaction_test`).
        min_share: smallest share of each set that the vocabulary must have.
        reference: vectors before mitigation.
        seed: seed of the permutations.

    Returns:
        The effect of the first cell, with mean, expected mean, effect and interval of each cell in `items`, and the
        strength over all cells in `details`.

    What it does not tell you: whether a group is treated badly. See `evenhand show interaction`.
    """
    located = locate_query(vectors, query, targets=None, attributes=2)
    first = located.targets[0].name
    positive = f"{first} with {located.attributes[0].name}"
    call.describe(located.query, positive=positive, coverage=located.coverage)
    layout = table_layout(located.query)
    call.require(located.lists(), min_share)
    located.require_distinct_means()
    a, b = (unit_rows(group.rows) for group in located.attributes)
    scores = {group.name: association(unit_rows(group.rows), a, b) for group in located.targets}
    words = {group.name: group.words for group in located.targets}
    attributes = [group.name for group in located.attributes]
    return layout.measurement(call, scores, words, attributes, samples=samples, seed=seed, details=located.details())


@dataclass(frozen=True)
class TableLayout:
    """The rows and columns of an intersection, read from the names of its cells."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def cells(self) -> list[str]:
        """The names of the cells, row by row."""
        return [cell_name(row, column) for row in self.rows for column in self.columns]

    def measurement(
        self,
        call: Call,
        scores: Mapping[str, Vector64],
        words: Mapping[str, Sequence[str]],
        attributes: Sequence[str],
        *,
        samples: int,
        seed: int,
        details: Mapping[str, object] | None = None,
    ) -> Measurement:
        """Return the effect of the first cell.

        Args:
            call: the call of the measure.
            scores: the association of each word, by cell.
            words: the words, by cell.
            attributes: names of the two attribute sets.
            samples: permutations of the test.
            seed: seed of the permutations.
            details: what else to record.
        """
        small = {cell: len(values) for cell, values in scores.items() if len(values) < FEWEST}
        if small:
            counts = ", ".join(f"{cell} {size}" for cell, size in small.items())
            raise DegenerateError(
                f"an interaction needs {FEWEST} words in each cell to be tested, and there are fewer: {counts}"
            )
        table = [[scores[cell_name(row, column)] for column in self.columns] for row in self.rows]
        tested = interaction_test(table, samples=samples, seed=seed)
        value, left_out = float(tested.effects[0, 0]), tested.left_out[:, 0, 0]
        names = [f"{cell}:{word}" for cell in self.cells for word in words[cell]]
        return call.measurement(
            value,
            len(names),
            interval=tested.intervals[0][0],
            p_value=tested.p_value,
            reading=f"{self.cells[0]} is nearer to {attributes[0 if value >= 0 else 1]} than the sum of its two "
            f"groups, by {abs(value):.2f} sd",
            # linearised; none where the effect without a word is not defined
            units=(linearised_units("word", names, value, left_out),) if np.isfinite(left_out).all() else (),
            items=self._items(tested),
            details={
                "rows": list(self.rows),
                "columns": list(self.columns),
                "strength": tested.strength,
                "deviation": tested.deviation,
                **(details or {}),
            },
        )

    def _items(self, tested: InteractionTest) -> tuple[dict[str, object], ...]:
        """Return one item for each cell."""
        items: list[dict[str, object]] = []
        for cell, (row, column) in zip(self.cells, np.ndindex(*tested.effects.shape), strict=True):
            low, high = tested.intervals[row][column] or (None, None)
            items.append(
                {
                    "word": cell,
                    "value": float(tested.effects[row, column]),
                    "mean": float(tested.means[row, column]),
                    "expected": float(tested.expected[row, column]),
                    "low": low,
                    "high": high,
                }
            )
        return tuple(items)


def table_layout(query: Query) -> TableLayout:
    """Return rows and columns of the target sets; raise `DegenerateError` if they are no table."""
    cells = [tuple(group.name.split(SIGN)) for group in query.targets]
    name = f"{query.name} about {query.concept}" if query.concept else query.name
    if any(len(cell) != 2 for cell in cells):
        raise DegenerateError(
            f"{name} is not about an intersection: name the targets as cells, such as female{SIGN}old"
        )
    rows, columns = (tuple(dict.fromkeys(cell[side] for cell in cells)) for side in (0, 1))
    if len(set(cells)) < len(cells) or len(cells) != len(rows) * len(columns) or min(len(rows), len(columns)) < 2:
        raise DegenerateError(f"{name}: the targets are no full table of two rows and two columns or more")
    return TableLayout(rows, columns)
