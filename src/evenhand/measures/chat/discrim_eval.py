"""The published scenarios of Tamkin et al. (2023), discrim-eval, as JSON lines: what is asked, and how parallel it is.

A line has the text of a question about a person (`filled_template`), the number of the question, and the age, gender
and race of the person. The fills of a question were written by a language model: some differ in more than the person,
and not equally often for all groups, so that a gap can come from the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from evenhand.errors import FormatError, UsageError, few
from evenhand.measures.chat.people_result import AskedCases
from evenhand.measures.likelihood.scoring import draw_sample, read_json_lines
from evenhand.words import Concept
from evenhand.words.persons import Naming, words_of_persons

SUFFIX = ".jsonl"
FIELDS = ("filled_template", "decision_question_id", "age", "gender", "race")
FILL_TYPE = {"explicit": "explicit", "names": "implicit"}
INSTRUCTION = "Answer with yes or no only."
YOUNG, OLD = 40, 70  # the largest age of the young and the smallest of the old; ages between are left out

RACES = {"Black": "black", "Asian": "asian", "Hispanic": "hispanic", "Native American": "indigenous", "white": "white"}
GROUPS: dict[str, tuple[str, dict[str, str]]] = {
    "gender": ("gender", {"female": "female", "male": "male"}),
    "gender-diverse": ("gender", {"female": "women", "male": "men", "non-binary": "nonbinary"}),
    "race": ("race", {"Black": "african-american", "white": "european-american"}),
    "ethnicity": ("race", RACES),
    "age": ("age", {}),
    "age-terms": ("age", {}),
}
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+")


@dataclass(frozen=True)
class PublishedFill:
    """One line of the set."""

    text: str
    question: str
    age: int
    gender: str
    race: str
    fill_type: str


def read_discrim_eval(path: str | Path) -> tuple[PublishedFill, ...]:
    """Read the lines of a file.

    Raises:
        FormatError: If a line is no question of the set; the message says which and why.
    """
    file = Path(path)
    fills = []
    for number, row in read_json_lines(file, "discrim-eval file"):
        missing = [name for name in FIELDS if not isinstance(row, dict) or name not in row]
        if missing:
            raise FormatError(
                f"{file}, line {number} has no field {missing[0]!r}", hint=f"each line needs {', '.join(FIELDS)}"
            )
        try:
            age = int(float(row["age"]))
        except (TypeError, ValueError) as error:
            raise FormatError(f"{file}, line {number}: age must be a number, got {row['age']!r}") from error
        text, question = str(row["filled_template"]), str(row["decision_question_id"])
        kind = str(row.get("fill_type", ""))
        fills.append(PublishedFill(text, question, age, str(row["gender"]), str(row["race"]), kind))
    return tuple(fills)


def published_cases(
    path: str | Path, concept: Concept, naming: Naming, sample: int | None, seed: int, *, scale: bool = False
) -> AskedCases:
    """Return the questions of a file about the people of the groups of a concept.

    A file with a field `fill_type` has explicit and implicit fills, of which `naming` chooses. A sample keeps the fills
    of a question whose people differ in the group alone together.
    """
    if scale:
        raise UsageError("the published questions are answered by yes or no", hint="leave answer=number out")
    if concept.name not in GROUPS:
        raise UsageError(f"the published questions have no groups of {concept.name!r}", hint=f"use {', '.join(GROUPS)}")
    every = read_discrim_eval(path)
    kept = [fill for fill in every if fill.fill_type in ("", FILL_TYPE[naming])]
    column, known = GROUPS[concept.name]
    labelled = [(fill, group) for fill in kept if (group := _group(fill, column, known))]
    groups = tuple(
        sorted({group for _, group in labelled}, key=lambda g: (g != concept.positive, list(concept.groups).index(g)))
    )
    if len(groups) < 2:
        raise UsageError(
            f"{path} has {few(groups) or 'no groups'} of {concept.name}, and groups are compared",
            hint="check its columns, or choose another concept or naming",
        )
    rows = [(fill.question, _row(fill, column)) for fill, _ in labelled]
    drawn = set(_drawn(rows, len(groups), sample, seed))
    used = [(fill, group) for (fill, group), row in zip(labelled, rows, strict=True) if row in drawn]
    numbers = {group: number for number, group in enumerate(groups)}
    questions = tuple(f"question {fill.question}" for fill, _ in used)
    details: dict[str, object] = {
        "scenarios": len(set(questions)),
        "left_out": len(kept) - len(labelled),
        "parallel": parallel_fills(used, column),
    }
    return AskedCases(
        Path(path).stem,
        groups,
        tuple(f"{fill.text.strip()}\n{INSTRUCTION}" for fill, _ in used),
        questions,
        ("",) * len(used),
        tuple(f"{fill.age}, {fill.gender}, {fill.race}" for fill, _ in used),
        tuple(numbers[group] for _, group in used),
        False,
        ("yes", "no"),
        (False,) * len(used),
        details,
    )


def _group(fill: PublishedFill, column: str, known: Mapping[str, str]) -> str:
    if column == "age":
        return "young" if fill.age <= YOUNG else "old" if fill.age >= OLD else ""
    return known.get(fill.gender if column == "gender" else fill.race, "")


def _row(fill: PublishedFill, column: str) -> str:
    """Return what a person shares with counterparts of other groups."""
    parts = {"age": str(fill.age), "gender": fill.gender, "race": fill.race}
    return " ".join(value for name, value in parts.items() if name != column)


def _drawn(rows: Sequence[tuple[str, str]], groups: int, sample: int | None, seed: int) -> Sequence[tuple[str, str]]:
    every = list(dict.fromkeys(rows))
    size = max(1, sample // groups) if sample else None
    return draw_sample(every, [question for question, _ in every], size, seed=seed)


def parallel_fills(fills: Sequence[tuple[PublishedFill, str]], column: str) -> dict[str, object]:
    """Return how parallel fills are that differ in the group alone.

    Two fills are parallel if nothing is left to tell them apart without the words of the person: pronouns, nouns and
    adjectives of gender and race, articles, forms of to be and to have, the ending -s of a verb, and the age; in
    implicit fills also words with a capital, which are names.

    Returns:
        The number of pairs, the share of parallel ones, the mean number of other words in which a pair differs, the
        share by group, and examples.
    """
    together: dict[tuple[str, str], list[tuple[PublishedFill, str]]] = {}
    for fill, group in fills:
        together.setdefault((fill.question, _row(fill, column)), []).append((fill, group))
    pairs = parallel = others = 0
    by_group: dict[str, list[bool]] = {}
    examples: list[list[str]] = []
    for some in together.values():
        for (one, first), (other, second) in combinations(some, 2):
            if first == second:
                continue
            left, right = _frame(one), _frame(other)
            pairs += 1
            parallel += left == right
            differing = sorted(set(left) ^ set(right))
            others += len(differing)
            for group in (first, second):
                by_group.setdefault(group, []).append(left == right)
            if left != right and len(examples) < 3:
                examples.append([f"{first} – {second}, question {one.question}", *differing[:8]])
    return {
        "pairs": pairs,
        "share": parallel / pairs if pairs else None,
        "other_words": others / pairs if pairs else None,
        "by_group": {group: sum(some) / len(some) for group, some in by_group.items()},
        "examples": examples,
    }


def _frame(fill: PublishedFill) -> tuple[str, ...]:
    """Return the words of a text that are not about the person."""
    kept = []
    for match in WORD.finditer(fill.text):
        word = match[0].replace("’", "'").removesuffix("'s")
        plain = word.lower()
        is_name = word[0].isupper() and not _begins_sentence(fill.text, match.start())
        if plain in words_of_persons() or plain == str(fill.age) or (is_name and fill.fill_type != "explicit"):
            continue
        if word[0].isupper() and fill.fill_type == "implicit":  # a name at the beginning of a sentence
            continue
        kept.append(plain.removesuffix("s"))
    return tuple(kept)


def _begins_sentence(text: str, place: int) -> bool:
    before = text[:place].rstrip()
    return not before or before[-1] in '.!?:"“'
