"""Compare generated text with training text, at equal size (Bordia & Bowman 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypedDict

import numpy as np

from evenhand.corpus.comparison import Comparison, compare_corpora
from evenhand.corpus.counting.text_stream import END, cut
from evenhand.corpus.counting.tokenise import Tokenizer
from evenhand.corpus.counting.vocabulary import ENGLISH, SPECIAL_TOKENS
from evenhand.corpus.options import CorpusOptions, Groups
from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.source import Corpus, Texts, TextSource
from evenhand.errors import FormatError
from evenhand.progress import Progress


class Context(TypedDict, total=False):
    """The reach of a co-occurrence: a window or a decay."""

    window: int
    decay: float


CONTEXTS: Mapping[str, Context] = {"fixed": {"window": 10}, "infinite": {"decay": 0.95}}
LINE_END = "<eos>"  # marks the end of a line in the text of word-level models


def against_training(
    training: TextSource,
    samples: Sequence[Sequence[str]],
    groups: Groups = None,
    *,
    lists: str | Path | None = None,
    contexts: Mapping[str, Context] = CONTEXTS,
    tokenizer: Tokenizer = "whitespace",
    stop_words: Sequence[str] = (*ENGLISH, *SPECIAL_TOKENS),
    min_count: int = 1,
    permutations: int = 0,
    seed: int = 0,
    ceiling: bool = False,
    progress: Progress | None = None,
) -> dict[str, Comparison]:
    """Regress the scores of generated samples on those of as much training text, for each context.

    Both texts are cut to the same number and length of documents (`same_shape`), without line-end tokens. With
    `ceiling`, each context gets a second comparison, "<name> ceiling", of one half of the training text with the
    other: noise alone keeps its beta far below 1, and a model that reproduces its text exactly would reach no more.

    Args:
        training: text that the model was trained on.
        samples: generated texts as lists of words.
        groups: name to words, positive group first.
        lists: id or file of pairs or of a concept, instead of groups.
        contexts: name to the window or decay of each context; the two of the paper by default.
        tokenizer: tokenizer of the scores; `whitespace` for tokenised text, as in the paper.
        stop_words: words that are not scored.
        min_count: words that occur less often are not scored.
        permutations: permuted labellings for the baseline of each text.
        seed: seed of the block sampling and of the permutations.
        ceiling: also compare the training text with itself.
        progress: called with (done, total, description).
    """
    texts = {"": same_shape(training, samples, seed=seed)}
    if ceiling:
        texts[" ceiling"] = two_halves(training, samples, seed=seed)
    runs = {name + kind: (both, reach) for kind, both in texts.items() for name, reach in contexts.items()}
    comparisons = {}
    for number, (name, (both, reach)) in enumerate(runs.items()):
        if progress:
            progress(number, len(runs), f"{name} context")
        options = CorpusOptions(
            groups=groups,
            lists=lists,
            window=reach.get("window"),
            decay=reach.get("decay"),
            tokenizer=tokenizer,
            stop_words=stop_words,
            special_tokens="keep",  # the named ones are stop words; signs such as $ count as words
            min_count=min_count,
            permutations=permutations,
            seed=seed,
        )
        comparisons[name] = compare_corpora(*both, options)
    return comparisons


def read_samples(path: str | Path) -> list[list[str]]:
    """Read generated texts, one per line or one per JSON record, as lists of words."""
    source = Corpus([str(path)], documents="line")
    text = "".join(part for shard in source.shards() for part in source.fragments(shard, ReadLog(False)))
    return [words for words in (document.split() for document in text.split(END)) if words]


def word_stream(source: TextSource) -> Iterator[str]:
    """Yield the whitespace-separated words of a text without line-end tokens, across document ends."""
    for shard in source.shards():
        for piece in cut(source.fragments(shard, ReadLog(source.skip_bad))):
            yield from (word for word in piece.replace(END, " ").split() if word != LINE_END)


def same_shape(text: TextSource, samples: Sequence[Sequence[str]], *, seed: int = 0) -> tuple[Texts, Texts]:
    """Return blocks sampled from a text, as many and as long as the samples, and the samples.

    If the text has fewer words than the samples, only as many samples are returned as the text has blocks. A block may
    cross the ends of documents, as do the samples of a model trained on one stream of words. Takes one pass, and
    memory for the blocks only (reservoir sampling).
    """
    cleaned = _without_line_ends(samples)
    length = _mean_length(cleaned)
    blocks = _sample_blocks(word_stream(text), length, len(cleaned), np.random.default_rng(seed))
    if not blocks:
        raise FormatError(f"the text has fewer words than one sample ({length:,})", hint="give more text")
    return _as_texts(blocks), _as_texts(cleaned[: len(blocks)])


def two_halves(text: TextSource, samples: Sequence[Sequence[str]], *, seed: int = 0) -> tuple[Texts, Texts]:
    """Return two disjoint sets of blocks of one text, each of the shape of the samples if the text is long enough.

    Otherwise each is half of the text. A perfect model's text compares with its training text as these two do.
    """
    cleaned = _without_line_ends(samples)
    rng = np.random.default_rng(seed)
    blocks = _sample_blocks(word_stream(text), _mean_length(cleaned), 2 * len(cleaned), rng)
    half = len(blocks) // 2
    if not half:
        raise FormatError("the text has fewer words than two samples", hint="give more text")
    return _as_texts(blocks[0 : 2 * half : 2]), _as_texts(blocks[1 : 2 * half : 2])


def _without_line_ends(samples: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[word for word in sample if word != LINE_END] for sample in samples]


def _mean_length(samples: list[list[str]]) -> int:
    total = sum(map(len, samples))
    if not total:
        raise FormatError("the samples have no words", hint="generate longer ones")
    return max(1, round(total / len(samples)))


def _as_texts(blocks: list[list[str]]) -> Texts:
    return Texts([" ".join(block) for block in blocks])


def _sample_blocks(words: Iterator[str], length: int, count: int, rng: np.random.Generator) -> list[list[str]]:
    """Return `count` blocks, or all if there are fewer; each set of blocks is equally likely."""
    blocks: list[list[str]] = []
    seen = 0
    while len(block := list(islice(words, length))) == length:
        seen += 1
        if len(blocks) < count:
            blocks.append(block)
        elif (row := int(rng.integers(seen))) < count:
            blocks[row] = block
    return blocks
