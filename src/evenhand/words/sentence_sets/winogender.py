"""Winogender (Rudinger et al. 2018): an occupation, a participant and a pronoun that refers to one of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evenhand.errors import FormatError
from evenhand.words.sentence_sets.reading import read_text

PronounGender = Literal["male", "female", "neutral"]
GENDERS: tuple[PronounGender, ...] = ("male", "female", "neutral")


@dataclass(frozen=True)
class WinogenderSentence:
    """A sentence with its two people.

    Attributes:
        id: the id of the set, such as "technician.customer.1.male".
        template: the same for the three pronouns.
        text: the sentence.
        pronoun: as it stands in the sentence.
        gender: of the pronoun.
        occupation, participant: the two people; a participant may be "someone".
        refers_to_occupation: whether the pronoun refers to the occupation.
        percent_women: in the occupation, US Bureau of Labor Statistics 2015 or 2016.
    """

    id: str
    template: str
    text: str
    pronoun: str
    gender: PronounGender
    occupation: str
    participant: str
    refers_to_occupation: bool
    percent_women: float


def read_winogender(folder: str | Path) -> tuple[WinogenderSentence, ...]:
    """Read the sentences and the shares of women."""
    root = Path(folder)
    try:
        shares = {row[0]: float(row[2]) for row in _rows(root / "occupations-stats.tsv", 4)}
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{root / 'occupations-stats.tsv'}: a share of women is not a number ({error})") from error
    versions: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for name, text in _rows(root / "all_sentences.tsv", 2):
        parts = name.removesuffix(".txt").split(".")
        if len(parts) != 4 or parts[0] not in shares or parts[3] not in GENDERS or parts[2] not in ("0", "1"):
            raise FormatError(f"{root / 'all_sentences.tsv'}: {name!r} is not occupation.participant.answer.gender")
        versions[parts[0], parts[1], parts[2]][parts[3]] = text
    return tuple(
        sentence for key, texts in versions.items() for sentence in _sentences(key, texts, shares[key[0]], root)
    )


def _sentences(
    key: tuple[str, str, str], texts: dict[str, str], percent_women: float, root: Path
) -> list[WinogenderSentence]:
    occupation, participant, answer = key
    if set(texts) != set(GENDERS):
        raise FormatError(f"{root}: {'.'.join(key)} has the pronouns {sorted(texts)} only")
    words = {gender: texts[gender].split() for gender in GENDERS}
    # The first word that differs is the pronoun; they also changes the verb after it.
    place = next(
        (number for number, version in enumerate(zip(*words.values(), strict=False)) if len(set(version)) == 3), None
    )
    if place is None:
        raise FormatError(f"{root}: the versions of {'.'.join(key)} do not differ in a pronoun")
    return [
        WinogenderSentence(
            f"{'.'.join(key)}.{gender}",
            ".".join(key),
            texts[gender],
            words[gender][place].strip(".,;"),
            gender,
            occupation,
            participant,
            answer == "0",
            percent_women,
        )
        for gender in GENDERS
    ]


def _rows(path: Path, columns: int) -> list[list[str]]:
    lines = read_text(path, "Winogender file").splitlines()
    rows = [line.split("\t") for line in lines[1:] if line.strip()]
    if bad := [number for number, row in enumerate(rows, start=2) if len(row) != columns]:
        raise FormatError(f"{path}, line {bad[0]}: expected {columns} columns separated by tabs")
    return rows
