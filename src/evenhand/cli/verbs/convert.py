"""`evenhand convert`: convert vectors between file formats, and ONNX models into Hugging Face folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import AllowPickle, EncodingErrors, Format, Json, Vocabulary, load
from evenhand.cli.screens.terminal import note, show_json
from evenhand.errors import InputMissingError, UsageError


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A vector file, an .onnx file of a BERT model, a folder that holds one, or a catalog id of these.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Argument(
            help="Output file, whose suffix determines the format; for a model, a new folder.", show_default=False
        ),
    ],
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
    labels: Annotated[
        str | None,
        typer.Option("--labels", help="Names of the outputs of a classifier, in order: no,yes.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Convert vectors to another format, or an ONNX model into a Hugging Face folder."""
    from evenhand.models.vectors.formats import format_for_writing, get

    model = _onnx_model(source)
    if model is not None:
        from evenhand.models.onnx_import import import_onnx

        folder = import_onnx(model, out, labels=[name.strip() for name in labels.split(",")] if labels else ())
        if as_json:
            show_json({"out": str(folder), "format": "hugging-face"})
        else:
            note(f"wrote a Hugging Face folder to {folder}; open it as hf:{folder}")
        return
    if labels:
        raise UsageError("--labels applies to classifiers in ONNX files", hint="leave it out")
    target = get(to) if to else format_for_writing(out)
    loaded = load(
        source,
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


def _onnx_model(source: str) -> Path | None:
    """Return the path of an ONNX model, by itself or as a catalog entry; None for anything else."""
    from evenhand import data

    path = Path(source).expanduser()
    entry = data.catalog().get(source) if not path.exists() else None
    if entry is not None and any(file.name.endswith(".onnx") for file in entry.files):
        location = data.locate(source)
        if location is None:
            raise InputMissingError(f"{source} is not on this disk", hint=f"run `evenhand fetch {source}`")
        return location
    return path if path.suffix.lower() == ".onnx" or path.is_dir() else None
