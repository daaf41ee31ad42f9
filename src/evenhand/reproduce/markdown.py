"""Comparisons as Markdown and as a page of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from evenhand.reproduce.comparison import CLAIM_RULE, RULE, ComparedNumber, PaperComparison, Series

HEADS = ("row", "column", "published", "ours", "low", "high", "difference", "agrees")


def number_rows(found: PaperComparison, series: str) -> list[tuple[str, ...]]:
    """Return the cells of one series as text, one row for each number."""
    places = found.item.places
    return [_cells(one, places) for one in found.numbers if one.series == series]


def _cells(one: ComparedNumber, places: int) -> tuple[str, ...]:
    bounds = one.ours.interval or (None, None)
    numbers = (one.published, one.ours.value, *bounds)
    difference = "" if one.difference is None else f"{one.difference:+z.{places}f}"
    return (one.row, one.column, *(_number(value, places) for value in numbers), difference, one.agrees or "")


def _number(value: float | None, places: int) -> str:
    return "" if value is None else f"{value:z.{places}f}"


def models_text(found: PaperComparison, series: str) -> str:
    """Return over how many models the numbers of a series are means: "5 models", "5 to 16 models"."""
    sizes = sorted({one.ours.n for one in found.numbers if one.series == series} - {0})
    if not sizes:
        return ""
    return (
        f"{sizes[0]} to {sizes[-1]} models" if len(sizes) > 1 else "1 model" if sizes == [1] else f"{sizes[0]} models"
    )


def title(found: PaperComparison, series: Series) -> str:
    """Return the name of a series, whether it is recorded, and over how many models: "..., recorded (5 models)"."""
    size = models_text(found, series.name)
    kind = "recorded" if series.recorded else "computed now"
    return f"{series.name}, {kind}" + (f" ({size})" if size else "")


def verdicts(found: PaperComparison) -> str:
    """Return whether the claim holds in each series: "A: yes, B: not tested"."""
    return ", ".join(f"{name}: {verdict or 'not tested'}" for name, verdict in found.holds.items())


def own_table(series: Series) -> tuple[Sequence[str], list[list[str]]] | None:
    """Return heads and cells of the table that comes with a series, such as the curves of a figure."""
    from evenhand.measures import numbers

    if series.table is None:
        return None
    rows = [
        [numbers.number(v) if isinstance(v, float) or v is None else str(v) for v in row] for row in series.table.rows
    ]
    return series.table.columns, rows


def lines_below(found: PaperComparison) -> list[str]:
    """Return what stands below the tables."""
    tables = [series.table for series in found.series if series.table]
    missing = [f"Not in ours: {', '.join(found.uncovered)}."] if found.uncovered and found.series else []
    notes = [note for table in tables for note in table.notes]
    every = (*source_lines(found), *notes, *found.missing, *missing, found.item.note, found.item.reason)
    return list(dict.fromkeys(line for line in every if line))


def counts(found: PaperComparison) -> str:
    """Return how many numbers agree: "7 of 20, 6 unclear"."""
    total = sum(found.counts.values())
    unclear = f", {found.counts['unclear']} unclear" if found.counts["unclear"] else ""
    return f"{found.counts['yes']} of {total}{unclear}" if total else ""


def source_lines(found: PaperComparison) -> list[str]:
    """Return where the numbers of each series come from."""
    lines = []
    for series in found.series:
        manifest = series.manifest
        if series.recorded:
            date = str(manifest["date"])[:10] + (" (of the commit)" if manifest.get("date_of") == "commit" else "")
            about = [
                f"recorded {date}",
                f"{manifest['file']}",
                f"evenhand {manifest['evenhand']} on {manifest['device']}",
            ]
            seeds = manifest.get("seeds")
            about += [f"seeds {', '.join(map(str, seeds))}"] if isinstance(seeds, list) and seeds else []
            hashes = manifest.get("sha256")
            about += (
                [f"sha256 {name} {str(value)[:12]}" for name, value in hashes.items()]
                if isinstance(hashes, dict)
                else []
            )
            lines.append(f"{series.name}: {'; '.join(about)}. Again: {manifest['command']}")
        lines += [f"{series.name}: {note}" for note in series.notes]
    return lines


def markdown(comparisons: Sequence[PaperComparison]) -> str:
    """Return comparisons as one document, with a summary of them if there are several."""
    parts = [_summary(comparisons)] if len(comparisons) > 1 else []
    for found in comparisons:
        lines = [f"## {found.item.id}: {found.item.shows}", "", f"{found.item.claim} ({found.item.source})", ""]
        if found.verdict:
            lines += [f"Holds: **{found.verdict}** ({verdicts(found)}).", ""]
        for series in found.series:
            lines += [f"### {title(found, series)}", ""]
            lines += [_table(HEADS, cells), ""] if (cells := number_rows(found, series.name)) else []
            lines += [_table(*own), ""] if (own := own_table(series)) else []
        lines += [f"- {line}" for line in lines_below(found)]
        parts.append("\n".join(lines).rstrip())
    return "\n\n".join([*parts, RULE, CLAIM_RULE]) + "\n"


def _summary(comparisons: Sequence[PaperComparison]) -> str:
    rows = [(found.item.id, found.item.claim, counts(found), found.verdict) for found in comparisons]
    return _table(("id", "the paper says", "numbers that agree", "holds"), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows)])


def html(comparisons: Sequence[PaperComparison]) -> str:
    """Return comparisons as one page that needs no other file."""
    style = (
        "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222}"
        "table{border-collapse:collapse;margin:1rem 0}"
        "td,th{padding:.2rem .8rem;text-align:left;border-bottom:1px solid #ddd}"
        "td:first-child{white-space:nowrap}td.n{text-align:right;font-variant-numeric:tabular-nums}.yes{font-weight:600}.no{font-style:italic}"
        "a{color:inherit}.wide{overflow-x:auto}td:nth-child(2){min-width:9rem}"
        "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}td,th{border-color:#444}}"
    )
    parts = []
    if len(comparisons) > 1:
        rows = [(found.item.id, found.item.claim, counts(found), found.verdict) for found in comparisons]
        summary = _html_table(("id", "the paper says", "numbers that agree", "holds"), rows)
        for id, *_ in rows:
            summary = summary.replace(f">{id}<", f'><a href="#{id}">{id}</a><')
        parts.append(summary)
    for found in comparisons:
        parts.append(f'<h2 id="{escape(found.item.id)}">{escape(found.item.id)}: {escape(found.item.shows)}</h2>')
        verdict = f" Holds: <b>{found.verdict}</b> ({escape(verdicts(found))})." if found.verdict else ""
        parts.append(f"<p>{escape(found.item.claim)} ({escape(found.item.source)}){verdict}</p>")
        for series in found.series:
            parts.append(f"<h3>{escape(title(found, series))}</h3>")
            parts += [_html_table(HEADS, cells)] if (cells := number_rows(found, series.name)) else []
            parts += [_html_table(*own)] if (own := own_table(series)) else []
        parts.append("<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines_below(found)) + "</ul>")
    rules = f"<p>{escape(RULE)}</p><p>{escape(CLAIM_RULE)}</p>"
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>Papers beside ours</title><style>{style}</style>"
    body = f"<h1>Published numbers beside ours</h1>{rules}{''.join(parts)}"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    numeric = {"published", "ours", "low", "high", "difference"}
    kinds = ["n" if head in numeric else "" for head in heads]
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{kind}">{escape(cell)}</td>' for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
