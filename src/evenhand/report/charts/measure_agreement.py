"""Agreement between measures: do they call the same words biased?"""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Vector64
from evenhand.audit import Audit
from evenhand.audit.record import Row, rows
from evenhand.audit.tradeoff import mean_ranks
from evenhand.report.charts.figure import Figure, register_chart
from evenhand.report.charts.style import PALETTE, chart, number_axis

SHARED = 20  # words that two measures must have in common
# Measures whose items are words with a signed score.
BY_WORD = ("direct-bias", "ripa", "same", "neighbours", "occupation-share", "nli-gap", "pronoun-share")
ON_CELLS = ("#fffffe", "#2b2b2c")  # text on a coloured cell, which keeps its colour on a dark page


@register_chart("measure-agreement", measures=BY_WORD, place="details")
def measure_agreement(audit: Audit, subject: str) -> Figure | None:
    """Draw the rank correlation of the word scores of every two measures, before any method."""
    scored = {row.label: _scores(row) for row in rows(audit, subject) if row.question.measure in BY_WORD}
    labels = [label for label, scores in scored.items() if len(scores) >= SHARED and len(set(scores.values())) > 2]
    labels = [label for label in labels if not label.endswith((":old-direction", ":spearman", ":slope"))]
    cells = []
    for one in labels:
        for other in labels:
            shared = [word for word in scored[one] if word in scored[other]]
            if len(shared) >= SHARED:
                rho = _correlation(*(np.array([scored[name][word] for word in shared]) for name in (one, other)))
                cells.append({"one": one, "other": other, "rho": round(rho, 3), "n": len(shared)})
    compared = [cell for cell in cells if cell["one"] != cell["other"]]
    if len(compared) < 2:
        return None
    used = [label for label in labels if any(cell["one"] == label for cell in compared)]
    cells = [cell for cell in cells if cell["one"] in used]
    place = {
        "x": {"field": "one", "type": "nominal", "title": None, "sort": used, "axis": {"labelAngle": -35}},
        "y": {"field": "other", "type": "nominal", "title": None, "sort": used},
    }
    scale = {"domain": [-1, 0, 1], "range": [PALETTE[2], "#f7f5f0", PALETTE[1]]}
    spec = chart(
        f"Rank correlation between the word scores of {len(used)} measures",
        data={"values": cells},
        width={"step": 52},
        height={"step": 30},
        layer=[
            {
                "mark": {"type": "rect"},
                "encoding": {
                    **place,
                    "color": number_axis("rho", "rank correlation", scale=scale, legend={"gradientLength": 150}),
                },
            },
            {
                "mark": {"type": "text", "aria": False},
                "encoding": {
                    **place,
                    "text": {"field": "rho", "format": ".2f"},
                    "color": {
                        "condition": {"test": "abs(datum.rho) > 0.6", "value": ON_CELLS[0]},
                        "value": ON_CELLS[1],
                    },
                },
            },
        ],
    )
    index = {label: number for number, label in enumerate(used)}
    once = [cell for cell in compared if index[str(cell["one"])] < index[str(cell["other"])]]
    table = tuple((str(c["one"]), str(c["other"]), f"{c['rho']:.2f}", str(c["n"])) for c in once)
    caption = (
        "1: two measures order the words alike; 0: their orders are unrelated, so that one cannot stand for the other; "
        "below 0: opposite. Before any method, over the words that two measures share (n in the table); blank: fewer "
        f"than {SHARED}. Seed {audit.seed}."
    )
    return Figure("Do the measures agree?", spec, ("measure", "measure", "rank correlation", "words"), table, caption)


def _scores(row: Row) -> dict[str, float]:
    column = "neighbours" if row.question.measure == "neighbours" else "value"
    items = (item for item in row.original.items if "word" in item and item.get(column) is not None)
    return {str(item["word"]).lower(): float(item[column]) for item in items}


def _correlation(one: Vector64, other: Vector64) -> float:
    ranks = (mean_ranks(one), mean_ranks(other))
    if any(np.ptp(rank) == 0 for rank in ranks):
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])
