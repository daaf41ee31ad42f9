"""`evenhand convert`: from any vector format to any other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import AllowPickle, EncodingErrors, Format, Json, VectorsArgument, Vocabulary, load
from evenhand.cli.screens.terminal import note, show_json


def convert(
    vectors: VectorsArgument,
    out: Annotated[Path, typer.Argument(help="Where to write; the suffix says the format.", show_default=False)],
    format: Format = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Format to write, where the suffix does not say.", show_default=False)
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Only the first rows.", show_default=False)] = None,
    encoding_errors: EncodingErrors = "strict",
    vocabulary: Vocabulary = None,
    allow_pickle: AllowPickle = False,
    as_json: Json = False,
) -> None:
    """Write vectors in another format."""
    from evenhand.models.vectors.formats import format_for_writing, get

    chosen = get(to) if to else format_for_writing(out)
    loaded = load(
        vectors,
        format=format,
        limit=limit,
        encoding_errors=encoding_errors,
        vocabulary=vocabulary,
        allow_pickle=allow_pickle,
    )
    loaded.save(out, format=chosen.id)
    if as_json:
        show_json({"out": str(out), "format": chosen.id, "words": len(loaded), "dimensions": loaded.dim})
    else:
        note(f"wrote {len(loaded):,} words x {loaded.dim} to {out} ({chosen.title})")
