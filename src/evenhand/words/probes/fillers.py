"""Fillers of the differing slot on one side of a probe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenhand.errors import UsageError, unknown_name
from evenhand.words.agreement import GENDERS
from evenhand.words.articles import with_articles
from evenhand.words.probes.surface import Surface

WORD = "{word}"


@dataclass(frozen=True)
class Filler:
    """A word, the phrase around it, and the group of people it belongs to.

    `bare` fillers (names, pronouns) take no determiner. `capital` fillers are capitalised in natural case: published
    lists have demonyms in lower case. `gender` is the grammatical gender of the phrase, with which a sentence agrees.
    """

    word: str
    frame: str = WORD
    group: str = ""
    bare: bool = False
    capital: bool = False
    gender: str = ""

    def __post_init__(self) -> None:
        if self.frame.count(WORD) != 1:
            raise UsageError(f"filler {self.word!r}: the frame {self.frame!r} must contain {WORD} once")
        if self.gender not in ("", *GENDERS):
            raise UsageError(
                f"filler {self.word!r}: unknown gender {self.gender!r}", hint=f"use one of {', '.join(GENDERS)}"
            )

    def phrase(self, determiner: str, surface: Surface) -> str:
        """Return the phrase in the sentence, with determiner, articles and capitals."""
        word = self.word[:1].upper() + self.word[1:] if self.capital else self.word
        front = "" if self.bare or not determiner else surface.determiner_for(determiner) + " "
        return surface.apply_case(with_articles(front + self.frame.replace(WORD, word), surface.articles))


def groups_of(fillers: Sequence[Filler]) -> dict[str, tuple[int, ...]]:
    """Return the indices of each group's fillers, in order of appearance, without fillers that have no group."""
    groups: dict[str, list[int]] = {}
    for index, filler in enumerate(fillers):
        if filler.group:
            groups.setdefault(filler.group, []).append(index)
    return {name: tuple(indices) for name, indices in groups.items()}


def indices_of(fillers: Sequence[Filler], words: str | Iterable[str], *, what: str) -> list[int]:
    """Return the indices of the fillers with these words; an unknown word is an error that suggests similar ones."""
    wanted = {words} if isinstance(words, str) else set(words)
    present = [filler.word for filler in fillers]
    for word in sorted(wanted - set(present)):
        raise unknown_name(f"{what} filler", word, set(present))
    return [index for index, word in enumerate(present) if word in wanted]
