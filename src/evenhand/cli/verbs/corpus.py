"""`evenhand corpus`: which words of a text keep company with which group, and how two texts compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.corpus_options import (
    Bootstrap,
    Decay,
    Documents,
    Encoding,
    Field,
    Files,
    FormatOption,
    Groups,
    Least,
    Lower,
    Marks,
    MinCount,
    Normalisation,
    Permutations,
    SkipBad,
    Smoothing,
    StopWords,
    TokenizerOption,
    Top,
    Window,
)
from evenhand.cli.options import Address, EngineOption, Json, Seed, Workers, notes_on_stderr
from evenhand.cli.screens.corpus import note_bad, show_bias, show_comparison
from evenhand.cli.screens.terminal import note, progress, show_json
from evenhand.cli.verbs.corpus_vectors import cooccur, sgns
from evenhand.engines import opened
from evenhand.errors import UsageError

if TYPE_CHECKING:
    from evenhand.corpus import Comparison, CorpusBias


def bias(
    files: Files,
    groups: Groups = None,
    window: Window = None,
    decay: Decay = None,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    stop_words: StopWords = "none",
    marks: Marks = None,
    min_count: MinCount = 1,
    smoothing: Smoothing = 0.0,
    normalisation: Normalisation = "conditional",
    documents: Documents = "file",
    field: Field = "text",
    format: FormatOption = None,
    encoding_errors: Encoding = "strict",
    skip_bad: SkipBad = False,
    bootstrap: Bootstrap = 0,
    permutations: Permutations = 0,
    top: Top = 10,
    least: Least = 10,
    seed: Seed = 0,
    engine: EngineOption = "local",
    address: Address = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Score every word by the group whose words it keeps company with (Bordia & Bowman 2019)."""
    options = {**locals()}
    for name in ("files", "groups", "top", "least", "address", "workers", "as_json"):
        options.pop(name)
    with opened(engine, address=address, workers=workers) as options["engine"]:
        result = _scored(files, groups, options)
    if as_json:
        show_json(result.to_dict())
    else:
        show_bias(result, top, least)


def compare(
    first: Annotated[str, typer.Argument(help="The text to compare with, such as training text.", show_default=False)],
    second: Annotated[str, typer.Argument(help="The other text, such as generated text.", show_default=False)],
    groups: Groups = None,
    window: Window = None,
    decay: Decay = None,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    stop_words: StopWords = "none",
    marks: Marks = None,
    min_count: MinCount = 1,
    documents: Documents = "file",
    field: Field = "text",
    format: FormatOption = None,
    encoding_errors: Encoding = "strict",
    skip_bad: SkipBad = False,
    top: Top = 10,
    least: Least = 10,
    seed: Seed = 0,
    engine: EngineOption = "local",
    address: Address = None,
    workers: Workers = None,
    html: Html = None,
    as_json: Json = False,
) -> None:
    """Regress the scores of the second text on those of the first: how much of the bias is found again."""
    options = {**locals()}
    from evenhand import corpus

    for name in ("first", "second", "groups", "top", "least", "address", "workers", "html", "as_json"):
        options.pop(name)
    shared = opened(engine, address=address, workers=workers)
    with shared as options["engine"], progress("corpus") as bar, notes_on_stderr():
        found = corpus.compare([first], [second], **_groups(groups or []), **options, progress=bar)
    for text in (found.first, found.second):
        note_bad(text.account)
    write_page(html, found, (first, second))
    if as_json:
        show_json(found.to_dict())
    else:
        show_comparison(found, top, least)


def sub_app(guarded: Callable[[Callable[..., None]], Callable[..., None]] = lambda verb: verb) -> typer.Typer:
    """The verbs as an app of their own; `guarded` turns errors into messages and exit codes."""
    told = "Bias in text: which words keep company with which group."
    app = typer.Typer(name="corpus", help=told, no_args_is_help=True)
    for verb in (bias, compare, cooccur, sgns):
        app.command(verb.__name__)(guarded(verb))
    return app


def _scored(files: list[str], groups: list[str] | None, options: dict[str, Any]) -> CorpusBias:
    from evenhand import corpus

    with progress("corpus") as bar, notes_on_stderr():
        result = corpus.bias(files, **_groups(groups or []), **options, progress=bar)
    note_bad(result.account)
    return result


def _groups(given: list[str]) -> dict[str, Any]:
    """Either one id or file, or several name=word,word."""
    if not given:
        return {}
    if len(given) == 1 and "=" not in given[0]:
        return {"lists": given[0]}
    parts = [text.partition("=") for text in given]
    if any(not name or not sign for name, sign, _ in parts):
        raise UsageError(
            f"--groups {' '.join(given)}: neither one id nor groups of words",
            hint="write --groups gender, or --groups old=old,elderly --groups young=young,youth",
        )
    return {"groups": {name.strip(): [w.strip() for w in words.split(",") if w.strip()] for name, _, words in parts}}


Html = Annotated[Path | None, typer.Option("--html", help="A page with the regression and its scatter.")]


def write_page(path: Path | None, found: Comparison, names: tuple[str, str]) -> None:
    """Write it, where a path was given."""
    if path is None:
        return
    from evenhand.report.comparison_page import write_comparison

    context = "infinite" if found.second.params["decay"] else "fixed"
    short = Path(names[0]).name, Path(names[1]).name
    write_comparison({context: found}, path, names=names if short[0] == short[1] else short)
    note(f"page: {path}")
