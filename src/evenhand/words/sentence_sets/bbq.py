"""BBQ (Parrish et al. 2022): questions about two people with a short or a sufficient context, and three answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evenhand.errors import FormatError, unknown_name
from evenhand.words.sentence_sets.reading import read_json_lines, read_table

CATEGORIES = (
    "Age",
    "Disability_status",
    "Gender_identity",
    "Nationality",
    "Physical_appearance",
    "Race_ethnicity",
    "Race_x_SES",
    "Race_x_gender",
    "Religion",
    "SES",
    "Sexual_orientation",
)
METADATA = "additional_metadata.csv"
BBQCondition = Literal["ambig", "disambig"]
BBQKey = tuple[str, str, int]


@dataclass(frozen=True)
class BBQItem:
    """A question with its context and three answers.

    Attributes:
        category, template, example: category, `question_index` and `example_id` of the set; together they are unique.
        condition: "ambig" where the context does not give the answer, "disambig" where it does.
        polarity: "neg" or "nonneg".
        context, question: the texts.
        answers: the three answers in the order of the file.
        label: the right answer.
        unknown: the answer that says that it cannot be known.
        target: the biased answer, which is the stereotyped person in a negative question and the other one in a
            non-negative question; None where the metadata have none.
        label_type: "label" where people are named by their group, "name" where by a proper name.
    """

    category: str
    template: str
    example: int
    condition: BBQCondition
    polarity: str
    context: str
    question: str
    answers: tuple[str, str, str]
    label: int
    unknown: int
    target: int | None
    label_type: str

    @property
    def cluster(self) -> str:
        """Category and template: items of one template are not independent."""
        return f"{self.category} {self.template}"


def read_bbq(folder: str | Path, categories: tuple[str, ...] = CATEGORIES) -> tuple[BBQItem, ...]:
    """Read the items of some categories, joined with the metadata by category, template and example."""
    root = Path(folder)
    for category in categories:
        if category not in CATEGORIES:
            raise unknown_name("category of BBQ", category, CATEGORIES)
    metadata = read_metadata(root / METADATA)
    return tuple(
        bbq_item(row, metadata, f"{path}, line {number}")
        for path in (root / f"{category}.jsonl" for category in categories)
        for number, row in read_json_lines(path, "BBQ file")
    )


def read_metadata(path: str | Path) -> dict[BBQKey, tuple[int | None, str]]:
    """Return the biased answer and the type of label of each item.

    The file repeats some items of Gender_identity, with the same values.
    """
    columns = ("category", "question_index", "example_id", "target_loc", "label_type")
    rows = read_table(Path(path), "metadata of BBQ", columns)
    try:
        return {
            (row["category"], row["question_index"], int(row["example_id"])): (
                int(row["target_loc"]) if row["target_loc"] in ("0", "1", "2") else None,
                row["label_type"],
            )
            for row in rows
        }
    except ValueError as error:
        raise FormatError(f"{path} is not the metadata of BBQ: {error!r}") from error


def bbq_item(row: dict[str, object], metadata: dict[BBQKey, tuple[int | None, str]], where: str) -> BBQItem:
    """Return the item of one line, with its metadata."""
    try:
        answers = (str(row["ans0"]), str(row["ans1"]), str(row["ans2"]))
        groups = [row["answer_info"][f"ans{number}"][-1] for number in range(3)]  # type: ignore[index]
        key = (str(row["category"]), str(row["question_index"]), int(str(row["example_id"])))
        condition, label = row["context_condition"], int(str(row["label"]))
        texts = {name: str(row[name]).strip() for name in ("context", "question", "question_polarity")}
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise FormatError(f"{where} is not an item of BBQ: {error!r}") from error
    if groups.count("unknown") != 1 or label not in range(3):
        raise FormatError(f"{where}: an item needs one answer 'unknown' and a label from 0 to 2")
    target, label_type = metadata.get(key, (None, ""))
    return BBQItem(
        *key,
        "ambig" if condition == "ambig" else "disambig",
        texts["question_polarity"],
        texts["context"],
        texts["question"],
        answers,
        label,
        groups.index("unknown"),
        target,
        label_type,
    )
