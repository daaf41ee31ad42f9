"""Options shared by the language-model verbs."""

from __future__ import annotations

from typing import Annotated

import typer

Samples = Annotated[int, typer.Option(help="Texts drawn; the paper has 2,000.")]
Tokens = Annotated[int, typer.Option(help="Tokens in each; the paper has 500.")]
Temperature = Annotated[float, typer.Option(help="Below 1 the likely words become likelier.")]
Batch = Annotated[int | None, typer.Option(help="Texts drawn side by side.", show_default="by device")]
Definition = Annotated[
    str, typer.Option(help="Of the term: printed in the paper, or released (rows of length 1, first direction only).")
]
Reduction = Annotated[str, typer.Option(help="Of the term: sum over words (paper), or mean.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
Precision = Annotated[str, typer.Option(help="fp32, bf16 or auto.")]
Pairs = Annotated[
    str | None, typer.Option(help="Pairs of words: an id or a file.", show_default="those of the preset's corpus")
]
