"""The groups of words whose company is measured: from pairs, a concept, or lists of the caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from evenhand.errors import UnknownNameError, UsageError, unknown_name
from evenhand.words import Concept, Pairs, WordSet, concept, ids, pairs
from evenhand.words.wordset import checked_words

LISTS = "bordia2019-cnn-dm"  # of the three corrected lists of the paper the one for lower-cased running text

Groups: TypeAlias = "Mapping[str, WordSet | Iterable[str]] | Concept | Pairs | None"


def resolve(groups: Groups, lists: str | Path | None, *, lower: bool) -> tuple[dict[str, tuple[str, ...]], str]:
    """Group name to its distinct words, the positive group first, and the name of the lists."""
    if groups is not None and lists is not None:
        raise UsageError(
            "give groups or lists, not both", hint="lists names shipped pairs; groups holds your own words"
        )
    found = _named(lists or LISTS) if groups is None else groups
    name = str(lists or LISTS) if groups is None else getattr(found, "name", "own words")
    cleaned = {group: _distinct(words, group, lower) for group, words in _sides(found).items()}
    _check(cleaned)
    return cleaned, name


def _named(name: str | Path) -> Concept | Pairs:
    """What an id means, or a word file that holds one list of pairs or one concept."""
    reasons = []
    for find in (concept, pairs):
        try:
            return find(name)
        except (UsageError, UnknownNameError) as error:
            reasons.append(error.message)
    if "." not in Path(name).name:
        raise unknown_name("concept or list of pairs", str(name), (*ids("concept"), *ids("pairs")))
    raise UsageError(f"neither one concept nor one list of pairs: {'; '.join(reasons)}", hint="say which: FILE#ID")


def _sides(given: Groups) -> Mapping[str, WordSet | Iterable[str]]:
    if isinstance(given, Pairs):
        return {given.poles[0]: given.first, given.poles[1]: given.second}
    if isinstance(given, Concept):
        others = [name for name in given.groups if name != given.positive]
        return {name: given.groups[name] for name in (given.positive, *others)}
    if isinstance(given, Mapping):
        return given
    raise UsageError(
        f"groups must map a name to its words, got {type(given).__name__}",
        hint='write groups={"female": ["she", ...], "male": ["he", ...]}',
    )


def _distinct(words: WordSet | Iterable[str], group: str, lower: bool) -> tuple[str, ...]:
    checked = checked_words(words, what=f"group {group!r}")
    return tuple(dict.fromkeys(word.lower() if lower else word for word in checked))


def _check(groups: Mapping[str, tuple[str, ...]]) -> None:
    if len(groups) < 2:
        raise UsageError(f"a comparison needs at least 2 groups, got {len(groups)}", hint="add the other group")
    owner: dict[str, str] = {}
    for group, words in groups.items():
        if not words:
            raise UsageError(f"group {group!r} has no words")
        for word in words:
            if owner.setdefault(word, group) != group:
                raise UsageError(f"{word!r} is in group {owner[word]!r} and in group {group!r}", hint="keep it in one")
