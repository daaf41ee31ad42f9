"""An audit as rows: one for each measure and query, one cell for each stage. Every view is made from these."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand import measures
from evenhand.audit import Audit, Case
from evenhand.measures import Info, Measurement
from evenhand.measures.registry import ARROWS

FAMILIES = {
    "association": "Association: which words lie near which",
    "geometry": "Geometry: what lies along a direction",
    "inference": "Inference: what a model concludes from who did it",
    "quality": "Quality: what a method costs",
}


@dataclass(frozen=True)
class Row:
    """One measure with one query on every stage."""

    case: Case
    info: Info
    cells: dict[str, Measurement]

    @property
    def label(self) -> str:
        """What the row is called."""
        return self.case.label

    @property
    def arrow(self) -> str:
        """Which way is better."""
        return ARROWS[self.info.better]

    @property
    def original(self) -> Measurement:
        """The measurement before any method."""
        return next(iter(self.cells.values()))


def rows(audit: Audit) -> list[Row]:
    """The rows of an audit, in the order they were measured."""
    table = []
    for case in audit.cases:
        cells = {stage.name: audit.get(case.label, stage.name) for stage in audit.stages}
        table.append(Row(case, measures.info(case.measure), cells))
    return table


def by_family(audit: Audit) -> dict[str, list[Row]]:
    """The rows under the heading of their family; families without rows are left out."""
    found = rows(audit)
    grouped = {title: [row for row in found if row.info.family == name] for name, title in FAMILIES.items()}
    return {title: group for title, group in grouped.items() if group}
