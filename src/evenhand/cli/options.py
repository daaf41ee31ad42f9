"""The options that several verbs share, written once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.errors import EvenhandWarning
from evenhand.printable import printable

if TYPE_CHECKING:
    from evenhand.models.vectors import Vectors

VectorsArgument = Annotated[
    str, typer.Argument(metavar="VECTORS", help="A vector file, or an id of `evenhand list data`.", show_default=False)
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
Case = Annotated[str, typer.Option("--case", help="How list words are looked up: auto, exact, lower, any.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Format of the vectors, where the file does not tell.", show_default=False),
]
EncodingErrors = Annotated[
    str, typer.Option("--encoding-errors", help="strict, or replace to read words that are not valid UTF-8.")
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
