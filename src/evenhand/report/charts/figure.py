"""What a chart is: a function of one subject of an audit that returns a figure, or None if it has nothing to show."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from evenhand.audit import Audit
from evenhand.audit.record import Row, rows
from evenhand.errors import EvenhandError, FormatError, UsageError, escape_html, printable, unknown_name
from evenhand.files import writing
from evenhand.measures import Measurement
from evenhand.measures.registry import ARROWS, ids, info
from evenhand.registry import Registry
from evenhand.report.charts.style import DISTINGUISHABLE, VegaSpec, on_white, pdf, png, svg

ChartPlace = Literal["bias", "left", "details"]
BETTER = {
    "zero": "nearer to 0 is better",
    "lower": "lower is better",
    "higher": "higher is better",
    "one": "nearer to 1 is better",
    "fifty": "nearer to 50 % is better",
}


@dataclass(frozen=True)
class Figure:
    """A Vega-Lite chart with its title and the same numbers as a table."""

    title: str
    spec: VegaSpec
    columns: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]
    caption: str = ""
    """How to read the chart: what is drawn, which way is better, how many items, the seed."""
    id: str = ""
    family: str = ""
    """The family of measures under which a report shows it; empty for none."""
    place: ChartPlace = "details"

    @property
    def alt(self) -> str:
        """What the chart shows, for readers who cannot see it."""
        return str(self.spec["description"])

    def __repr__(self) -> str:
        return f"Figure({printable(self.title)!r}, {len(self.table)} rows)"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the picture with its table for a notebook, the picture alone, and the text."""
        drawn = svg(on_white(self.spec))
        cells = ("".join(f"<td>{escape_html(cell)}</td>" for cell in row) for row in self.table)
        head = "".join(f"<th>{escape_html(name)}</th>" for name in self.columns)
        table = f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
        caption = f"<p><small>{escape_html(self.caption)}</small></p>" if self.caption else ""
        page = f"<h4>{escape_html(self.title)}</h4>{drawn}{caption}<details><summary>Table</summary>{table}</details>"
        return {"text/html": page, "image/svg+xml": drawn, "text/plain": f"{self!r}: {printable(self.alt)}"}

    def save(self, path: str | Path) -> Path:
        """Write the figure as SVG, PNG, PDF or Vega-Lite JSON, by the ending of the file."""
        return write_figure(self, Path(path))


Chart: TypeAlias = Callable[[Audit, str], Figure | None]
Drawing = TypeVar("Drawing", bound=Chart)
CHARTS: Registry[Chart] = Registry("chart", ("evenhand.report.charts",), group="evenhand.charts")


@dataclass(frozen=True)
class ChartInfo:
    """Which cells a chart needs, and where a report shows it.

    Args:
        measures: ids of the measures whose cells it draws, beside those that name the chart in their `Info.charts`. An
            audit without any of them does not get the chart. Without any such measure it is a chart of all measures.
        family: the family of measures under which it is shown.
        place: "bias" for the overview of bias before and after, "left" for what is left and what it cost, "details"
            for the section of its family.
    """

    measures: tuple[str, ...] = ()
    family: str = ""
    place: ChartPlace = "details"


def register_chart(
    id: str, *, measures: tuple[str, ...] = (), family: str = "", place: ChartPlace = "details"
) -> Callable[[Drawing], Drawing]:
    """Return a decorator that registers a chart and says which cells it needs; see `ChartInfo`."""

    def add(function: Drawing) -> Drawing:
        function.info = ChartInfo(measures, family, place)  # type: ignore[attr-defined]
        CHARTS.add(id, function)
        return function

    return add


def chart_info(id: str) -> ChartInfo:
    """Return which cells a chart needs; one that does not say is asked about every audit."""
    described: ChartInfo = getattr(CHARTS.get(id), "info", ChartInfo())
    return described


def drawn_measures(id: str) -> tuple[str, ...]:
    """Return the measures whose cells a chart draws, the plainest first; empty for a chart of all measures."""
    own = [info(name) for name in ids() if id in info(name).charts]
    named = [each.id for each in sorted(own, key=lambda each: each.prominence)]
    return tuple(dict.fromkeys((*named, *chart_info(id).measures)))


def figures(audit: Audit, subject: str, charts: Sequence[str] = ()) -> list[Figure]:
    """Return the figures of one subject: those named, or all that have something to show."""
    measured = {result.question.measure for result in audit.results if result.subject == subject}
    drawn = []
    for id in charts or CHARTS.ids():
        needed = drawn_measures(id)
        if needed and measured.isdisjoint(needed):
            continue
        try:
            figure = CHARTS.get(id)(audit, subject)
        except (ValueError, KeyError, TypeError, IndexError) as error:  # details and items have no types
            if isinstance(error, EvenhandError):
                raise
            raise FormatError(f"the record does not have the items that {id} shows: {error}") from error
        if figure is not None:
            described = chart_info(id)
            drawn.append(replace(figure, id=id, family=figure.family or described.family, place=described.place))
    return drawn


def find_figure(audit: Audit, id: str, subject: str = "") -> Figure:
    """Return one figure of an audit.

    Raises:
        UsageError: the id is unknown, or the audit lacks the cells that the chart needs.
    """
    if subject and subject not in audit.subjects:
        raise unknown_name("subject", subject, audit.subjects)
    subjects = [subject] if subject else list(audit.subjects)
    if id not in CHARTS.ids():
        error = unknown_name("figure", id, CHARTS.ids())
        raise UsageError(error.message, hint=f"{error.hint}; this audit has {_listed(audit, subjects)}")
    for name in subjects:
        for figure in figures(audit, name, [id]):
            return figure
    needs = " or ".join(drawn_measures(id)) or "other cells"
    raise UsageError(
        f"this audit has no figure {id!r}: it needs items of {needs}", hint=f"it has {_listed(audit, subjects)}"
    )


def _listed(audit: Audit, subjects: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(figure.id for name in subjects for figure in figures(audit, name))) or "none"


def drawn_rows(audit: Audit, subject: str, id: str) -> list[Row]:
    """Return the rows that a chart draws, those of the plainest measure first."""
    every = rows(audit, subject)
    return [row for name in drawn_measures(id) for row in every if row.question.measure == name]


def drawn_stages(row: Row) -> list[str]:
    """Return the stages that colours and shapes can tell apart."""
    return list(row.cells)[:DISTINGUISHABLE]


def drawn_cells(row: Row) -> dict[str, Measurement]:
    """Return the cells of these stages that have items."""
    return {stage: row.cells[stage] for stage in drawn_stages(row) if row.cells[stage].items}


def with_interval(value: float, interval: Sequence[float] | None) -> dict[str, float]:
    """Return a value and the ends of its interval as data of a chart; without an interval both ends are the value."""
    low, high = interval or (value, value)
    return {"value": value, "low": low, "high": high}


def better(row: Row) -> str:
    """Return which way is better for a row, as a sentence without a full stop."""
    direction = row.info.better_score(row.original.score)
    return BETTER.get(direction, ARROWS[direction])


def sources(audit: Audit, row: Row, unit: str = "words", n: int | None = None) -> str:
    """Return the last sentence of a caption: the row, how many items, and the seed."""
    return f"Row {row.label}, n = {row.original.n if n is None else n:,} {unit}, seed {audit.seed}."


FIGURE_FORMATS: dict[str, Callable[[Figure], bytes]] = {
    ".svg": lambda figure: svg(figure.spec).encode(),
    ".png": lambda figure: png(figure.spec),
    ".pdf": lambda figure: pdf(figure.spec),
    ".json": lambda figure: (json.dumps(figure.spec, indent=1, allow_nan=False) + "\n").encode(),
}


def write_figure(figure: Figure, path: Path) -> Path:
    """Write one figure as SVG, PNG, PDF or Vega-Lite JSON, by the ending of the file."""
    ending = path.suffix.lower()
    if ending not in FIGURE_FORMATS:
        raise UsageError(f"{path.name!r} has no ending of a picture", hint=f"use one of {', '.join(FIGURE_FORMATS)}")
    drawn = FIGURE_FORMATS[ending](figure)
    with writing(path) as file:
        file.write(drawn)
    return path
