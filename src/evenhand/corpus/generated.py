"""What a language model wrote beside what it was trained on: the comparison of Bordia & Bowman 2019, at equal size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.corpus import groups as grouping
from evenhand.corpus.comparison import Comparison, compare
from evenhand.corpus.counting.count import Progress
from evenhand.corpus.counting.text_stream import END, cut
from evenhand.corpus.counting.tokenise import Tokenizer
from evenhand.corpus.counting.vocabulary import ENGLISH
from evenhand.corpus.counting.vocabulary import MARKS as MARKS
from evenhand.corpus.readers.read_log import Account
from evenhand.corpus.readers.source import Corpus, Source, Texts
from evenhand.errors import FormatError

CONTEXTS: Mapping[str, Mapping[str, Any]] = {"fixed": {"window": 10}, "infinite": {"decay": 0.95}}


def against_training(
    training: Source,
    samples: Sequence[Sequence[str]],
    groups: grouping.Groups = None,
    *,
    lists: str | Path | None = None,
    contexts: Mapping[str, Mapping[str, Any]] = CONTEXTS,
    tokenizer: Tokenizer = "whitespace",
    stop_words: Sequence[str] = (*ENGLISH, *MARKS),
    min_count: int = 1,
    permutations: int = 0,
    seed: int = 0,
    ceiling: bool = False,
    progress: Progress = None,
) -> dict[str, Comparison]:
    """Regress the scores of generated samples on those of as much training text, for each context.

    Both texts are cut to the same number and length of documents (`same_shape`), without marks of line ends. With
    `ceiling` there is a second comparison for each context, "<name> ceiling", of one half of the training text with the
    other: noise alone keeps its beta far below 1, and a model that writes exactly as its text would not get more.

    Args:
        training: the text that the model was trained on.
        samples: generated texts as lists of words.
        groups: name to words, positive group first.
        lists: id or file of pairs or a concept instead.
        contexts: name to the window or decay of each; the two of the paper unless given.
        tokenizer: of the scores; `whitespace` for tokenised text, as the paper has it.
        stop_words: words that are not scored.
        min_count: words that occur less often are not scored.
        permutations: shuffled labellings for the baseline of each text.
        seed: of blocks and shuffles.
        ceiling: compare the training text with itself too.
        progress: called with (done, total, what).
    """
    texts = {"": same_shape(training, samples, seed=seed)}
    if ceiling:
        texts[" ceiling"] = two_halves(training, samples, seed=seed)
    options: dict[str, Any] = {
        "lists": lists, "tokenizer": tokenizer, "stop_words": stop_words, "min_count": min_count,
        "permutations": permutations, "seed": seed, "marks": "keep",  # those of MARKS are stop words; $ and & count
    }  # fmt: skip
    asked = {name + kind: (both, reach) for kind, both in texts.items() for name, reach in contexts.items()}
    found = {}
    for number, (name, (both, reach)) in enumerate(asked.items()):
        if progress:
            progress(number, len(asked), f"{name} context")
        found[name] = compare(both[0], both[1], groups, **options, **reach)
    return found


def read_samples(path: str | Path) -> list[list[str]]:
    """The generated texts of a file, one a line or one a JSON record, as lists of words."""
    source = Corpus([str(path)], documents="line")
    text = "".join(part for shard in source.shards() for part in source.fragments(shard, Account(False)))
    return [words for words in (document.split() for document in text.split(END)) if words]


LINE_END = "<eos>"  # how word-level models spell the end of a line; a mark of the text's form and not a word


def word_stream(source: Source) -> Iterator[str]:
    """The words of a text parted by blanks, without marks of line ends, across the ends of documents."""
    for shard in source.shards():
        for piece in cut(source.fragments(shard, Account(source.skip_bad))):
            yield from (word for word in piece.replace(END, " ").split() if word != LINE_END)


def same_shape(text: Source, samples: Sequence[Sequence[str]], *, seed: int = 0) -> tuple[Texts, Texts]:
    """Blocks of a text, drawn evenly, as many and as long as the samples; and the samples.

    Where the text has fewer words than the samples, there are only as many samples as it has blocks. A block crosses
    the ends of documents, as the samples of a model do that was trained on one stream of words. Takes one pass, and
    memory for the blocks only (reservoir sampling).
    """
    kept = [[word for word in sample if word != LINE_END] for sample in samples]
    length = _length(kept)
    blocks = _drawn(word_stream(text), length, len(kept), np.random.default_rng(seed))
    if not blocks:
        raise FormatError(f"the text has fewer words than one sample ({length:,})", hint="give more text")
    return _texts(blocks), _texts(kept[: len(blocks)])


def two_halves(text: Source, samples: Sequence[Sequence[str]], *, seed: int = 0) -> tuple[Texts, Texts]:
    """Two sets of blocks of one text that share no word, each of the shape of the samples if the text is long enough.

    Otherwise each is half of the text. What a perfect model would write compares with its training text as these do.
    """
    kept = [[word for word in sample if word != LINE_END] for sample in samples]
    blocks = _drawn(word_stream(text), _length(kept), 2 * len(kept), np.random.default_rng(seed))
    half = len(blocks) // 2
    if not half:
        raise FormatError("the text has fewer words than two samples", hint="give more text")
    return _texts(blocks[0 : 2 * half : 2]), _texts(blocks[1 : 2 * half : 2])


def _length(samples: list[list[str]]) -> int:
    total = sum(map(len, samples))
    if not total:
        raise FormatError("the samples have no words", hint="generate longer ones")
    return max(1, round(total / len(samples)))


def _texts(blocks: list[list[str]]) -> Texts:
    return Texts([" ".join(block) for block in blocks])


def _drawn(words: Iterator[str], length: int, wanted: int, rng: np.random.Generator) -> list[list[str]]:
    """`wanted` blocks, or all where there are fewer; each set of blocks is equally likely."""
    kept: list[list[str]] = []
    seen = 0
    while len(block := list(islice(words, length))) == length:
        seen += 1
        if len(kept) < wanted:
            kept.append(block)
        elif (at := int(rng.integers(seen))) < wanted:
            kept[at] = block
    return kept
