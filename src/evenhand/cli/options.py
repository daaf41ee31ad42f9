"""The options that several verbs share, written once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.errors import EvenhandWarning, UsageError
from evenhand.printable import printable

if TYPE_CHECKING:
    from evenhand.models.vectors import Vectors
    from evenhand.subjects import Subject

SubjectArgument = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT",
        help="A vector file or catalog id, hf:FOLDER, a GGUF file, an evenhand model, predictions, corpus:PATH.",
        show_default=False,
    ),
]
VectorsArgument = Annotated[
    str, typer.Argument(metavar="VECTORS", help="A vector file, or an id of `evenhand list data`.", show_default=False)
]
Jobs = Annotated[int, typer.Option("--jobs", help="Measure in this many processes.")]
Memory = Annotated[
    float | None, typer.Option("--memory", help="Gigabytes the processes may use.", show_default="4/5 of what is free")
]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Where a model runs: auto, cpu or cuda.", show_default="auto")
]
PrecisionOption = Annotated[
    str | None, typer.Option("--precision", help="float32, bfloat16 or auto, of a model.", show_default="auto")
]
Labels = Annotated[
    str | None,
    typer.Option("--labels", help="Order of the labels of a Hugging Face model: e,n,c.", show_default="its config"),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random step.")]
EngineOption = Annotated[str, typer.Option("--engine", help="Where parts of the work are done: local, or ray.")]
Address = Annotated[
    str | None,
    typer.Option("--address", help="A Ray cluster.", show_default="RAY_ADDRESS, or one of its own on this machine"),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Parts worked on at a time.", show_default="local 1; ray all cores"),
]
ConceptOption = Annotated[str, typer.Option("--concept", help="What is measured or removed: an id or a file.")]
Case = Annotated[
    str | None,
    typer.Option("--case", help="How list words are looked up: auto, exact, lower, any.", show_default="auto"),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Format of the vectors, where the file does not tell.", show_default=False),
]
EncodingErrors = Annotated[
    str | None,
    typer.Option(
        "--encoding-errors", help="strict, or replace to read words that are not valid UTF-8.", show_default="strict"
    ),
]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Open gensim's own files, which may run code: only if you trust them.")
]
Vocabulary = Annotated[
    Path | None, typer.Option("--vocabulary", help="File of words for a matrix that has none.", show_default=False)
]


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Our warnings as one-line notes, each once, instead of Python's two lines with a path."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EvenhandWarning)
        yield
    for warning in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, EvenhandWarning)):
        typer.echo(printable(f"note: {warning}"), err=True)


def load(source: str, **options: Any) -> Vectors:
    """Load vectors for a verb, with our warnings as notes."""
    from evenhand.models.vectors import Vectors

    with notes_on_stderr():
        return Vectors.load(source, **{name: value for name, value in options.items() if value is not None})


def open_subjects(addresses: list[str], **options: Any) -> list[Subject]:
    """Open subjects for a verb, with warnings as notes. An option is passed to the kinds that have it."""
    from evenhand.subjects.opening import kind_of_address, open_subject, parse_address

    given = {name: value for name, value in options.items() if value is not None}
    with notes_on_stderr():
        kinds = [kind_of_address(parse_address(address)) for address in addresses]
        for name in given:
            if not any(name in kind.options for kind in kinds):
                titles = ", ".join(dict.fromkeys(kind.title for kind in kinds))
                raise UsageError(f"--{name.replace('_', '-')} does not apply to {titles}", hint="leave it out")
        return [
            open_subject(address, **{name: value for name, value in given.items() if name in kind.options})
            for address, kind in zip(addresses, kinds, strict=True)
        ]
