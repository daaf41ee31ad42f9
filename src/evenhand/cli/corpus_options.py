"""Options shared by the corpus verbs."""

from __future__ import annotations

from typing import Annotated

import typer

Files = Annotated[list[str], typer.Argument(help="Files, folders, globs or addresses.", show_default=False)]
Window = Annotated[int | None, typer.Option(help="Words on each side that count as company.", show_default="10")]
Decay = Annotated[float | None, typer.Option(help="Instead of a window: weight of one step of distance, such as 0.95.")]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--groups",
        help="An id or file of pairs or of a concept; or name=word,word for each group, the positive one first.",
        show_default="bordia2019-cnn-dm",
    ),
]
TokenizerOption = Annotated[
    str, typer.Option("--tokenizer", help="words; whitespace for tokenised text; or a tokenizer.json.")
]
Lower = Annotated[bool | None, typer.Option(help="Lower-case the text.", show_default="yes for words")]
StopWords = Annotated[str, typer.Option(help="Words that are not scored: english, none, or a file.")]
Marks = Annotated[
    str | None,
    typer.Option(
        help="Tokens like <unk>, <eos>, N and $ unscored (drop) or scored (keep).", show_default="drop for whitespace"
    ),
]
MinCount = Annotated[int, typer.Option(help="Words that occur less often are not scored.")]
Smoothing = Annotated[
    float,
    typer.Option(help="Added to every count: words that meet one group only are scored too, those that meet none not."),
]
Normalisation = Annotated[str, typer.Option(help="conditional, literal (as printed in the paper) or joint.")]
Documents = Annotated[str, typer.Option(help="In plain text: file or line is one document.")]
Field = Annotated[str, typer.Option(help="The field or column with the text (JSONL, CSV, TSV, Parquet, Arrow).")]
FormatOption = Annotated[
    str | None, typer.Option("--format", help="If not by name: text, jsonl, csv, tsv, parquet, arrow, warc, mediawiki.")
]
Encoding = Annotated[str, typer.Option("--encoding-errors", help="strict, or replace for broken UTF-8.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read; it is counted and named.")]
Bootstrap = Annotated[int, typer.Option(help="Draws of documents for an interval of each word, such as 1000.")]
Permutations = Annotated[int, typer.Option(help="Shuffled labellings for the baseline of the mean, such as 20.")]
Top = Annotated[int, typer.Option(help="Words shown at each end.")]
Least = Annotated[int, typer.Option(help="Occurrences that a word needs to be shown; all are scored.")]
