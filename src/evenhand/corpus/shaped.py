"""A text cut to the size and shape of another: mean |bias|, deviation and slope all change with the size of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from evenhand.corpus.pieces import END, cut
from evenhand.corpus.readers.account import Account
from evenhand.corpus.readers.source import Source, Texts
from evenhand.errors import FormatError

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
