"""`evenhand serve`: a local page to browse runs, explore subjects and start small audits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import Json, Only, Opening, with_groups
from evenhand.cli.terminal import note, show_json, show_plain
from evenhand.errors import InputMissingError, UsageError, require


@with_groups
def serve(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUNS",
            help="Folders of saved audits, or folders that hold such folders. New runs are saved in the first of the "
            "latter.",
            show_default="runs",
        ),
    ] = None,
    *,
    subject: Annotated[
        list[str] | None,
        typer.Option(
            "--subject",
            "-s",
            help="What can be explored and audited, beside the embedded vectors: any address that `audit` takes; may "
            "be repeated.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Interface to listen on; others than 127.0.0.1 let other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port; 0 chooses a free one.", min=0, max=65535)] = 0,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", help="Another name under which the page may be opened; may be repeated.", show_default=False
        ),
    ] = None,
    read_only: Annotated[
        bool,
        typer.Option("--read-only", help="Show and compare runs only: no exploring, no audits, no forms, no writing."),
    ] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
    opening: Annotated[
        Opening,
        Only(
            *("device", "group", "label", "prediction", "score", "threshold", "positive"),
            *("texts", "text_column", "positive_label"),
        ),
    ],
    as_json: Json = False,
) -> None:
    """Serve a page on this machine: browse and compare runs, explore vectors and models, start small audits."""
    require("starlette", extra="web")
    require("uvicorn", extra="web")
    from evenhand.web import create_app, server

    folders = runs or [Path("runs")]
    for folder in runs or ():
        if not folder.exists():
            raise InputMissingError(f"there is no folder {str(folder)!r}", hint="`evenhand audit -o FOLDER` writes one")
    if read_only and subject:
        raise UsageError("--read-only serves runs, and --subject names something to compute on", hint="leave one out")
    opened = [] if read_only else opening.subjects(["glove-embedded", *(subject or ())])
    listening = server.listen(host, port)
    address = server.address_of(listening, host)
    if not server.is_loopback(host):
        what = "read the runs" if read_only else "read the runs and start computations here"
        note(
            f"warning: with --host {host} everyone who can reach this machine can {what}. There is no password. They "
            "must open it under a name given with --allow-host."
        )
    names = [*([] if server.is_wildcard(host) else [host]), *(allow_host or ())]
    app = create_app(opened, folders, hosts=names, read_only=read_only)
    if as_json:
        show_json({"address": address, "runs": [str(folder) for folder in folders]})
    else:
        show_plain(address)
        note("serving; Ctrl-C stops it")
    sys.stdout.flush()  # whoever reads the address waits for it
    server.serve(app, listening, browser=address if server.has_desktop() and not no_browser else "")
