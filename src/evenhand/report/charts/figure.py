"""What a chart is: a function of one subject of an audit that returns a figure, or None if it has nothing to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from evenhand.audit import Audit
from evenhand.registry import Registry


@dataclass(frozen=True)
class Figure:
    """A Vega-Lite chart with its title and the same numbers as a table."""

    title: str
    spec: dict[str, Any]
    columns: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]
    caption: str = ""
    """How to read the chart, in a sentence."""

    @property
    def alt(self) -> str:
        """What the chart shows, for readers who cannot see it."""
        return str(self.spec["description"])


Chart: TypeAlias = Callable[[Audit, str], Figure | None]
CHARTS: Registry[Chart] = Registry("chart", ("evenhand.report.charts",), group="evenhand.charts")


def figures(audit: Audit, subject: str, ids: Sequence[str] = ()) -> list[Figure]:
    """Return the figures of one subject: those named, or all that have something to show."""
    drawn = [CHARTS.get(id)(audit, subject) for id in ids or CHARTS.ids()]
    return [figure for figure in drawn if figure is not None]
