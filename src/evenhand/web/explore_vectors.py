"""Explore pages about word vectors: words on an axis, neighbours, and WEAT with the reader's own words.

Each shows the vectors before and after a method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from markupsafe import Markup

from evenhand import words
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures import Measurement
from evenhand.measures.association.weat import weat
from evenhand.models.vectors import Vectors
from evenhand.report.charts.directions import WordPlace, words_on_axis
from evenhand.report.html import picture
from evenhand.subspaces import Subspace
from evenhand.web.forms import FormFields
from evenhand.web.subjects import (
    DEFAULT_CONCEPT,
    DEFAULT_METHOD,
    NO_METHOD,
    ServedSubjects,
    concept_choices,
    method_choices,
)
from evenhand.words import Query


def vector_example(served: ServedSubjects, view: str = "vectors") -> dict[str, str]:
    """Return the default choices."""
    return {"subject": next(iter(served.offering(view)), ""), "concept": DEFAULT_CONCEPT, "method": DEFAULT_METHOD}


@dataclass(frozen=True)
class BeforeAfter:
    """The chosen vectors before and after the chosen method, and the concept's direction learned in each of them."""

    subject: str
    concept: str
    method: str
    before: Vectors
    after: Vectors | None
    """None where no method was chosen."""
    axis: Subspace
    axis_after: Subspace | None
    """None where no method was chosen, and where the concept has no direction after it."""
    no_axis: str
    """Why the direction cannot be learned again."""

    @classmethod
    def chosen(cls, served: ServedSubjects, fields: FormFields) -> BeforeAfter:
        """Read the choices, and fit the method unless it is fitted."""
        example = vector_example(served)
        subject = fields.choice("subject", served.offering("vectors"), example["subject"])
        concept = fields.choice("concept", concept_choices(), example["concept"])
        method = fields.choice("method", method_choices(), example["method"])
        axis, again, problem = served.axis(subject, concept), None, ""
        after = None if method == NO_METHOD else served.changed(subject, concept, method)
        if after is not None:
            try:
                again = served.axis(subject, concept, method)
            except DegenerateError as error:  # a method may make the words equal that the direction is learned from
                problem = error.message
        return cls(subject, concept, method, served.vectors(subject), after, axis, again, problem)

    @property
    def poles(self) -> tuple[str, str]:
        """Names of the positive and of the negative end of the axis."""
        about = words.concept(self.concept)
        others = [name for name in about.groups if name != about.positive]
        positive, negative = self.axis.poles if any(self.axis.poles) else (about.positive, "")
        return positive, negative if negative not in ("", "rest") else (
            others[0] if len(others) == 1 else "other groups"
        )

    def positions(self, rows: list[int]) -> list[float]:
        """Return the cosine of words with the axis, before the method."""
        values: list[float] = (self.before.unit[rows] @ self.axis.basis[0]).tolist()
        return values

    def positions_after(self, rows: list[int]) -> list[float] | None:
        """Return the cosine of words with the axis that the changed vectors have; None where they have none."""
        if self.after is None or self.axis_after is None:
            return None
        values: list[float] = (self.after.unit[rows] @ self.axis_after.basis[0]).tolist()
        return values


FEWEST = 5  # words whose positions are correlated
OCCUPATIONS = (
    "nurse librarian dancer teacher receptionist doctor lawyer journalist chef professor programmer scientist pilot "
    "mechanic engineer carpenter"
)


def axis_example(served: ServedSubjects, fields: FormFields) -> dict[str, str]:
    """Return occupations."""
    return vector_example(served) | {"words": OCCUPATIONS}


def axis_answer(served: ServedSubjects, fields: FormFields) -> dict[str, object]:
    """Return the position of each word, as a plot and as a table."""
    chosen = BeforeAfter.chosen(served, fields)
    asked = fields.words("words") or served.ends(chosen.subject, chosen.concept)
    located, coverage = chosen.before.locate(asked)
    if not len(located):
        raise VocabularyError(f"{chosen.before.name} has none of these words", hint="check the spelling")
    before = np.array(chosen.positions(located.tolist()))
    order = np.argsort(-before, kind="stable")
    rows, before = located[order], before[order].tolist()
    after = chosen.positions_after(rows.tolist())
    names = [chosen.before.words[row] for row in rows.tolist()]
    return {
        "chosen": chosen,
        "picture": _picture(names, {"original": before} | ({chosen.method: after} if after else {}), chosen.poles),
        "table": [(name, before[place], after[place] if after else None) for place, name in enumerate(names)],
        "missing": coverage.missing,
        "spread": (float(np.std(before)), float(np.std(after)) if after else None),
        "agreement": _agreement(before, after or []),
    }


def _agreement(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return the correlation of the positions before and after; None for few words, or words at one place."""
    if len(after) < FEWEST or not np.std(before) or not np.std(after):
        return None
    return float(np.corrcoef(before, after)[0, 1])


def neighbours_example(served: ServedSubjects, fields: FormFields) -> dict[str, str]:
    """Return an occupation."""
    return vector_example(served) | {"word": "nurse", "count": "12"}


def neighbours_answer(served: ServedSubjects, fields: FormFields) -> dict[str, object]:
    """Return the neighbours on both sides, with their position on the axis before the method."""
    chosen = BeforeAfter.chosen(served, fields)
    asked = fields.text("word", most=fields.limits.word)
    if not asked:
        raise UsageError("name a word", hint="type one of the vocabulary")
    word = chosen.before.find(asked)
    if word is None:
        raise VocabularyError(f"{asked!r} is not in {chosen.before.name}", hint="check the spelling")
    count = fields.number("count", 12, least=1, most=min(fields.limits.neighbours, len(chosen.before) - 1))
    before = _neighbours(chosen, chosen.before, word, count)
    after = _neighbours(chosen, chosen.after, word, count) if chosen.after is not None else []
    shared = {line[0] for line in before} & {line[0] for line in after}
    row = [chosen.before.index[word]]
    return {
        "chosen": chosen,
        "word": word,
        "before": before,
        "after": after,
        "shared": shared,
        "position": (chosen.positions(row)[0], next(iter(chosen.positions_after(row) or ()), None)),
    }


def _neighbours(chosen: BeforeAfter, vectors: Vectors, word: str, count: int) -> list[tuple[str, float, float]]:
    near = vectors.most_similar(word, k=count)
    positions = chosen.positions([chosen.before.index[name] for name, _ in near])
    return [(name, cosine, position) for (name, cosine), position in zip(near, positions, strict=True)]


SETS = {"x": "first target", "y": "second target", "a": "first attribute", "b": "second attribute"}
DEFAULT = "weat-6"
LEAST = 2  # words of a target set: with one the effect size is always 2 or -2


@cache
def query_choices() -> dict[str, str]:
    """Return the shipped queries that WEAT can ask."""
    fitting = {id: words.query(id) for id in words.ids("query")}
    return {
        id: f"{id}: {' / '.join(group.name for group in query.targets)} with "
        f"{' / '.join(group.name for group in query.attributes)}"
        for id, query in fitting.items()
        if query.arity == (2, 2)
    }


def association_example(served: ServedSubjects, fields: FormFields) -> dict[str, str]:
    """Return the sets of the query that was chosen, or of careers and families."""
    query = words.query(fields.choice("query", query_choices(), DEFAULT))
    sets = dict(zip(SETS, (*query.targets, *query.attributes), strict=True))
    names = {f"{id}_name": group.name for id, group in sets.items()}
    return vector_example(served) | names | {id: " ".join(group) for id, group in sets.items()} | {"query": DEFAULT}


def association_answer(served: ServedSubjects, fields: FormFields) -> dict[str, object]:
    """Return effect size and p-value on both sides, and the association of each target word."""
    chosen = BeforeAfter.chosen(served, fields)
    query = _query(fields)
    before = weat(chosen.before, query)
    after = weat(chosen.after, query, reference=chosen.before) if chosen.after is not None else None
    stages = [(name, m) for name, m in (("original", before), (chosen.method, after)) if m is not None]
    return {
        "chosen": chosen,
        "query": query,
        "stages": stages,
        "picture": _association_picture(query, dict(stages)),
        "missing": before.coverage.missing,
    }


def _query(fields: FormFields) -> Query:
    sets: dict[str, tuple[str, list[str]]] = {}
    for id, what in SETS.items():
        name = fields.text(f"{id}_name", most=fields.limits.word) or what
        members = fields.words(id)
        if len(members) < (LEAST if id in "xy" else 1):
            raise UsageError(
                f"the {what} set ({name}) has too few words", hint="give at least two words for each target"
            )
        sets[id] = (name, members)
    for one, other in (("x", "y"), ("a", "b")):
        if sets[one][0] == sets[other][0]:
            raise UsageError(f"two sets are called {sets[one][0]!r}", hint="give them different names")
    return Query("your sets", targets=dict([sets["x"], sets["y"]]), attributes=dict([sets["a"], sets["b"]]))


def _association_picture(query: Query, stages: Mapping[str, Measurement]) -> tuple[Markup, str] | None:
    """Draw the association of each target word, sorted; None where it is undefined, and no stage without a value."""
    before, *_ = stages.values()
    if before.value is None:
        return None
    items = sorted(before.items, key=lambda item: -float(item["value"]))
    places = [(item["word"], item.get("set")) for item in items]
    values = {}
    for stage, measurement in stages.items():
        found = {(item["word"], item.get("set")): float(item["value"]) for item in measurement.items}
        if all(place in found for place in places):
            values[stage] = [found[place] for place in places]
    poles = (query.attributes[0].name, query.attributes[1].name)
    return _picture([str(item["word"]) for item in items], values, poles, unit="difference of mean cosines")


def _picture(
    words: Sequence[str], stages: Mapping[str, Sequence[float]], poles: tuple[str, str], unit: str = "cosine"
) -> tuple[Markup, str]:
    """Draw a dot for each word and stage between two poles, the positive one on the right; return it with its text."""
    positive, negative = poles
    values: list[WordPlace] = [
        {"word": word, "stage": stage, "value": value}
        for stage, some in stages.items()
        for word, value in zip(words, some, strict=True)
    ]
    description = f"Position of {len(words)} words between {negative} and {positive}: {', '.join(stages)}"
    axis = f"← {negative}   |   {positive} →   ({unit})"
    return picture(words_on_axis(values, description, axis=axis, words=words, stages=list(stages))), description
