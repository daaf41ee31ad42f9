"""`evenhand convert`: convert vectors between file formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import AllowPickle, EncodingErrors, Format, Json, VectorsArgument, Vocabulary, load
from evenhand.cli.screens.terminal import note, show_json


def convert(
    vectors: VectorsArgument,
    out: Annotated[Path, typer.Argument(help="Output file; its suffix determines the format.", show_default=False)],
    format: Format = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Format to write, if the suffix does not determine it.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Convert only the first rows.", show_default=False)
    ] = None,
    encoding_errors: EncodingErrors = "strict",
    vocabulary: Vocabulary = None,
    allow_pickle: AllowPickle = False,
    max_record: Annotated[
        float | None, typer.Option("--max-record", help="Longest line or entry in MB.", show_default="32")
    ] = None,
    as_json: Json = False,
) -> None:
    """Convert vectors to another format."""
    from evenhand.models.vectors.formats import format_for_writing, get

    target = get(to) if to else format_for_writing(out)
    loaded = load(
        vectors,
        format=format,
        limit=limit,
        encoding_errors=encoding_errors,
        vocabulary=vocabulary,
        allow_pickle=allow_pickle,
        max_record=None if max_record is None else int(max_record * (1 << 20)),
    )
    loaded.save(out, format=target.id)
    if as_json:
        show_json({"out": str(out), "format": target.id, "words": len(loaded), "dimensions": loaded.dim})
    else:
        note(f"wrote {len(loaded):,} words x {loaded.dim} to {out} ({target.title})")
