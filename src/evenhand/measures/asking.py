"""What a measure was asked, made into records: an id, a file, a record or a plain list are all welcome."""

from __future__ import annotations

from collections.abc import Iterable

from evenhand.words import Concept, WordSet, wordset
from evenhand.words import concept as find_concept


def asked_words(words: WordSet | str | Iterable[str]) -> WordSet:
    """A word set by id or file name, as it is, or made from a plain list."""
    if isinstance(words, str | WordSet):
        return wordset(words)
    return WordSet("words", tuple(words))


def asked_concept(concept: Concept | str) -> Concept:
    """A concept by id or file name, or as it is."""
    return find_concept(concept)
