"""`evenhand check`: limits on a saved audit, for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import Json
from evenhand.cli.screens.terminal import escape, show, show_json
from evenhand.errors import UsageError

EXCEEDED = 3
SIGNS = {"maximum": "<=", "minimum": ">=", "baseline": "vs"}


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
        typer.Option("--baseline", help="An earlier audit; a row fails if it is worse beyond the intervals."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a saved audit against limits; exits with 3 if any is exceeded.

    A limit without a stage applies to every mitigated stage, or to the original if no method was applied.
    """
    from evenhand.audit import Audit
    from evenhand.audit import check as check_limits
    from evenhand.report import numbers

    if not maximum and not minimum and baseline is None:
        raise UsageError("no limit given", hint="for example --max weat-6=0.5, or --baseline RUN")
    earlier = Audit.load(baseline) if baseline else None
    limits = check_limits(Audit.load(run), maximum=maximum or (), minimum=minimum or (), baseline=earlier)
    failed = [limit for limit in limits if not limit.holds]
    if as_json:
        shown = [limit.to_dict() for limit in limits]
        show_json({"passed": not failed, "limits": shown, "breaches": [limit.to_dict() for limit in failed]})
    else:
        for limit in limits:
            mark = "[bold]FAIL[/]" if not limit.holds else "ok  "
            value, bound = numbers.number(limit.value), numbers.number(limit.limit)
            reason = f": {escape(limit.reason)}" if limit.reason else ""
            row = escape(f"{limit.label} ({limit.stage})")
            show(f"{mark} {row} {value} {SIGNS[limit.kind]} {bound}{reason}")
        show(f"{len(limits) - len(failed)} of {len(limits)} limits hold")
    if failed:
        raise typer.Exit(EXCEEDED)
