"""`evenhand check`: limits on a saved audit, for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import Json
from evenhand.cli.screens.terminal import escape, show, show_json, show_plain
from evenhand.errors import UsageError, unknown_name

EXCEEDED = 3


def check(
    run: Annotated[Path, typer.Argument(help="Folder of a saved audit.", show_default=False)],
    maximum: Annotated[
        list[str] | None,
        typer.Option("--max", help="Largest absolute value: weat-6=0.5, weat-6@linear=0.5.", show_default=False),
    ] = None,
    minimum: Annotated[
        list[str] | None, typer.Option("--min", help="Smallest value: retention=0.9.", show_default=False)
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="An earlier audit; a row fails if it is significantly worse."),
    ] = None,
    stage: Annotated[
        list[str] | None,
        typer.Option("--stage", help="Only this stage; may be repeated: original, linear.", show_default="all"),
    ] = None,
    by: Annotated[
        str,
        typer.Option("--by", help="What is limited: value, or interval for the end of the 95 % interval."),
    ] = "value",
    format: Annotated[str, typer.Option("--format", help="text, junit (XML) or markdown (a summary for CI).")] = "text",
    as_json: Json = False,
) -> None:
    """Check a saved audit against limits; exits with 3 if any is exceeded.

    A limit applies to every stage, the original included, unless it names one (weat-6@linear=0.5) or --stage does.
    """
    from evenhand.audit import Audit
    from evenhand.audit import check as check_limits
    from evenhand.report import check_results as shown

    if not maximum and not minimum and baseline is None:
        raise UsageError("no limit given", hint="for example --max weat-6=0.5, or --baseline RUN")
    if format not in ("text", *shown.FORMATS):
        raise unknown_name("format", format, ("text", *shown.FORMATS))
    if as_json and format != "text":
        raise UsageError("--json and --format contradict each other", hint="leave one of them out")
    if by not in ("value", "interval"):
        raise unknown_name("way to check", by, ("value", "interval"))
    if by == "interval" and not maximum and not minimum:
        raise UsageError("--by is for limits, and none is given", hint="add --max or --min")
    earlier = Audit.load(baseline) if baseline else None
    audit = Audit.load(run)
    limits = check_limits(
        audit, maximum=maximum or (), minimum=minimum or (), baseline=earlier, stages=stage or (),
        by="interval" if by == "interval" else "value",
    )  # fmt: skip
    failed = [limit for limit in limits if not limit.holds]
    if as_json:
        every = [limit.to_dict() for limit in limits]
        show_json({"passed": not failed, "limits": every, "breaches": [limit.to_dict() for limit in failed]})
    elif format != "text":
        show_plain(shown.FORMATS[format](limits, audit).rstrip("\n"))
    else:
        for limit in limits:
            show(f"{'ok  ' if limit.holds else '[bold]FAIL[/]'} {escape(shown.limit_line(limit))}")
        show(shown.summary(limits))
    if failed:
        raise typer.Exit(EXCEEDED)
