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
from evenhand.stats.bootstrap import Interval
from evenhand.stats.permutation import InteractionTest, interaction_test
from evenhand.stats.units import Units, linearised_units
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
    tested = layout.test(scores, samples=samples, seed=seed)
    result = tested.summary(first, located.attributes[0].name, located.attributes[1].name)
    return call.measurement(
        result.value,
        sum(map(len, scores.values())),
        interval=result.interval,
        p_value=tested.test.p_value,
        reading=result.reading,
        units=tested.units(first, {group.name: group.words for group in located.targets}, result.value),
        items=tested.items(),
        details={**tested.details(), **located.details()},
    )


@dataclass(frozen=True)
class TableLayout:
    """The rows and columns of an intersection, read from the names of its cells."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def test(self, scores: Mapping[str, Vector64], *, samples: int, seed: int) -> InteractionTable:
        """Return the tested table of the scores of each cell."""
        small = {cell: len(values) for cell, values in scores.items() if len(values) < FEWEST}
        if small:
            counts = ", ".join(f"{cell} {size}" for cell, size in small.items())
            raise DegenerateError(
                f"an interaction needs {FEWEST} words in each cell to be tested, and there are fewer: {counts}"
            )
        cells = [[scores[cell_name(row, column)] for column in self.columns] for row in self.rows]
        return InteractionTable(self, interaction_test(cells, samples=samples, seed=seed))


@dataclass(frozen=True)
class CellEffect:
    """The effect of one cell, in words."""

    value: float
    interval: Interval
    reading: str


@dataclass(frozen=True, eq=False)
class InteractionTable:
    """A tested table."""

    layout: TableLayout
    test: InteractionTest

    def summary(self, cell: str, near: str, far: str) -> CellEffect:
        """Return the effect of a cell."""
        row, column = (names.index(part) for names, part in zip(self._names, cell.split(SIGN), strict=True))
        value = float(self.test.effects[row, column])
        side = near if value >= 0 else far
        reading = f"{cell} is nearer to {side} than the sum of its two groups, by {abs(value):.2f} sd"
        return CellEffect(value, self.test.intervals[row][column], reading)

    def units(self, cell: str, words: Mapping[str, Sequence[str]], value: float) -> tuple[Units, ...]:
        """Return the words of all cells as units of the effect of a cell, linearised; none without an interval."""
        row, column = (names.index(part) for names, part in zip(self._names, cell.split(SIGN), strict=True))
        left_out = self.test.left_out[:, row, column]
        cells = [cell_name(one, two) for one in self.layout.rows for two in self.layout.columns]
        names = [f"{name}:{word}" for name in cells for word in words[name]]
        return (linearised_units("word", names, value, left_out),) if np.isfinite(left_out).all() else ()

    def items(self) -> tuple[dict[str, object], ...]:
        """Return one item for each cell."""
        items: list[dict[str, object]] = []
        for row, column in np.ndindex(*self.test.effects.shape):
            low, high = self.test.intervals[row][column] or (None, None)
            items.append(
                {
                    "word": cell_name(self.layout.rows[row], self.layout.columns[column]),
                    "value": float(self.test.effects[row, column]),
                    "mean": float(self.test.means[row, column]),
                    "expected": float(self.test.expected[row, column]),
                    "low": low,
                    "high": high,
                }
            )
        return tuple(items)

    def details(self) -> dict[str, object]:
        """Return what describes the table as a whole."""
        return {
            "rows": list(self.layout.rows),
            "columns": list(self.layout.columns),
            "strength": self.test.strength,
            "deviation": self.test.deviation,
        }

    @property
    def _names(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.layout.rows, self.layout.columns


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
