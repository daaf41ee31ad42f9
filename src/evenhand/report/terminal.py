"""An audit as rich tables that fit 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from evenhand.audit import Audit, Ranking, RowChange, rank
from evenhand.audit.rows import Row
from evenhand.measures import Measurement
from evenhand.measures.registry import ARROWS
from evenhand.printable import escape_markup as escape
from evenhand.report import numbers
from evenhand.report.findings import CORRECTION, HEADINGS, Finding, Kind, findings
from evenhand.report.run_comparison import CORRECTION as DIFFERENCES_CORRECTION
from evenhand.report.run_comparison import HEADINGS as COMPARISON_HEADINGS
from evenhand.report.run_comparison import RunComparison
from evenhand.report.tables import by_family

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

NOTE = (
    "Under each value its 95 % interval, over words (inference: over words and training seeds). ↓ lower is better, ↑ "
    "higher, → 0 nearer to 0. p-values in the tables are not corrected for the number of tests."
)
SHOWN_WITH_INTERVALS = 3  # stages whose intervals fit 80 columns
LABEL_WIDTH = 20
STAGE_WIDTH = 10


def cell(measurement: Measurement, *, interval: bool = True) -> str:
    """Return the text of a table cell: value with its p-value, and the interval below."""
    if measurement.status != "ok":
        return "[dim]–[/]"
    value = f"[bold]{numbers.number(measurement.value)}[/]"
    if measurement.not_interpretable:
        value += "[dim]?[/]"
    shown = [numbers.p_value(measurement), numbers.interval(measurement)] if interval else []
    return "\n".join([value, *(f"[dim]{escape(line)}[/]" for line in shown if line)])


def audit_group(audit: Audit) -> Group:
    """Return all tables of an audit as one renderable."""
    from rich.console import Group

    return Group(*audit_tables(audit))


def findings_lines(audit: Audit) -> Iterator[RenderableType]:
    """Yield the findings under their headings."""
    yield from _finding_lines(findings(audit), HEADINGS, several=len(audit.subjects) > 1)
    yield f"[dim]{CORRECTION}.[/]"


def comparison_findings(comparison: RunComparison) -> Iterator[RenderableType]:
    """Yield what differs between runs, under headings."""
    several = len(comparison.record.subjects) > 1
    yield from _finding_lines(comparison.findings(), COMPARISON_HEADINGS, several=several)
    yield f"[dim]{DIFFERENCES_CORRECTION}.[/]\n"


def _finding_lines(
    found: Iterable[Finding], headings: Mapping[Kind, str], *, several: bool
) -> Iterator[RenderableType]:
    from rich.table import Table

    heading = ""
    for finding in found:
        title = headings[finding.kind] + (f": {finding.subject}" if several and finding.subject else "")
        if title != heading:
            yield f"[bold]{escape(title)}[/]"
            heading = title
        line = Table.grid(padding=(0, 1))
        line.add_row(" -", escape(finding.text))
        yield line


def audit_tables(audit: Audit) -> Iterator[RenderableType]:
    """Yield the findings, the rows of every subject under the headings of their families, and the notes."""
    yield from findings_lines(audit)
    for subject in audit.subjects:
        if len(audit.subjects) > 1:
            yield f"\n[bold underline]{escape(subject)}[/]"
        yield from _subject_tables(audit, subject)
    if len(audit.subjects) > 1:
        yield from ranking_tables(rank(audit))
    yield f"[dim]{NOTE}[/]"


def _subject_tables(audit: Audit, subject: str) -> Iterator[RenderableType]:
    for title, rows in by_family(audit, subject).items():
        yield ""
        yield _table(title, rows, list(rows[0].cells))
    yield from _footnotes(by_family(audit, subject))


def _footnotes(families: dict[str, list[Row]]) -> Iterator[str]:
    """Yield what the tables leave out, each text once: reasons for undefined cells, notes, lost words."""
    every = [row for rows in families.values() for row in rows]
    texts: dict[str, dict[str, None]] = {}
    for row in every:
        for stage, measurement in row.cells.items():
            if measurement.status != "ok":
                texts.setdefault(f"–  no value: {measurement.reason}", {})[row.label] = None
            elif measurement.note:
                mark = "?  not interpretable, " if measurement.not_interpretable else ""
                texts.setdefault(f"{mark}{stage}: {measurement.note}", {})[row.label] = None
    yield from (f"[dim]{escape(text)} ({escape(_few(labels))})[/]" for text, labels in texts.items())
    lost = {row.label: row.original for row in every if row.original.coverage.missing}
    if lost:
        listed = "; ".join(f"{label} {measurement.coverage}" for label, measurement in lost.items())
        yield f"[dim]words found of words asked: {escape(listed)}[/]"


def _few(labels: Iterable[str], most: int = 5) -> str:
    names = list(labels)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _table(title: str, rows: Iterable[Row], stages: list[str]) -> RenderableType:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    table.add_column("measure", no_wrap=True)
    table.add_column("", no_wrap=True)
    for stage in stages:
        table.add_column(escape(fold_label(stage, STAGE_WIDTH)), justify="right", no_wrap=True)
    with_intervals = len(stages) <= SHOWN_WITH_INTERVALS
    for row in rows:
        cells = (cell(row.cells[stage], interval=with_intervals) if stage in row.cells else "" for stage in stages)
        table.add_row(escape(fold_label(row.label)), row.arrow, *cells)
    return table


def fold_label(label: str, width: int = LABEL_WIDTH) -> str:
    r"""Break a label after its colons and hyphens where it is wider than its column; the rest is indented.

    >>> fold_label("neighbours:bolukbasi2016-professions")
    'neighbours:\n  bolukbasi2016-\n  professions'
    """
    lines, line = [], ""
    for part in re.findall(r"[^:]+:?", label):
        pieces = [part] if len(part) + 2 <= width else re.findall(r"[^-]+-?", part)
        for piece in pieces:
            if line.strip() and len(line) + len(piece) > width:
                lines.append(line)
                line = "  "
            line += piece
    return "\n".join([*lines, line])


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


VERDICTS = (
    "better or worse: the distance from the ideal changes significantly on the same words, after correction over the "
    "questions of a stage."
)


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
    yield f"[dim]{VERDICTS}[/]"
    if unpaired := [change for change in every if change.p is not None and not change.paired]:
        rows = ", ".join(dict.fromkeys(change.label for change in unpaired))
        yield f"[dim]compared by intervals, as independent values, because they share no units: {escape(rows)}[/]"
