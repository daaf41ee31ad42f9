"""Options shared by the language-model verbs."""

from __future__ import annotations

from typing import Annotated

import typer

Samples = Annotated[int, typer.Option(help="Number of texts; 2,000 in the paper.")]
Tokens = Annotated[int, typer.Option(help="Tokens per text; 500 in the paper.")]
Temperature = Annotated[float, typer.Option(help="Sampling temperature.")]
Batch = Annotated[int | None, typer.Option(help="Texts sampled at once.", show_default="by device")]
Definition = Annotated[
    str,
    typer.Option(help="Definition of the bias penalty: printed (paper) or released (unit rows, first direction only)."),
]
Reduction = Annotated[str, typer.Option(help="Reduction of the bias penalty over words: sum (paper) or mean.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Precision = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")]
Pairs = Annotated[str | None, typer.Option(help="Word pairs: an id or a file.", show_default="by preset")]
