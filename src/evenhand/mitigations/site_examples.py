"""What a method is fitted on at a site of a transformer: words of the concept, or sentences that mention them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from evenhand.errors import DegenerateError, UsageError
from evenhand.files import read_utf8
from evenhand.mitigations.labelled_words import NEUTRAL, plain_rows
from evenhand.models.encoders.activations import (
    CONTEXTS,
    ContextVectors,
    sentences_at,
    token_lengths,
    words_in_context,
    words_of_table,
)
from evenhand.models.encoders.sites import Site
from evenhand.models.vectors import Vectors
from evenhand.words import Concept

if TYPE_CHECKING:
    from evenhand.models.encoders.transformer import Transformer

Example = TypeVar("Example")
VOCABULARY = 500  # words beside the concept's, for methods that look for the words most biased along a direction
MASSIVE = 10.0  # times the median length of a token's vector; the massive ones are 50 to 500 times as long
NEUTRAL_WORDS = (
    "person", "child", "friend", "neighbor", "student", "guest", "crowd", "team", "city", "river", "house", "window",
    "bread", "paper", "music", "winter", "garden", "letter", "road", "kitchen",
)  # fmt: skip
SENTENCES = (
    *CONTEXTS,
    "Here is {word}.",
    "We read about {word} today.",
    "Yesterday {word} was in the news.",
    "People talked about {word} for an hour.",
    "It was about {word} and nothing else.",
    "The story mentions {word} twice.",
    "Nobody knew why {word} was there.",
    "The first line names {word} only.",
)


def concept_words(concept: Concept) -> tuple[str, ...]:
    """Return the words of a concept that methods look up, each once: groups, pairs, direction, names and neutral."""
    direction = concept.direction.words if concept.direction else ()
    pairs = [word for pair in (*concept.pairs, *concept.equalize) for word in pair]
    groups = [word for group in concept.groups.values() for word in group]
    names = [word for group in concept.names.values() for word in group]
    return tuple(dict.fromkeys([*groups, *pairs, *direction, *names, *concept.neutral]))


def words_at(transformer: Transformer, table: Vectors, site: Site, words: Sequence[str]) -> ContextVectors:
    """Return vectors of the words of a concept at a site.

    At `embeddings` these are the word table and the concept's words that the tokenizer splits. Elsewhere they are the
    concept's words and the first plain words of the table, in sentences that say nothing about them.
    """
    if site.kind == "embeddings":
        return words_of_table(transformer, table, words)
    plain = [table.words[row] for row in plain_rows(table, len(table)) if len(table.words[row]) > 1][:VOCABULARY]
    return words_in_context(transformer, site, [*words, *plain])


def massive_activations(transformer: Transformer, site: Site) -> tuple[float | None, dict[str, object]]:
    """Return the length above which a token's vector at a site is no ordinary one, and an account for a record.

    The length is None where every token of plain sentences is shorter than `MASSIVE` times their median.
    """
    if site.kind != "layer":  # the inputs of attention and of the feed-forward layers are normalised
        return None, {}
    texts = [template.replace("{word}", word) for word in NEUTRAL_WORDS for template in SENTENCES]
    lengths = token_lengths(transformer, site, texts)
    limit = MASSIVE * float(np.median(lengths))
    massive = int(np.count_nonzero(lengths > limit))
    if not massive:
        return None, {}
    report = {
        "median_length": float(np.median(lengths)),
        "longest": float(lengths.max()),
        "limit": limit,
        "share_of_tokens": massive / len(lengths),
    }
    return limit, {"massive_activations": report}


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences by class, and where they come from."""

    classes: Mapping[str, Sequence[str]]
    source: str

    def report(self) -> dict[str, object]:
        """Return the account for a record."""
        return {"source": self.source, "sentences": {name: len(texts) for name, texts in self.classes.items()}}

    def vectors(self, transformer: Transformer, site: Site) -> Vectors:
        """Return the vectors of all sentences at a site, named by their texts."""
        texts = tuple(dict.fromkeys(text for group in self.classes.values() for text in group))
        matrix = sentences_at(transformer, site, texts)
        about = {"kind": "sentences", "site": str(site)}
        return Vectors(texts, matrix, name=f"{transformer.name} at {site}", source=about, case="exact")


def labelled_sentences(concept: Concept, path: str | None, *, most: int, seed: int) -> LabelledSentences:
    """Return sentences that mention one group of a concept, and neutral ones.

    Args:
        concept: the concept.
        path: a text file with a sentence in each line. A sentence that has words of one group only belongs to it, one
            without any to the neutral class; others are left out. None: templates filled with the concept's words.
        most: sentences of a class, at most.
        seed: of the choice among more sentences.
    """
    if path is None:
        neutral = tuple(concept.neutral) or NEUTRAL_WORDS
        lists: dict[str, Sequence[str]] = {name: tuple(group) for name, group in concept.groups.items()}
        lists[NEUTRAL] = neutral
        classes = {name: [t.replace("{word}", w) for w in words for t in SENTENCES] for name, words in lists.items()}
        source = f"{len(SENTENCES)} templates"
    else:
        classes, source = _sort_file(concept, path), Path(path).name
    rng = np.random.default_rng(seed)
    chosen = {name: sampled(texts, most, rng) for name, texts in classes.items() if texts}
    if len(chosen) < 2:
        raise DegenerateError(
            f"{source}: sentences of {', '.join(chosen) or 'no group'} only; a classifier needs two classes",
            hint=f"use sentences that mention the groups of {concept.name!r}, one in each line",
        )
    return LabelledSentences(chosen, source)


def read_sentences(path: str) -> list[str]:
    """Return the lines of a text file, without blank ones."""
    return [text for line in read_utf8(Path(path)).splitlines() if (text := line.strip())]


def _sort_file(concept: Concept, path: str) -> dict[str, list[str]]:
    groups = {name: {word.lower() for word in words} for name, words in concept.groups.items()}
    classes: dict[str, list[str]] = {name: [] for name in (*groups, NEUTRAL)}
    for text in dict.fromkeys(read_sentences(path)):
        words = set(tokens(text))
        mentioned = [name for name, members in groups.items() if words & members]
        if len(mentioned) < 2:
            classes[mentioned[0] if mentioned else NEUTRAL].append(text)
    return classes


def swapped_sentences(
    concept: Concept, path: str | None, *, most: int, seed: int
) -> tuple[Sequence[tuple[str, str]], str]:
    """Return pairs of sentences that differ in one word of the concept's pairs, and where they come from.

    In a sentence of a file, every occurrence of a word is swapped, whole white-space tokens only; a sentence with
    several pair words makes a pair for each of them.
    """
    if path is None:
        found = [
            (text.replace("{word}", first), text.replace("{word}", second))
            for first, second in concept.pairs
            for text in SENTENCES
        ]
        source = f"{len(SENTENCES)} templates"
    else:
        other = {word.lower(): twin for pair in concept.pairs for word, twin in (pair, pair[::-1])}
        found, source = [], Path(path).name
        for text in read_sentences(path):
            for word in dict.fromkeys(each for each in text.lower().split() if each in other):
                found.append((text, " ".join(_swap(token, word, other[word]) for token in text.split())))
    if not found:
        raise UsageError(
            f"{source}: no sentence has a word of the pairs of {concept.name!r}", hint="use other sentences"
        )
    return sampled(found, most, np.random.default_rng(seed)), source


def sampled(examples: Sequence[Example], most: int, rng: np.random.Generator) -> Sequence[Example]:
    """Return the examples, or as many drawn at random, in their order; nothing is drawn where all are taken."""
    if len(examples) <= most:
        return examples
    return [examples[row] for row in np.sort(rng.permutation(len(examples))[:most])]


def tokens(text: str) -> list[str]:
    """Return the lower-case words of a text, without the punctuation around them."""
    return [word for token in text.lower().split() if (word := token.strip(".,;:!?\"'()[]"))]


def _swap(token: str, word: str, twin: str) -> str:
    if token.lower() != word:
        return token
    return twin.capitalize() if token[0].isupper() else twin
