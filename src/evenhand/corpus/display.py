"""Tables of a corpus's bias for the terminal and for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from evenhand.corpus.result import CorpusBias, Order
from evenhand.printable import printable

if TYPE_CHECKING:
    from rich.table import Table


def leading_words(
    result: CorpusBias, top: int, *, min_occurrences: int = 1, order: Order = "evidence"
) -> Iterator[tuple[str, CorpusBias, list[str]]]:
    """Yield for each group its name, the record with its scores, and the words that lean most to it.

    With two groups both sides come from one record, so that the signs stay those of the scores.
    """
    if len(result.groups) == 2:
        sides = [(result.positive, result, top), (result.other, result, -top)]
    else:
        sides = [(name, result.for_group(name), top) for name in result.groups]
    for name, record, k in sides:
        yield name, record, [word for word, _ in record.top(k, min_occurrences=min_occurrences, order=order)]


def word_cells(record: CorpusBias, word: str) -> tuple[str, ...]:
    """Return the cells of a word: word, score, interval, evidence, count near each group, occurrences."""
    row, bounds = record.row(word), record.interval(word)
    near = (_count(record.cooccurrence[group, row]) for group in range(len(record.groups)))
    return (
        printable(word),
        f"{record.values[row]:+.2f}",
        f"{bounds[0]:+.2f} to {bounds[1]:+.2f}" if bounds else "",
        f"{record.evidence[row]:+.1f}",
        *near,
        f"{int(record.occurrences[row]):,}",
    )


def columns(record: CorpusBias) -> tuple[str, ...]:
    """Return the headings of `word_cells`."""
    return ("word", "bias", "95 % interval", "z", *(f"near {printable(name)}" for name in record.groups), "count")


def bias_tables(
    result: CorpusBias, top: int, *, min_occurrences: int = 1, order: Order = "evidence"
) -> Iterator[Table]:
    """Yield a rich table of the leading words of each group."""
    from rich.table import Table
    from rich.text import Text

    for name, record, words in leading_words(result, top, min_occurrences=min_occurrences, order=order):
        table = Table(
            title=Text(f"leaning {printable(name)}"), title_justify="left", box=None, header_style="dim", pad_edge=False
        )
        for heading in columns(record):
            table.add_column(
                Text(heading), justify="left" if heading == "word" else "right", overflow="fold", no_wrap=False
            )
        for word in words:
            table.add_row(*map(Text, word_cells(record, word)))
        yield table


def bias_html(result: CorpusBias, top: int) -> str:
    """Return the leading words of each group as HTML tables."""
    parts = [f"<p><code>{escape(repr(result))}</code></p>"]
    for name, record, words in leading_words(result, top):
        head = "".join(f"<th>{escape(heading)}</th>" for heading in columns(record))
        rows = (
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in word_cells(record, word)) + "</tr>"
            for word in words
        )
        caption = f"<caption>leaning {escape(printable(name))}</caption>"
        parts.append(f"<table>{caption}<tr>{head}</tr>{''.join(rows)}</table>")
    return "".join(parts)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"
