"""`evenhand lm measure`: the bias of generated text beside that of the training text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.lm_options import Batch, Device, Precision, Samples, Temperature, Tokens
from evenhand.cli.options import Json, Seed, notes_on_stderr
from evenhand.cli.screens.terminal import escape, note, progress, show, show_json
from evenhand.errors import UsageError
from evenhand.subjects.language_models import is_model, opened

if TYPE_CHECKING:
    from evenhand.corpus.comparison import Comparison

CEILING = " ceiling"
NAMES = ("training text", "generated text")


def measure(
    model: Annotated[str, typer.Argument(metavar="MODEL|TEXT", help="A model, or texts that one has written.")],
    training: Annotated[str, typer.Option("--train", help="The training text.", show_default=False)],
    pairs: Annotated[str, typer.Option(help="Pairs of words or a concept: an id or a file.")] = "bordia2019-cnn-dm",
    test: Annotated[str | None, typer.Option(help="Text for the perplexity of a model.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="words, or whitespace for tokenised text.", show_default="by the model")
    ] = None,
    stop_words: Annotated[str, typer.Option(help="Words that are not scored: english, none, or a file.")] = "english",
    min_count: Annotated[int, typer.Option(help="Words that occur less often are not scored.")] = 1,
    permutations: Annotated[int, typer.Option(help="Shuffled labellings for the baseline; 0 for none.")] = 20,
    samples: Samples = 2000,
    tokens: Tokens = 500,
    temperature: Temperature = 1.0,
    batch: Batch = None,
    keep: Annotated[Path | None, typer.Option(help="File to keep the generated texts in.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="A page with the scatter of both contexts.")] = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Compare what a model writes with what it was trained on: mean |bias|, deviation, and how much is found again."""
    from evenhand.corpus import Corpus
    from evenhand.corpus.generated import against_training

    if test and not is_model(model):
        raise UsageError(f"{model} is a text, which has no perplexity", hint="name the model, or leave --test out")
    with notes_on_stderr(), progress("lm measure") as bar:
        options: dict[str, Any] = {"temperature": temperature, "batch": batch}
        texts, tokenised, perplexity = _texts(model, samples, tokens, seed, device, precision, options, test, keep, bar)
        found = against_training(
            Corpus([training]), texts, lists=pairs, tokenizer=tokenizer or ("whitespace" if tokenised else "words"),
            stop_words=_stops(stop_words), min_count=min_count, permutations=permutations, seed=seed, ceiling=True,
            progress=bar,
        )  # fmt: skip
    if html:
        from evenhand.report.comparison_page import write_comparison

        shown = {name: c for name, c in found.items() if not name.endswith(CEILING)}
        write_comparison(shown, html, names=NAMES, perplexity=_told(perplexity))
        note(f"page: {html}")
    if as_json:
        contexts = {name: c.to_dict(points=not name.endswith(CEILING)) for name, c in found.items()}
        show_json({"model": model, "training": training, "perplexity": perplexity, **contexts, "seed": seed})
    else:
        _show(found, perplexity)
        note(f"seed {seed}")


def _texts(
    model: str, samples: int, tokens: int, seed: int, device: str, precision: str, options: dict[str, Any],
    test: str | None, keep: Path | None, bar: Any,
) -> tuple[list[list[str]], bool, dict[str, Any] | None]:  # fmt: skip
    """Texts as words, whether they are tokenised, and the perplexity where one was asked for."""
    from evenhand.corpus.generated import read_samples
    from evenhand.subjects.language_models import write_texts

    if not is_model(model):
        return read_samples(model), True, None
    known = opened(model, device=device, precision=precision)
    texts = known.texts(samples, tokens, seed=seed, progress=bar, **options)
    if keep:
        write_texts(keep, texts)
    return [text.split() for text in texts], known.tokenised, known.perplexity(test) if test else None


def _stops(given: str) -> tuple[str, ...]:
    from evenhand.corpus.counting.vocabulary import SPECIAL_TOKENS, load_stop_words

    return (*load_stop_words(given), *SPECIAL_TOKENS)


def _told(perplexity: dict[str, Any] | None) -> str:
    if not perplexity:
        return ""
    by_token = f", {perplexity['token']:.1f} by token" if "token" in perplexity else ""
    return f"{perplexity['word']:.1f} by word{by_token}"


def _show(found: dict[str, Comparison], perplexity: dict[str, Any] | None) -> None:
    from rich.table import Table

    contexts = [name for name in found if not name.endswith(CEILING)]
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("")
    for name in contexts:
        table.add_column(f"{name} context", justify="right")
    for name, cells in _rows(found, contexts).items():
        table.add_row(name, *map(escape, cells))
    show(table)
    if perplexity:
        show(f"perplexity {_told(perplexity)}")
    first, halves = found[contexts[0]], found[contexts[0] + CEILING]
    show(
        f"[dim]95 % intervals over documents. Above 0: {escape(first.second.positive)}. beta: slope of the generated "
        "text's scores on the training text's. Both texts have the same size. Noise pulls beta towards 0: training "
        f"text on itself is one half of it on the other, {halves.second.tokens:,} tokens each. The more words of the "
        "groups a text has, the lower its mean |bias|: compare models whose counts are alike.[/]"
    )


def _rows(found: dict[str, Comparison], contexts: list[str]) -> dict[str, list[str]]:
    told = [found[name] for name in contexts]
    return {
        "tokens each": [f"{c.second.tokens:,}" for c in told],
        "training: group words": [_hits(c.first.hits) for c in told],
        "generated: group words": [_hits(c.second.hits) for c in told],
        "training: mean |bias|": [c.text("first_mu", 2) for c in told],
        "generated: mean |bias|": [c.text("mu", 2) for c in told],
        "  shuffled labels": [_base(c) for c in told],
        "training: sd": [c.text("first_sigma", 2) for c in told],
        "generated: sd": [c.text("sigma", 2) for c in told],
        "[bold]beta[/]": [c.text("beta", 2) for c in told],
        "  words in both": [f"{c.beta.words:,}" for c in told],
        "  training text on itself": [found[name + CEILING].text("beta", 2) for name in contexts],
    }


def _hits(hits: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in hits.items())


def _base(comparison: Comparison) -> str:
    base = comparison.second.baseline
    return (f"{base.mu:.3f}" + (f" (p = {base.p_value:.2f})" if base.p_value is not None else "")) if base else ""
