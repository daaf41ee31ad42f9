"""Bordia & Bowman 2019 from texts: scores of a training text, of single words, and of what given models write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.corpus import Corpus, bias
from evenhand.corpus.comparison import CONTEXTS, against_training, read_samples
from evenhand.corpus.counting.tokens import ENGLISH, SPECIAL_TOKENS
from evenhand.data import catalog, locate
from evenhand.reproduce.bordia2019 import PAIRS
from evenhand.reproduce.comparison import Estimate, Key, Series
from evenhand.reproduce.inputs import PaperInputs, split_row
from evenhand.reproduce.published import PaperItem, change_row

if TYPE_CHECKING:
    from evenhand.corpus.result import CorpusBias

CORPORA = {"table-1": "ptb", "table-2": "wikitext-2", "table-3": "cnn-dailymail", "table-5": "wikitext-2"}
CORPORA |= {"table-6": "wikitext-2", "table-7": "cnn-dailymail", "table-8": "cnn-dailymail"}
FILES = {"ptb": "ptb.train.txt", "wikitext-2": "train.txt"}
SAMPLES, TOKENS = 2000, 500  # texts that a model writes, and their length, as in the paper
TRAINING = "training text"
MARKS = {"μ": "mu", "σ": "sigma", "β": "beta"}
SUBSET = "cnn-dailymail-1000"
OTHER_TEXT = "The paper's sample of CNN/Daily Mail is not published: ours is another part, 1,000 articles."
EXACT = (
    "With infinite context the exact weights give larger scores than the published ones, because words far from every "
    "gendered word get tiny weights."
)


def scores(item: PaperItem, inputs: PaperInputs) -> list[Series] | str:
    """Return tables 1 to 3: the training text, and what models write beside as much of the training text."""
    name = CORPORA[item.name]
    source = _source(name, inputs)
    if source is None:
        return _absent(name)
    values: dict[Key, Estimate] = {}
    for context, reach in CONTEXTS.items():
        whole = _scored(source, name, **reach)
        values[TRAINING, f"{context} μ"] = Estimate(whole.mu)
        values[TRAINING, f"{context} σ"] = Estimate(whole.sigma)
    written = _written(item, inputs)
    for row, addresses in written.items():
        for column, estimates in _generated(source, name, addresses, inputs).items():
            values[row, column] = estimates
    for after, before in item.changes:
        for column in item.columns:
            if (after, column) in values and (before, column) in values:
                difference = values[after, column].value - values[before, column].value
                values[change_row(after, before), column] = Estimate(difference, n=1)
    notes = (EXACT, *([OTHER_TEXT] if name == "cnn-dailymail" else []))
    return [Series(_title(name, inputs), values, notes=notes)]


def words(item: PaperItem, inputs: PaperInputs) -> list[Series] | str:
    """Return tables 5 to 8: scores of the printed words in the training text, and in what models write."""
    name = CORPORA[item.name]
    source = _source(name, inputs)
    if source is None:
        return _absent(name)
    found = {"training": _scored(source, name, window=10)}
    for column, addresses in _written(item, inputs).items():
        texts = [text for address in addresses for text in _texts(address, inputs)]
        found[column] = _scored(texts, name, window=10)
    values = {
        (word, column): Estimate(scored.scores[word])
        for word in item.rows or {}
        for column, scored in found.items()
        if word in scored.scores
    }
    lost = [word for word in item.rows or {} if word not in found["training"].scores]
    notes = [f"Without a score in the training text: {', '.join(lost)}."] if lost else []
    notes += [OTHER_TEXT] if name == "cnn-dailymail" else []
    if not values:
        return f"none of the printed words has a score in {_title(name, inputs)}"
    return [Series(_title(name, inputs), values, notes=tuple(notes))]


def _source(name: str, inputs: PaperInputs) -> Corpus | None:
    """Return the training text: files that are given, or those of the paper's corpus if they are on this disk."""
    if inputs.corpus is None or inputs.corpus in (name, SUBSET):
        folder = locate(SUBSET if name == "cnn-dailymail" else name)
        if folder is None:
            return None
        if name == "cnn-dailymail":
            return Corpus([folder], field="article")
        return Corpus([folder / FILES[name] if folder.is_dir() else folder], documents="file")
    given = [inputs.corpus] if isinstance(inputs.corpus, str) else list(inputs.corpus)
    known = catalog()
    paths = [str(locate(one) or one) if one in known else one for one in given]
    return Corpus(paths)


def _absent(name: str) -> str:
    id = SUBSET if name == "cnn-dailymail" else name
    return f"The text is not on this disk: run `evenhand fetch {id}`, or give a training text with --corpus."


def _title(name: str, inputs: PaperInputs) -> str:
    if inputs.corpus is None:
        return f"scores of {SUBSET if name == 'cnn-dailymail' else name}"
    return f"scores of {inputs.corpus if isinstance(inputs.corpus, str) else ', '.join(inputs.corpus)}"


def _scored(source: Corpus | list[list[str]], name: str, **reach: float | int) -> CorpusBias:
    from evenhand.corpus import Texts

    tokenised = name != "cnn-dailymail"
    given = source if isinstance(source, Corpus) else Texts([" ".join(text) for text in source])
    return bias(
        given, lists=PAIRS[name], tokenizer="whitespace" if tokenised else "words",
        stop_words=(*ENGLISH, *SPECIAL_TOKENS), **reach,  # type: ignore[arg-type]
    )  # fmt: skip


def _written(item: PaperItem, inputs: PaperInputs) -> Mapping[str, tuple[str, ...]]:
    """Return the models by strength: the row in tables 1 to 3, the column in the others; 0.0 without a name."""
    found: dict[str, tuple[str, ...]] = {}
    for text in inputs.models:
        row, address = split_row(text, item)
        found[row or "0.0"] = (*found.get(row or "0.0", ()), address)
    return found


def _texts(address: str, inputs: PaperInputs) -> list[list[str]]:
    from evenhand.subjects.language_models import is_model, open_language_model

    if not is_model(address):
        return read_samples(Path(address))
    opened = open_language_model(address, device=inputs.device)
    samples, tokens = min(inputs.sample or SAMPLES, SAMPLES), min(TOKENS, opened.longest)
    return [text.split() for text in opened.texts(samples, tokens, seed=inputs.seed, progress=inputs.progress)]


def _generated(source: Corpus, name: str, addresses: Iterable[str], inputs: PaperInputs) -> dict[str, Estimate]:
    """Return the scores of generated text beside as much training text, with the interval of a single model."""
    by_column: dict[str, list[tuple[float, tuple[float, float] | None]]] = {}
    for address in addresses:
        tokenizer = "whitespace" if name != "cnn-dailymail" else "words"
        compared = against_training(
            source, _texts(address, inputs), lists=PAIRS[name], tokenizer=tokenizer, seed=inputs.seed,
            progress=inputs.progress,
        )  # fmt: skip
        for context, comparison in compared.items():
            for mark in MARKS:
                by_column.setdefault(f"{context} {mark}", []).append(
                    (comparison.value(MARKS[mark]), comparison.interval(MARKS[mark]))
                )
    return {
        column: Estimate(found[0][0], None, 1, found[0][1]) if len(found) == 1 else Estimate.of(v for v, _ in found)
        for column, found in by_column.items()
    }
