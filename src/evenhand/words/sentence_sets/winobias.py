"""WinoBias (Zhao et al. 2018): pairs of sentences that differ in the gender of one pronoun."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from evenhand.errors import FormatError
from evenhand.words.sentence_sets.reading import read_text

PRONOUNS = frozenset({"he", "she", "him", "her", "his", "hers", "himself", "herself"})
SPLITS = ("dev", "test")
TYPES = (1, 2)
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_ARTICLE = re.compile(r"^(the|a|an|some)\s+", re.IGNORECASE)


@dataclass(frozen=True)
class WinoBiasPair:
    """A sentence with a pronoun that agrees with the stereotype of its occupation, and the same one with the other.

    Attributes:
        id: type, split and line, such as "type1.dev.3".
        type: 1 needs knowledge of the world, 2 can be resolved by syntax.
        context: the sentence with `{}` in place of the pronoun.
        pro, anti: the pronouns.
        referent: the occupation that the pronoun refers to; empty where the file does not mark it.
        other: the other occupation; empty where it is not certain.
    """

    id: str
    type: int
    context: str
    pro: str
    anti: str
    referent: str = ""
    other: str = ""

    @property
    def pro_sentence(self) -> str:
        """The sentence with the pronoun of the stereotype."""
        return self.context.replace("{}", self.pro)

    @property
    def anti_sentence(self) -> str:
        """The sentence with the other pronoun."""
        return self.context.replace("{}", self.anti)


class WinoBias(NamedTuple):
    """The pairs that differ in exactly one pronoun, and the reason why each other pair is left out, by id."""

    pairs: tuple[WinoBiasPair, ...]
    left_out: dict[str, str]


def read_winobias(folder: str | Path) -> WinoBias:
    """Read the eight sentence files and the two lists of occupations.

    A pair is kept if its two lines differ in one word only, and that word is a pronoun.
    """
    root = Path(folder)
    occupations = [word for gender in ("male", "female") for word in _lines(root / f"{gender}_occupations.txt")]
    pairs: list[WinoBiasPair] = []
    left_out: dict[str, str] = {}
    for kind in TYPES:
        for split in SPLITS:
            pro, anti = (_lines(root / f"{side}_stereotyped_type{kind}.txt.{split}") for side in ("pro", "anti"))
            if len(pro) != len(anti):
                raise FormatError(f"{root}: type {kind}, {split}: {len(pro)} pro and {len(anti)} anti sentences")
            for number, lines in enumerate(zip(pro, anti, strict=True), start=1):
                name = f"type{kind}.{split}.{number}"
                read = _pair(name, kind, *lines, occupations)
                if isinstance(read, WinoBiasPair):
                    pairs.append(read)
                else:
                    left_out[name] = read
    return WinoBias(tuple(pairs), left_out)


def _lines(path: Path) -> list[str]:
    text = read_text(path, "WinoBias file")
    return [re.sub(r"^\d+\s+", "", line.strip()) for line in text.splitlines() if line.strip()]


def _pair(name: str, kind: int, pro: str, anti: str, occupations: list[str]) -> WinoBiasPair | str:
    """Return a pair, or why it is left out."""
    first, second = (re.sub(r"[\[\]]", "", line).split() for line in (pro, anti))
    if len(first) != len(second):
        return "the sentences differ in length"
    places = [place for place, (one, two) in enumerate(zip(first, second, strict=True)) if one != two]
    if len(places) != 1:
        return f"the sentences differ in {len(places)} words"
    place = places[0]
    words = [re.sub(r"\W", "", sentence[place]) for sentence in (first, second)]
    if not {word.lower() for word in words} <= PRONOUNS:
        return f"{words[0]!r} and {words[1]!r} are not both pronouns"
    blank = first[place].replace(words[0], "{}", 1)
    context = " ".join([*first[:place], blank, *first[place + 1 :]])
    return WinoBiasPair(name, kind, context, words[0], words[1], *_occupations(pro, anti, occupations))


def _occupations(pro: str, anti: str, occupations: list[str]) -> tuple[str, str]:
    """Return the marked occupation and the other one of the sentence, or empty texts if either is not certain."""
    marked = [_BRACKETS.findall(line) for line in (pro, anti)]
    people = [text for text in marked[0] if text.lower() not in PRONOUNS]
    if any(len(texts) != 2 for texts in marked) or len(people) != 1:
        return "", ""
    referent = _ARTICLE.sub("", people[0]).strip()
    plain = re.sub(r"[\[\]]", "", pro)
    others = [
        word
        for word in occupations
        if word.lower() != referent.lower() and re.search(rf"\b{re.escape(word)}\b", plain, re.IGNORECASE)
    ]
    return (referent, others[0]) if len(others) == 1 else ("", "")
