"""The result of `check` as text, as JUnit XML for build servers, and as Markdown for their summaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree import ElementTree

from evenhand.audit import Audit, Limit
from evenhand.errors import counted, printable
from evenhand.measures import numbers
from evenhand.report.markdown import plain, table

SIGNS = {"maximum": "<=", "minimum": ">=", "baseline": "vs"}


def limit_line(limit: Limit) -> str:
    """Return one limit with its value: what was checked, and why it does not hold."""
    row = f"{limit.subject}: {limit.label} ({limit.stage})"
    ends = limit.interval if limit.by == "interval" else None
    interval = f" [{numbers.number(ends[0])}, {numbers.number(ends[1])}]" if ends else ""
    line = f"{row} {numbers.number(limit.value)}{interval} {SIGNS[limit.kind]} {numbers.number(limit.limit)}"
    return line + (f": {limit.reason}" if limit.reason else "")


def summary(limits: Sequence[Limit]) -> str:
    """Return how many limits hold, and how many rows could not be compared with the baseline on the same units."""
    held = sum(limit.holds for limit in limits)
    text = f"{held} of {len(limits)} limits hold"
    unpaired = [limit for limit in limits if limit.paired is False]
    if unpaired:
        text += (
            f". {counted(len(unpaired), 'row')} compared by intervals, as if the runs were independent: the records "
            "share no units"
        )
    return text


def junit(limits: Sequence[Limit], audit: Audit) -> str:
    """Return JUnit XML: a test case for each limit, a failure for each that does not hold."""
    failed = [limit for limit in limits if not limit.holds]
    counts = {"name": "evenhand check", "tests": str(len(limits)), "failures": str(len(failed)), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {**counts, "timestamp": str(audit.manifest["created"])})
    for limit in limits:
        name = f"{limit.label} ({limit.stage}) {SIGNS[limit.kind]} {numbers.number(limit.limit)}"
        case = ElementTree.SubElement(
            suite, "testcase", classname=printable(limit.subject), name=printable(name), time="0"
        )
        if not limit.holds:
            ElementTree.SubElement(case, "failure", message=printable(limit_line(limit)), type=limit.kind)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def limits_markdown(limits: Sequence[Limit], audit: Audit) -> str:
    """Return a summary in Markdown: what failed first, then every limit."""
    failed = [limit for limit in limits if not limit.holds]
    ordered = [*failed, *(limit for limit in limits if limit.holds)]
    lines = [f"## Bias limits: {'failed' if failed else 'passed'}", "", f"{summary(limits)}.", ""]
    columns = ["", "subject", "row", "stage", "value", "limit", "reason"]
    cells = (
        [
            "ok" if limit.holds else "FAIL",
            limit.subject,
            limit.label,
            limit.stage,
            numbers.number(limit.value),
            f"{SIGNS[limit.kind]} {numbers.number(limit.limit)}",
            limit.reason,
        ]
        for limit in ordered
    )
    lines += table(columns, cells)
    lines += [
        "",
        f"Concept {plain(audit.concept)}. These measures are partial; see the report for what they leave out.",
    ]
    return "\n".join(lines) + "\n"


FORMATS: dict[str, Callable[[Sequence[Limit], Audit], str]] = {"junit": junit, "markdown": limits_markdown}
