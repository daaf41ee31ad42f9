"""An audit as rich text that fits 80 columns: a summary of one screen, or every number in tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, TypeAlias

from evenhand.audit import Audit, Ranking, RowChange, rank
from evenhand.audit.record import VIEWS, Row
from evenhand.errors import counted
from evenhand.errors import escape_markup as escape
from evenhand.measures import Measurement, numbers
from evenhand.measures.registry import ARROWS
from evenhand.report.findings import (
    CORRECTION,
    HEADINGS,
    Finding,
    FindingKind,
    findings,
    first_of,
    headline,
    under_headings,
)
from evenhand.report.run_comparison import CORRECTION as DIFFERENCES_CORRECTION
from evenhand.report.run_comparison import HEADINGS as COMPARISON_HEADINGS
from evenhand.report.run_comparison import RunComparison
from evenhand.report.scorecard import MEANINGS, SIGNS, ScoreCell, score_card, side_by_side
from evenhand.report.tables import by_family, prominence, subject_record

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

NOTE = (
    "Under each value its 95 % interval, over words (inference: over words and training seeds). ↓ lower is better, ↑ "
    "higher, → 0 nearer to 0. p-values in the tables are not corrected for the number of tests."
)
WIDTH = 80  # columns that the summary is made for
SUMMARY_LINES = 54  # of a summary; with the title, notes and the place of the report it fits a screen of 60 lines
CARD_LINES = 14  # of the score card, which findings leave free
SHOWN_WITH_INTERVALS = 3  # stages whose intervals fit 80 columns
LABEL_WIDTH = 20
CardRow: TypeAlias = "tuple[str, str, Sequence[ScoreCell | None]]"
"""Label, which way is better, and a cell for each column."""
STAGE_WIDTH = 10


def cell(measurement: Measurement, *, interval: bool = True) -> str:
    """Return the text of a table cell: value with its p-value, and the interval below."""
    if measurement.status != "ok":
        return "[dim]–[/]"
    value = f"[bold]{numbers.value(measurement)}[/]"
    if measurement.not_interpretable:
        value += "[dim]?[/]"
    shown = [numbers.p_value(measurement), numbers.interval(measurement)] if interval else []
    return "\n".join([value, *(f"[dim]{escape(line)}[/]" for line in shown if line)])


@VIEWS.register("terminal")
def audit_group(audit: Audit) -> Group:
    """Return the headline, the findings and all tables of an audit as one renderable."""
    from rich.console import Group

    return Group(*audit_tables(audit))


def audit_summary(audit: Audit, *, lines: int = SUMMARY_LINES) -> Iterator[RenderableType]:
    """Yield the headline, the findings and the score card in a number of lines of 80 columns.

    Findings give way so that the card has at least `CARD_LINES`; the rows that do not fit are counted.
    """
    top: list[RenderableType] = [f"[bold]{escape(headline(audit))}[/]", ""]
    every = findings(audit)
    several = len(audit.subjects) > 1
    room = lines - _height(top) - CARD_LINES
    for most in range(len(every), 0, -1):
        chosen = findings(audit, most=most)
        # How many values are missing is enough here; which ones stands in the report and in the tables.
        brief = [replace(found, evidence="") if found.kind == "unmeasured" else found for found in chosen]
        told = [*_finding_lines(brief, HEADINGS, several=several)]
        if len(chosen) < len(every):
            told.append(f"[dim]{counted(len(every) - len(chosen), 'more finding')} in the report.[/]")
        if _height(told) <= room:
            break
    else:
        told = []
    yield from (*top, *told, "")
    left = lines - _height([*top, *told, ""])
    yield from _fitting_card(side_by_side_lines(audit) if several else card_lines(audit), left)


def card_lines(audit: Audit) -> CardTable:
    """Return the score card of the only subject: what the subject does itself first, quality next, controls last."""
    card = score_card(audit)
    kind = str(subject_record(audit).get("kind", ""))
    places = {
        id(line): (line.is_control, line.row.info.family == "quality", prominence(line.row, kind)) for line in card
    }
    card.sort(key=lambda line: places[id(line)])
    kept = [line for line in card if line.row.info.family == "quality" and not line.is_control]
    rows: list[CardRow] = [(line.row.label, line.row.arrow, list(line.cells.values())) for line in card]
    return CardTable("Score card", list(audit.stage_names), rows, {line.row.label for line in kept[:2]})


def side_by_side_lines(audit: Audit) -> CardTable:
    """Return several subjects side by side, each on its first stage."""
    rows: list[CardRow] = [(line.row.label, line.row.arrow, list(line.cells.values())) for line in side_by_side(audit)]
    title = "Side by side" + (f", {audit.stage_names[0]}" if len(audit.stage_names) > 1 else "")
    return CardTable(title, list(audit.subjects), rows, set())


@dataclass(frozen=True)
class CardTable:
    """A score card to print: its columns, its rows in order of importance, and the labels that always stay."""

    title: str
    columns: list[str]
    rows: list[CardRow]
    kept: set[str]


def _fitting_card(card: CardTable, lines: int) -> Iterator[RenderableType]:
    """Yield as many rows of a card as fit, the meaning of their signs, and how many rows are left out."""
    for most in range(min(len(card.rows), lines), 0, -1):  # a row takes a line at least
        free = most - sum(label in card.kept for label, *_ in card.rows)
        others = [label for label, *_ in card.rows if label not in card.kept][: max(0, free)]
        shown = [row for row in card.rows if row[0] in card.kept or row[0] in others]
        printed = [*_card(card, shown)]
        if len(shown) < len(card.rows):
            printed.append(f"[dim]{counted(len(card.rows) - len(shown), 'more row')}; --tables shows every number.[/]")
        if _height(printed) <= lines:
            break
    else:
        printed = ["[dim]--tables shows every number.[/]"]
    yield from printed


def _card(card: CardTable, rows: list[CardRow]) -> Iterator[RenderableType]:
    from rich.table import Table

    width = max((len(label) for label, *_ in rows), default=0) + 6
    numbered = width + sum(max(9, len(name)) + 2 for name in card.columns) > WIDTH
    table = Table(
        title=card.title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False
    )
    table.add_column("measure", no_wrap=True, overflow="ellipsis")
    table.add_column("better", no_wrap=True)
    for number, name in enumerate(card.columns, 1):
        table.add_column(str(number) if numbered else escape(name), justify="right", no_wrap=True)
    for label, arrow, cells in rows:
        table.add_row(escape(label), arrow, *(_sign(cell, value=not numbered) for cell in cells))
    yield table
    if numbered:
        yield f"[dim]{escape(', '.join(f'{number} {name}' for number, name in enumerate(card.columns, 1)))}[/]"
    used = {cell.state for *_, cells in rows for cell in cells if cell is not None}
    key = "; ".join(f"{SIGNS[state]} {MEANINGS[state]}" for state in SIGNS if state in used)
    yield f"[dim]{escape(key)}[/]"


def _sign(cell: ScoreCell | None, *, value: bool) -> str:
    if cell is None:
        return ""
    shown = f" {numbers.number(cell.measurement.value)}" if value and cell.measurement.value is not None else ""
    return escape(f"{cell.sign}{shown}")


def _height(parts: Iterable[RenderableType]) -> int:
    """Return the number of lines in 80 columns."""
    from rich.console import Console

    console = Console(width=WIDTH, file=StringIO(), color_system=None, highlight=False)
    for part in parts:
        console.print(part)
    return console.file.getvalue().count("\n") if isinstance(console.file, StringIO) else 0


def findings_lines(audit: Audit) -> Iterator[RenderableType]:
    """Yield the headline, and the findings under their headings."""
    yield f"[bold]{escape(headline(audit))}[/]"
    yield ""
    yield from _finding_lines(findings(audit), HEADINGS, several=len(audit.subjects) > 1)
    yield f"[dim]{CORRECTION}.[/]"


def comparison_findings(comparison: RunComparison) -> Iterator[RenderableType]:
    """Yield what differs between runs, under headings."""
    several = len(comparison.record.subjects) > 1
    yield from _finding_lines(comparison.findings(), COMPARISON_HEADINGS, several=several)
    yield f"[dim]{DIFFERENCES_CORRECTION}.[/]\n"


def _finding_lines(
    found: Iterable[Finding], headings: Mapping[FindingKind, str], *, several: bool
) -> Iterator[RenderableType]:
    from rich.table import Table

    for title, group in under_headings(found, headings, several=several):
        yield f"[bold]{escape(title)}[/]"
        for finding in group:
            line, evidence = Table.grid(padding=(0, 1)), f"\n[dim]{escape(finding.evidence)}[/]"
            line.add_row(" -", escape(finding.text) + (evidence if finding.evidence else ""))
            yield line


def audit_tables(audit: Audit) -> Iterator[RenderableType]:
    """Yield the findings, the rows of every subject under the headings of their families, and the notes."""
    yield from findings_lines(audit)
    if len(audit.subjects) > 1:
        yield from ("", *_card(side_by_side_lines(audit), side_by_side_lines(audit).rows))
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
    yield from (f"[dim]{escape(text)} ({escape(first_of(labels, 5))})[/]" for text, labels in texts.items())
    lost = {row.label: row.original for row in every if row.original.coverage.missing}
    if lost:
        listed = "; ".join(f"{label} {measurement.coverage}" for label, measurement in lost.items())
        yield f"[dim]words found of words asked: {escape(listed)}[/]"


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
