"""Movement of words under a method: arrows from the original vectors to the changed ones, on fixed axes."""

from __future__ import annotations

from evenhand.audit import Audit
from evenhand.report import numbers
from evenhand.report.charts.figure import Figure, drawn_rows, register_chart, sources
from evenhand.report.charts.style import (
    DISTINGUISHABLE,
    GREY,
    INK,
    PALETTE,
    chart,
    number_axis,
    panels,
    reference_line,
    shared_domain,
    uncrowded,
)

COUNT = 14  # words whose arrows are drawn


@register_chart("word-movement", family="geometry")
def word_movement(audit: Audit, subject: str) -> Figure | None:
    """Draw where a method moves the words that lie furthest along the original direction."""
    rows = [
        row for row in drawn_rows(audit, subject, "word-movement") if row.question.variant in row.info.by_construction
    ]
    row = next((row for row in rows if any("across" in item for item in row.original.items)), None)
    if row is None or len(row.cells) < 2:
        return None
    before = {str(item["word"]): item for item in row.original.items}
    ordered = sorted(before, key=lambda word: float(before[word]["value"]))
    words = ordered[: COUNT // 2] + ordered[max(COUNT // 2, len(ordered) - COUNT // 2) :]
    outer = [word for pair in zip(words, reversed(words), strict=True) for word in pair]  # the furthest first
    places = {word: (float(before[word]["value"]), float(before[word]["across"])) for word in dict.fromkeys(outer)}
    labelled = uncrowded(places)
    moves = [
        {
            "stage": stage,
            "word": word,
            "x": before[word]["value"],
            "y": before[word]["across"],
            "x2": after[word]["value"],
            "y2": after[word]["across"],
            "label": word if word in labelled else "",
        }
        for stage, cell in list(row.cells.items())[1:DISTINGUISHABLE]
        if cell.items
        for after in [{str(item["word"]): item for item in cell.items}]
        for word in words
        if word in after
    ]
    if not moves:
        return None
    stages = list(dict.fromkeys(str(move["stage"]) for move in moves))
    across = [float(move[key]) for move in moves for key in ("y", "y2")]
    along = [float(move[key]) for move in moves for key in ("x", "x2")]
    pole = row.original.positive
    titles = (f"cosine with the original direction ({pole} →)", "cosine across it")
    x = number_axis("x", titles[0], scale={"domain": shared_domain(along)})
    y = number_axis("y", titles[1], scale={"domain": shared_domain(across), "zero": False})
    ends = {"x": number_axis("x2", titles[0]), "y": number_axis("y2", titles[1])}
    layer = [
        reference_line("x", 0),
        {
            "mark": {"type": "rule", "color": GREY, "aria": False},
            "encoding": {"x": x, "y": y, "x2": {"field": "x2"}, "y2": {"field": "y2"}},
        },
        {
            "mark": {"type": "point", "filled": False, "color": INK, "size": 26, "aria": False},
            "encoding": {"x": x, "y": y},
        },
        {
            "mark": {
                "type": "point",
                "filled": True,
                "shape": "diamond",
                "color": PALETTE[1],
                "size": 50,
                "opacity": 1,
            },
            "encoding": {**ends, "tooltip": {"field": "word"}},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 5, "dy": -5, "fontSize": 10, "color": INK},
            "encoding": {"x": x, "y": y, "text": {"field": "label"}},
        },
    ]
    spec = chart(
        f"Movement of {len(words)} words under {len(stages)} methods, along the original direction and across it",
        data={"values": moves},
        **panels(layer, "stage", stages, width=250, height=260),
    )
    last = {stage: {str(item["word"]): float(item["value"]) for item in row.cells[stage].items} for stage in stages}
    table = tuple(
        (word, numbers.number(float(before[word]["value"])), *(numbers.number(last[s].get(word)) for s in stages))
        for word in words
    )
    caption = (
        "Circles: before; diamonds: after. A projection moves every word to the vertical line at 0 by construction, "
        f"which alone does not show that bias is gone. {len(words)} words, the furthest on both sides. "
        f"{sources(audit, row)}"
    )
    return Figure("How a method moves words", spec, ("word", "before", *stages), table, caption)
