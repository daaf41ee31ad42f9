"""Words on the axis of a concept before and after a method."""

from __future__ import annotations

import numpy as np

from evenhand.errors import VocabularyError
from evenhand.web.explore.dot_plot import dot_plot
from evenhand.web.explore.vector_form import BeforeAfter, vector_example
from evenhand.web.fields import FormFields
from evenhand.web.offered import OfferedSubjects

OCCUPATIONS = (
    "nurse librarian dancer teacher receptionist doctor lawyer journalist chef professor programmer scientist pilot "
    "mechanic engineer carpenter"
)


def example(offered: OfferedSubjects, fields: FormFields) -> dict[str, str]:
    """Return occupations."""
    return vector_example(offered) | {"words": OCCUPATIONS}


def answer(offered: OfferedSubjects, fields: FormFields) -> dict[str, object]:
    """Return the position of each word, as a plot and as a table."""
    chosen = BeforeAfter.chosen(offered, fields)
    asked = fields.words("words") or offered.ends(chosen.subject, chosen.concept)
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
