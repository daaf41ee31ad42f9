"""`evenhand check`: limits on a saved audit, for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import Json
from evenhand.cli.screens.terminal import show, show_json
from evenhand.errors import UsageError

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
    as_json: Json = False,
) -> None:
    """Hold a saved audit against limits; exit code 3 when one breaks."""
    from dataclasses import asdict

    from evenhand.audit import Audit
    from evenhand.audit import check as held
    from evenhand.report import numbers

    if not maximum and not minimum:
        raise UsageError("no limit given", hint="for example --max weat-6=0.5")
    breaches = held(Audit.load(run), maximum=maximum or (), minimum=minimum or ())
    if as_json:
        show_json({"passed": not breaches, "breaches": [asdict(breach) for breach in breaches]})
    else:
        for breach in breaches:
            show(
                f"{breach.label} ({breach.stage}): {numbers.number(breach.value)}, limit {breach.limit:g}: {breach.why}"
            )
        count = len(maximum or ()) + len(minimum or ())
        show(f"{count - len(breaches)} of {count} limits hold")
    if breaches:
        raise typer.Exit(EXCEEDED)
