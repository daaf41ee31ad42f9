"""Words on the axis of a concept before and after a method."""

from __future__ import annotations

import numpy as np

from evenhand import words
from evenhand.errors import VocabularyError
from evenhand.web.explore.dot_plot import dot_plot
from evenhand.web.explore.vector_form import BeforeAfter, vector_example
from evenhand.web.fields import FormFields
from evenhand.web.offered import OfferedSubjects

OCCUPATIONS = (
    "nurse librarian dancer teacher receptionist doctor lawyer journalist chef professor programmer scientist pilot "
    "mechanic engineer carpenter"
)
AT_EACH_END = 10  # words shown where the list is empty
FREQUENT = 20_000  # rows among which they are chosen: rare words are at the ends by noise


def example(offered: OfferedSubjects, fields: FormFields) -> dict[str, str]:
    """Return occupations."""
    return vector_example(offered) | {"words": OCCUPATIONS}


def answer(offered: OfferedSubjects, fields: FormFields) -> dict[str, object]:
    """Return the position of each word, as a plot and as a table."""
    chosen = BeforeAfter.chosen(offered, fields)
    asked = fields.words("words") or _extreme_words(chosen)
    located, coverage = chosen.before.locate(asked)
    if not len(located):
        raise VocabularyError(f"{chosen.before.name} has none of these words", hint="check the spelling")
    before = np.array(chosen.positions(chosen.before, located.tolist()))
    order = np.argsort(-before, kind="stable")
    rows, before = located[order], before[order].tolist()
    after = chosen.positions(chosen.after, rows.tolist()) if chosen.after is not None else None
    names = [chosen.before.words[row] for row in rows.tolist()]
    return {
        "chosen": chosen,
        "plot": dot_plot(names, before, after, poles=chosen.poles),
        "table": [(name, before[place], after[place] if after else None) for place, name in enumerate(names)],
        "missing": coverage.missing,
        "spread": (float(np.abs(before).mean()), float(np.abs(after).mean()) if after else None),
    }


def _extreme_words(chosen: BeforeAfter) -> list[str]:
    """Return the frequent words furthest to either end, without those that are about the concept by meaning."""
    concept, vectors = words.concept(chosen.concept), chosen.before
    about = {word for group in (*concept.groups.values(), *concept.names.values(), concept.specific) for word in group}
    rows = [
        row for row, word in enumerate(vectors.words[:FREQUENT]) if word.isalpha() and not vectors_match(word, about)
    ]
    values = vectors.unit[rows] @ chosen.axis.basis[0]
    order = np.argsort(values, kind="stable")
    ends = [*order[:AT_EACH_END], *order[-AT_EACH_END:]]
    return [vectors.words[rows[place]] for place in dict.fromkeys(int(end) for end in ends)]


def vectors_match(word: str, about: set[str]) -> bool:
    """Return whether a word is one of a list, in any case."""
    return word in about or word.lower() in about or word.title() in about
