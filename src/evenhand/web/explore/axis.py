"""Words on the axis of a concept before and after a method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.errors import VocabularyError
from evenhand.web.explore.dot_plot import dot_plot
from evenhand.web.explore.vector_form import BeforeAfter, vector_example
from evenhand.web.fields import FormFields
from evenhand.web.offered import OfferedSubjects

FEWEST = 5  # words whose positions are correlated
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
    before = np.array(chosen.positions(located.tolist()))
    order = np.argsort(-before, kind="stable")
    rows, before = located[order], before[order].tolist()
    after = chosen.positions_after(rows.tolist())
    names = [chosen.before.words[row] for row in rows.tolist()]
    return {
        "chosen": chosen,
        "plot": dot_plot(names, before, after, poles=chosen.poles),
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
