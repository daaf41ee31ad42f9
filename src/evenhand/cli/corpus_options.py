"""Command-line options shared by the corpus verbs."""

from __future__ import annotations

from typing import Annotated

import typer

Files = Annotated[list[str], typer.Argument(help="Files, folders, globs or addresses.", show_default=False)]
Window = Annotated[int | None, typer.Option(help="Words on each side that count as co-occurring.", show_default="10")]
Decay = Annotated[float | None, typer.Option(help="Instead of a window: weight of one step of distance, such as 0.95.")]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--groups",
        help="Id or file of pairs or of a concept; or name=word,word for each group, the positive one first.",
        show_default="bordia2019-cnn-dm",
    ),
]
TokenizerOption = Annotated[
    str, typer.Option("--tokenizer", help="words; whitespace for tokenised text; or a tokenizer.json.")
]
Lower = Annotated[bool | None, typer.Option(help="Lower-case the text.", show_default="yes for words")]
StopWords = Annotated[str, typer.Option(help="Words that are not scored: english, none, or a file.")]
SpecialTokens = Annotated[
    str | None,
    typer.Option(help="drop or keep (score) tokens like <unk>, <eos>, N and $.", show_default="drop for whitespace"),
]
MinCount = Annotated[int, typer.Option(help="Words that occur less often are not scored.")]
Smoothing = Annotated[
    float, typer.Option(help="Added to every count, so that words near one group only are scored too.")
]
Normalisation = Annotated[str, typer.Option(help="conditional, literal (as printed in the paper) or joint.")]
Documents = Annotated[str, typer.Option(help="In plain text: file or line is one document.")]
Field = Annotated[str, typer.Option(help="Field or column with the text (JSONL, CSV, TSV, Parquet, Arrow).")]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", help="text, jsonl, csv, tsv, parquet, arrow, warc or mediawiki.", show_default="by file name"
    ),
]
Encoding = Annotated[str, typer.Option("--encoding-errors", help="strict, or replace for invalid UTF-8.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip what cannot be read, and count and name it.")]
MaxRecord = Annotated[int, typer.Option("--max-record", help="Longest record or word in MB.", min=1)]
Bootstrap = Annotated[
    int | None,
    typer.Option(help="Resamples for the interval of each word; 0 for none.", show_default="1000 up to 256 MB"),
]
Permutations = Annotated[
    int | None,
    typer.Option(help="Permuted labellings for the baseline; 0 for none.", show_default="20 up to 256 MB"),
]
Top = Annotated[int, typer.Option(help="Words shown for each group.")]
Least = Annotated[int, typer.Option("--least", help="Occurrences that a word needs to be shown; all are scored.")]
OrderOption = Annotated[
    str, typer.Option("--order", help="evidence (z of the log-odds) or ratio (raw score, which favours rare words).")
]
MEGABYTE = 1 << 20
