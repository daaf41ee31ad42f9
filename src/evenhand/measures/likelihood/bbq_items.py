"""The items of BBQ, and of the sets made after it: KoBBQ (Korean) and MBBQ (four languages, with control sets)."""

from __future__ import annotations

import ast
import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from evenhand.errors import FormatError, InputMissingError, UsageError, unknown_name
from evenhand.files import read_utf8
from evenhand.measures.likelihood.scoring import data_folder, draw_sample, parse_json, read_json_lines, read_table
from evenhand.words import Concept

DATASET = "bbq"
KOREAN, MULTILINGUAL = "kobbq", "mbbq"
ALL = "all"
OF_CONCEPT = {
    "age": "Age",
    "gender": "Gender_identity",
    "nationality": "Nationality",
    "race": "Race_ethnicity",
    "religion": "Religion",
    "age-terms": "Age",
    "disability": "Disability_status",
    "ethnicity": "Race_ethnicity",
    "gender-diverse": "Gender_identity",
    "religion-adherents": "Religion",
    "sexual-orientation": "Sexual_orientation",
    "socioeconomic": "SES",
    **dict.fromkeys(("gender x race", "race x gender", "gender x ethnicity", "ethnicity x gender"), "Race_x_gender"),
    **dict.fromkeys(("race x socioeconomic", "socioeconomic x race"), "Race_x_SES"),
    **dict.fromkeys(("ethnicity x socioeconomic", "socioeconomic x ethnicity"), "Race_x_SES"),
}

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
        label_type: "label" where people are named by their group, "name" where by a proper name; in KoBBQ how the
            item was made: "ST" transferred, "TM" with modified targets, "NC" newly created.
        language: code of the language.
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
    language: str = "en"

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


def _categories(category: str, concept: Concept) -> tuple[str, ...]:
    if category == ALL:
        return CATEGORIES
    about = concept.name.removesuffix(f"-{concept.language}")  # gender-es
    if not category and about not in OF_CONCEPT:
        raise UsageError(f"BBQ has no category for {concept.name!r}", hint=f"name one: {', '.join(CATEGORIES)}, all")
    return (category or OF_CONCEPT[about],)


def draw_items(
    dataset: str | Path,
    category: str,
    concept: Concept,
    sample: int | None,
    seed: int,
    *,
    language: str = "",
    control: bool = False,
) -> list[BBQItem]:
    """Return the items that are asked: a template is drawn with both contexts and polarities before any of them twice.

    Args:
        dataset: `bbq`, `kobbq` or `mbbq`, or the folder of one of them.
        category: a category of BBQ, or `all`; that of the concept if it is empty.
        concept: decides the category.
        sample: how many items are drawn; None or 0 for all.
        seed: seed of the draw.
        language: of MBBQ, or `all`; that of the concept if it is empty.
        control: whether the control set of MBBQ is meant.
    """
    folder = _folder(dataset)
    names = _categories(category, concept)
    if kind_of(folder) == KOREAN:
        items = read_kobbq(folder, names)
    elif kind_of(folder) == MULTILINGUAL:
        items = read_mbbq(folder, names, _languages(language, concept), control=control)
    else:
        items = read_bbq(folder, names)
    strata = [(item.cluster, item.condition, item.polarity) for item in items]
    return _whole_templates(items, strata, sample, seed)


def draw_with_control(
    dataset: str | Path, category: str, concept: Concept, sample: int | None, seed: int, *, language: str = ""
) -> tuple[list[BBQItem], list[BBQItem]]:
    """Return the items that are asked, and those of the control set, which MBBQ alone has; see `draw_items`."""
    asked = draw_items(dataset, category, concept, sample, seed, language=language)
    if not has_control(dataset):
        return asked, []
    return asked, draw_items(dataset, category, concept, sample, seed, language=language, control=True)


def _whole_templates(
    items: Sequence[BBQItem], strata: Sequence[tuple[str, str, str]], sample: int | None, seed: int
) -> list[BBQItem]:
    """Return a sample with all four kinds of item of each drawn template, as far as the size allows."""
    if not sample or sample >= len(items):
        return list(items)
    clusters = list(dict.fromkeys(item.cluster for item in items))
    kinds = len(set(strata)) // len(clusters)
    count = max(1, min(len(clusters), sample // kinds))
    kept = set(np.random.default_rng(seed).permutation(clusters)[:count].tolist())
    rows = [row for row, item in enumerate(items) if item.cluster in kept]
    return draw_sample([items[row] for row in rows], [strata[row] for row in rows], sample, seed=seed)


# KoBBQ and MBBQ -----------------------------------------------------------------------------------------------------

KOBBQ_FILE = "KoBBQ_test_samples.tsv"
KOBBQ_COLUMNS = ("sample_id", "label_annotation", "context", "question", "choices", "biased_answer", "answer")
KOBBQ_CATEGORIES = {"Race_ethnicity": "race_ethnicity_nationality", "Nationality": "race_ethnicity_nationality"}
KOBBQ_UNKNOWN = "알 수 없음"
MBBQ_LANGUAGES = ("en", "es", "nl", "tr")
# The groups of MBBQ are named in the language of the file, the stereotyped ones by letters.
SEXES = {
    "F": frozenset({"F", "woman", "girl", "mujer", "chica", "vrouw", "meisje", "kadın", "kız"}),
    "M": frozenset({"M", "man", "boy", "hombre", "chico", "jongen", "adam", "erkek çocuk"}),
}


def _folder(dataset: str | Path) -> Path:
    name = str(dataset)
    return data_folder(name if name in (DATASET, KOREAN, MULTILINGUAL) else DATASET, dataset)


def kind_of(folder: Path) -> str:
    """Return which of the three sets a folder holds, by its files."""
    if _stored(folder, KOBBQ_FILE):
        return KOREAN
    return MULTILINGUAL if any(folder.glob("*_control_*.jsonl*")) else DATASET


def set_name(dataset: str | Path) -> str:
    """Return which set an id or folder means."""
    return kind_of(_folder(dataset))


def has_control(dataset: str | Path) -> bool:
    """Return whether a data set has control questions: MBBQ does."""
    return set_name(dataset) == MULTILINGUAL


def _stored(folder: Path, name: str) -> Path | None:
    """Return a file of a folder, compressed or not; None if there is none."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _languages(language: str, concept: Concept) -> tuple[str, ...]:
    if language == ALL:
        return MBBQ_LANGUAGES
    chosen = language or (concept.language if concept.language in MBBQ_LANGUAGES else MBBQ_LANGUAGES[0])
    if chosen not in MBBQ_LANGUAGES:
        raise unknown_name("language of MBBQ", chosen, (*MBBQ_LANGUAGES, ALL))
    return (chosen,)


def read_kobbq(folder: str | Path, categories: tuple[str, ...] = CATEGORIES) -> tuple[BBQItem, ...]:
    """Read the test samples of KoBBQ of some categories; `CATEGORIES` stands for all of them, also those BBQ lacks.

    The two versions of a template (001a, 001b) are one cluster. `bsd` asks for the biased person, `cnt` for the other.
    """
    path = _stored(Path(folder), KOBBQ_FILE)
    if path is None:
        raise InputMissingError(f"{folder} has no {KOBBQ_FILE}", hint="name the folder of KoBBQ")
    rows = list(csv.DictReader(read_utf8(path).splitlines(keepends=True), delimiter="\t"))
    if not rows or (missing := [name for name in KOBBQ_COLUMNS if name not in rows[0]]):
        raise FormatError(f"{path} has no column {missing[0]!r}" if rows else f"{path} has no row")
    wanted = None if categories == CATEGORIES else {KOBBQ_CATEGORIES.get(name, name.lower()) for name in categories}
    found = [_kobbq_item(row, f"{path}, row {number}", number) for number, row in enumerate(rows, start=2)]
    items = tuple(item for item in found if wanted is None or item.category in wanted)
    if not items:
        raise UsageError(f"KoBBQ has no items of {', '.join(categories)}", hint="name another category, or all")
    return items


def _kobbq_item(row: dict[str, str], where: str, number: int) -> BBQItem:
    try:
        category, template, _, condition, polarity = row["sample_id"].rsplit("-", 4)
        first, second, third = map(str, ast.literal_eval(row["choices"]))
        answers = (first, second, third)
        unknown, label = answers.index(KOBBQ_UNKNOWN), answers.index(row["answer"])
        target = answers.index(row["biased_answer"])
        if condition not in ("amb", "dis"):
            raise ValueError(row["sample_id"])
    except (ValueError, SyntaxError, AttributeError, TypeError) as error:
        raise FormatError(f"{where} is not an item of KoBBQ: {error!r}") from error
    return BBQItem(
        category, template.rstrip("abcdefgh"), number, "ambig" if condition == "amb" else "disambig", polarity,
        row["context"].strip(), row["question"].strip(), answers, label, unknown, target,
        row["label_annotation"], "ko",
    )  # fmt: skip


def read_mbbq(
    folder: str | Path, categories: tuple[str, ...], languages: tuple[str, ...], *, control: bool = False
) -> tuple[BBQItem, ...]:
    """Read MBBQ: the categories that the folder has, in some languages, or their control sets with names for people.

    The biased answer follows from the stereotyped groups; items whose people are both of them, or neither, have none.
    """
    known = "_control" if control else ""
    items: list[BBQItem] = []
    for category in categories:
        for code in languages:
            path = _stored(Path(folder), f"{category}{known}_{code}.jsonl")
            if path is None:
                continue
            lines = [line for line in read_utf8(path).split("\n") if line.strip()]
            for number, line in enumerate(lines, start=1):
                where = f"{path}, line {number}"
                items.append(_mbbq_item(parse_json(line, where), where, code, number))
    if not items:
        raise UsageError(
            f"MBBQ in {folder} has no items of {', '.join(categories)} in {', '.join(languages)}",
            hint="name another category (Disability_status, Gender_identity, Sexual_orientation), or all",
        )
    return tuple(items)


def _mbbq_item(row: dict[str, object], where: str, code: str, number: int) -> BBQItem:
    item = bbq_item(row, {}, where)
    try:
        groups = [str(row["answer_info"][f"ans{place}"][-1]) for place in range(3)]  # type: ignore[index]
        blamed = [str(group) for group in row["additional_metadata"]["stereotyped_groups"]]  # type: ignore[index]
    except (KeyError, TypeError, IndexError) as error:
        raise FormatError(f"{where} is not an item of MBBQ: {error!r}") from error
    people = [place for place in range(3) if place != item.unknown]
    stereotyped = [p for p in people if groups[p] in blamed or any(groups[p] in SEXES.get(b, ()) for b in blamed)]
    target: int | None = None
    if len(stereotyped) == 1:
        (other,) = (place for place in people if place != stereotyped[0])
        target = stereotyped[0] if item.polarity == "neg" else other
    return replace(item, example=number, target=target, label_type="label", language=code)
