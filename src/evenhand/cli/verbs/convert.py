"""`evenhand convert`: convert vectors between file formats, and ONNX and GGUF models into folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import AllowPickle, EncodingErrorsOption, Json, Overwrite, VectorFormat, VocabularyFile, load
from evenhand.cli.terminal import note, show_json
from evenhand.errors import InputMissingError, UsageError
from evenhand.outputs import output_file

MODEL_SUFFIXES = (".onnx", ".gguf")


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A vector file; a model: an .onnx file of a BERT or Llama, a folder that holds one, or a .gguf file; "
            "or a catalog id of these.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Argument(
            help="Output file, whose suffix determines the format; for a model, a new folder.", show_default=False
        ),
    ],
    format: VectorFormat = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Format to write, if the suffix does not determine it.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Convert only the first rows.", show_default=False)
    ] = None,
    encoding_errors: EncodingErrorsOption = "strict",
    vocabulary: VocabularyFile = None,
    allow_pickle: AllowPickle = False,
    max_record: Annotated[
        float | None, typer.Option("--max-record", help="Longest line or entry in MB.", show_default="32")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option("--labels", help="Names of the outputs of a classifier, in order: no,yes.", show_default=False),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Convert vectors to another format, or a model into a Hugging Face folder."""
    from evenhand.models.vectors.formats import format_for_writing, get

    model = _model_file(source)
    if model is not None:
        folder = _convert_model(model, out, [name.strip() for name in labels.split(",")] if labels else [])
        if as_json:
            show_json({"out": str(folder), "format": "hugging-face"})
        else:
            note(f"wrote a Hugging Face folder to {folder}; open it as hf:{folder}")
        return
    if labels:
        raise UsageError("--labels applies to classifiers in ONNX files", hint="leave it out")
    target = get(to) if to else format_for_writing(out)
    with output_file(out, sources=[source], overwrite=overwrite):
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


def _model_file(source: str) -> Path | None:
    """Return the path of a model that is not a Hugging Face folder, by itself or as a catalog entry; else None."""
    from evenhand import data

    path = Path(source).expanduser()
    entry = data.catalog().get(source) if not path.exists() else None
    if entry is not None and entry.kind == "model" and any(file.name.endswith(MODEL_SUFFIXES) for file in entry.files):
        location = data.locate(source)
        if location is None:
            raise InputMissingError(f"{source} is not on this disk", hint=f"run `evenhand fetch {source}`")
        return location
    return path if path.is_dir() or path.name.lower().endswith(MODEL_SUFFIXES) else None


def _convert_model(path: Path, out: Path, labels: list[str]) -> Path:
    """Write the Hugging Face folder of a model file, by its kind."""
    name = path.name.lower()
    if labels and name.endswith(".gguf"):
        raise UsageError("--labels applies to classifiers in ONNX files", hint="leave it out")
    if name.endswith(".gguf"):
        from evenhand.models.gguf import convert_gguf

        return convert_gguf(path, out)
    from evenhand.models.onnx_import import import_onnx

    return import_onnx(path, out, labels=labels)
