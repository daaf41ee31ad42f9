"""CrowS-Pairs (Nangia et al. 2020): pairs of sentences, one more stereotyping than the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evenhand.errors import FormatError
from evenhand.words.sentence_sets.reading import read_table

Direction = Literal["stereo", "antistereo"]
CATEGORIES = (
    "gender",
    "race-color",
    "religion",
    "age",
    "nationality",
    "socioeconomic",
    "sexual-orientation",
    "disability",
    "physical-appearance",
)
COLUMNS = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")


@dataclass(frozen=True)
class StereotypePair:
    """Two sentences that differ in whom they are about.

    Attributes:
        id: the row of the file, or a name.
        more: the sentence that stereotypes more, in both directions.
        less: the other sentence.
        category: what the pair is about, such as gender.
        direction: `stereo` where the pair was written to express a stereotype about a disadvantaged group,
            `antistereo` where it was written to violate one.
    """

    id: str
    more: str
    less: str
    category: str = ""
    direction: Direction = "stereo"


def read_crows_pairs(path: str | Path) -> tuple[StereotypePair, ...]:
    """Read a file with the columns of CrowS-Pairs; other columns are ignored.

    Raises:
        FormatError: If a column is missing, or a row has an empty sentence or an unknown direction.
    """
    source = Path(path)
    rows = read_table(source, "CrowS-Pairs file", COLUMNS)
    return tuple(_pair(row, number, source) for number, row in enumerate(rows))


def _pair(row: dict[str, str], number: int, source: Path) -> StereotypePair:
    more, less, direction, category = (row[column].strip() for column in COLUMNS)
    if not more or not less:
        raise FormatError(f"{source}, row {number}: a sentence is empty")
    if direction == "antistereo":
        return StereotypePair(str(number), more, less, category, "antistereo")
    if direction != "stereo":
        raise FormatError(
            f"{source}, row {number}: stereo_antistereo is {direction!r}", hint="use stereo or antistereo"
        )
    return StereotypePair(str(number), more, less, category, "stereo")
