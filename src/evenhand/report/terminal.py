"""An audit as rich tables that fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from evenhand.audit import Audit, Ranking, RowChange, rank
from evenhand.measures import Measurement
from evenhand.measures.registry import ARROWS
from evenhand.printable import escape_markup as escape
from evenhand.report import numbers
from evenhand.report.tables import Row, by_family

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

NOTE = (
    "95 % intervals are over words (inference: over words and training seeds). p-values are not corrected for the "
    "number of tests."
)


def cell(measurement: Measurement) -> str:
    """Return the text of a table cell: value, interval, p-value."""
    if measurement.status != "ok":
        return "[dim]undefined[/]"
    value = f"[bold]{numbers.number(measurement.value)}[/]"
    rest = [numbers.interval(measurement), numbers.p_value(measurement), numbers.mark(measurement)]
    return "\n".join([value, *(f"[dim]{escape(line)}[/]" for line in rest if line)])


def audit_group(audit: Audit) -> Group:
    """Return all tables of an audit as one renderable."""
    from rich.console import Group

    return Group(*audit_tables(audit))


def audit_tables(audit: Audit) -> Iterator[RenderableType]:
    """Yield the rows of every subject under the headings of their families, then the reasons for undefined cells."""
    for subject in audit.subjects:
        if len(audit.subjects) > 1:
            yield f"\n[bold underline]{escape(subject)}[/]"
        yield from _subject_tables(audit, subject)
    if len(audit.subjects) > 1:
        yield from ranking_tables(rank(audit))
    yield f"[dim]{NOTE}[/]"


def _subject_tables(audit: Audit, subject: str) -> Iterator[RenderableType]:
    undefined: dict[str, dict[str, None]] = {}
    for title, rows in by_family(audit, subject).items():
        yield _table(title, rows, list(rows[0].cells))
        notes: dict[str, None] = {}
        for row in rows:
            for stage, measurement in row.cells.items():
                if measurement.status != "ok":
                    undefined.setdefault(measurement.reason, {})[row.label] = None
                elif measurement.note:
                    notes[f"[dim]{escape(f'{stage}: {measurement.note}')}[/]"] = None
        yield from notes
    yield from (f"[dim]undefined: {escape('; '.join(labels) + ': ' + why)}[/]" for why, labels in undefined.items())


def _table(title: str, rows: Iterable[Row], stages: list[str]) -> RenderableType:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    table.add_column("measure", overflow="fold")
    table.add_column("better", no_wrap=True)
    for stage in stages:
        table.add_column(escape(stage), justify="right")
    table.add_column("words", justify="right", no_wrap=True)
    for row in rows:
        cells = (cell(row.cells[stage]) if stage in row.cells else "" for stage in stages)
        table.add_row(escape(row.label), row.arrow, *cells, numbers.words(row.original))
    return table


def ranking_tables(ranking: Ranking) -> Iterator[RenderableType]:
    """Yield the ranks of several subjects, and which measures agree about them."""
    from rich.table import Table

    table = Table(title="Ranks (1: least bias, best quality)", title_justify="left", title_style="bold", box=None)
    table.add_column("measure", overflow="fold")
    for subject in ranking.subjects:
        table.add_column(escape(subject), justify="right")
    for label, ranks in ranking.ranks.items():
        table.add_row(escape(label), *(f"{value:g}" for value in ranks))
    table.add_row("[bold]mean[/]", *(f"[bold]{value:.2f}[/]" for value in ranking.mean_ranks.values()))
    yield table
    if ranking.agreement:
        values = sorted(ranking.agreement.values())
        against = sum(value < 0 for value in values)
        yield (
            f"[dim]Rank agreement between measures (Spearman): median {values[len(values) // 2]:.2f}, "
            f"{against} of {len(values)} pairs of measures rank the subjects in opposite order.[/]"
        )
    if ranking.undefined:
        yield f"[dim]not ranked, undefined for a subject: {escape(', '.join(ranking.undefined))}[/]"


def comparison_table(changes: Iterable[RowChange], before: str, after: str) -> Iterator[RenderableType]:
    """Yield the rows of two audits side by side, with the verdict of each, then the reasons for undefined cells."""
    from rich.table import Table

    every = list(changes)
    several = len({change.stage for change in every}) > 1
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("measure", overflow="fold")
    for column in ("better", "before", "after", "change", ""):
        table.add_column(column, justify="left" if column == "better" else "right", no_wrap=column != "before")
    for change in every:
        from evenhand import measures

        sign = "+" if change.change is not None and change.change > 0 else ""
        shown = "" if change.change is None else sign + numbers.number(change.change)
        name = f"{change.label} ({change.stage})" if several else change.label
        arrow = ARROWS[measures.info(change.before.measure).better_score(change.before.score)]
        table.add_row(escape(name), arrow, cell(change.before), cell(change.after), shown, change.verdict)
    yield f"before [bold]{escape(before)}[/], after [bold]{escape(after)}[/]"
    yield table
    for change in every:
        for when, measurement in (("before", change.before), ("after", change.after)):
            if measurement.status != "ok":
                yield f"[dim]undefined: {escape(f'{change.label}, {when}: {measurement.reason}')}[/]"
            elif measurement.note:
                yield f"[dim]{escape(f'{change.label}, {when}: {measurement.note}')}[/]"
    yield "[dim]better or worse: the change is larger than the two intervals together; unclear: it is not.[/]"
