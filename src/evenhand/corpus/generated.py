"""What a language model wrote beside what it was trained on: the comparison of Bordia & Bowman 2019, at equal size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenhand.corpus import groups as grouping
from evenhand.corpus.comparison import Comparison, compare
from evenhand.corpus.counting import Progress
from evenhand.corpus.marks import MARKS as MARKS
from evenhand.corpus.pieces import END
from evenhand.corpus.readers.account import Account
from evenhand.corpus.readers.source import Corpus, Source
from evenhand.corpus.shaped import same_shape, two_halves
from evenhand.corpus.stopwords import ENGLISH
from evenhand.corpus.tokenise import Tokenizer

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
