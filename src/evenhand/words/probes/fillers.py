"""What takes the differing slot on one side of a probe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenhand.errors import UsageError, unknown_name
from evenhand.words.articles import with_articles
from evenhand.words.probes.surface import Surface

WORD = "{word}"


@dataclass(frozen=True)
class Filler:
    """A word as tables name it, the phrase around it, and the group of people it belongs to.

    `bare` fillers (names, pronouns) take no determiner; `capital` ones are written with a capital in natural case, as
    demonyms are, though the published lists have them in lower case.
    """

    word: str
    frame: str = WORD
    group: str = ""
    bare: bool = False
    capital: bool = False

    def __post_init__(self) -> None:
        if self.frame.count(WORD) != 1:
            raise UsageError(f"filler {self.word!r}: the frame {self.frame!r} needs {WORD} once")

    def phrase(self, determiner: str, surface: Surface) -> str:
        """What stands in the sentence: determiner, articles and capitals decided."""
        word = self.word[:1].upper() + self.word[1:] if self.capital else self.word
        front = "" if self.bare or not determiner else surface.determined(determiner) + " "
        return surface.cased(with_articles(front + self.frame.replace(WORD, word), surface.articles))


def groups_of(fillers: Sequence[Filler]) -> dict[str, tuple[int, ...]]:
    """The places of the fillers of each group, in the order of first appearance; fillers without one are left out."""
    places: dict[str, list[int]] = {}
    for place, filler in enumerate(fillers):
        if filler.group:
            places.setdefault(filler.group, []).append(place)
    return {name: tuple(found) for name, found in places.items()}


def places_of(fillers: Sequence[Filler], words: str | Iterable[str], *, what: str) -> list[int]:
    """Where the words asked for stand among the fillers; an unknown one is an error that names near ones."""
    wanted = {words} if isinstance(words, str) else set(words)
    known = [filler.word for filler in fillers]
    for word in sorted(wanted - set(known)):
        raise unknown_name(f"{what} filler", word, set(known))
    return [place for place, word in enumerate(known) if word in wanted]
