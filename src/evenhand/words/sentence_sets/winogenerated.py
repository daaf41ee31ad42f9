"""Winogenerated (Perez et al. 2022): sentences about an occupation with a blank for the pronoun that refers to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from evenhand.errors import FormatError
from evenhand.words.sentence_sets.reading import read_json_lines

FILE = "winogenerated_examples.jsonl"


@dataclass(frozen=True)
class WinogeneratedSentence:
    """A sentence with `{}` for the pronoun.

    Attributes:
        id: number in the file.
        context: the sentence with the occupation.
        neutral: the same sentence with "person" instead of the occupation.
        male, female: the two pronouns that fit the blank.
        occupation: whom the pronoun refers to.
        percent_women: in the occupation, US Bureau of Labor Statistics 2019.
    """

    id: int
    context: str
    neutral: str
    male: str
    female: str
    occupation: str
    percent_women: float


def read_winogenerated(folder: str | Path) -> tuple[WinogeneratedSentence, ...]:
    """Read the sentences."""
    path = Path(folder) / FILE
    sentences = []
    for number, row in read_json_lines(path, "Winogenerated file"):
        try:
            text, occupation = str(row["sentence_with_blank"]), str(row["occupation"])
            male, female = (str(pronoun) for pronoun in row["pronoun_options"][:2])
            share, name = float(row["BLS_percent_women_2019"]), int(row["index"])
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise FormatError(f"{path}, line {number} is not a Winogenerated example: {error!r}") from error
        if text.count("_") != 1:
            raise FormatError(f"{path}, line {number}: the sentence needs one blank, written _")
        context = text.replace("_", "{}")
        named = rf"\b{re.escape(occupation)}(s?)\b"
        neutral = re.sub(named, lambda found: "people" if found[1] else "person", context, flags=re.IGNORECASE)
        neutral = re.sub(r"\b([Aa])n person\b", r"\1 person", neutral)
        sentences.append(WinogeneratedSentence(name, context, neutral, male, female, occupation, share))
    return tuple(sentences)
