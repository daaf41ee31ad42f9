"""What the process that is forked computes once, because it touches no files."""

from __future__ import annotations

import functools
from pathlib import Path

DRAWN: dict[str, str] = {}  # pictures by their description


def keep_what_is_not_written() -> None:
    """Compute pictures, templates and the options of the command once for all processes."""
    import typer.main

    from evenhand.report import html
    from evenhand.report.charts import style

    draw = style._svg.__wrapped__

    def drawn(document: str) -> str:
        if document not in DRAWN:
            DRAWN[document] = draw(document)
        return DRAWN[document]

    style._svg = drawn  # type: ignore[assignment]
    typer.main.get_command = functools.cache(typer.main.get_command)  # type: ignore[assignment]
    html.page_environment = functools.cache(html.page_environment)
    from evenhand.cli.app import app

    typer.main.get_command(app)
    for name in html.page_environment().list_templates():
        html.page_environment().get_template(name)
    from evenhand import concept, data, measures, mitigations
    from evenhand import registry as plug_ins
    from evenhand.models.vectors import formats

    plug_ins.entry_points = functools.cache(plug_ins.entry_points)  # type: ignore[assignment]
    data.catalog()
    concept("gender")
    formats.format_for_writing(Path("name.vec"))
    for registry in (measures, mitigations):
        registry.ids()
