"""Scree: how much of the differences of the concept's pairs one direction explains, against random pairs."""

from __future__ import annotations

from evenhand.audit import Audit
from evenhand.report.charts.figure import Figure, drawn_rows, register_chart
from evenhand.report.charts.style import GREY, PALETTE, chart, nominal, number_axis

RANDOM = "random pairs"


@register_chart("scree", family="geometry")
def scree(audit: Audit, subject: str) -> Figure | None:
    """Draw the share of each principal direction of the pair differences."""
    row = next((row for row in drawn_rows(audit, subject, "scree") if "scree" in row.original.details), None)
    if row is None:
        return None
    found = row.original.details["scree"]
    own = f"{audit.concept} pairs"
    bars = [{"k": k, "share": share, "pairs": own} for k, share in enumerate(found["shares"], 1)]
    random = [
        {"k": k, "share": mean, "low": low, "high": high, "pairs": RANDOM}
        for k, (mean, low, high) in enumerate(
            zip(found["random"], found["random_low"], found["random_high"], strict=True), 1
        )
    ]
    x = {
        "field": "k",
        "type": "ordinal",
        "title": "principal direction of the pair differences",
        "axis": {"labelAngle": 0},
    }
    title = "share of the differences"
    share = number_axis("share", title, axis={"format": "%"})
    colour = nominal("pairs", {own: PALETTE[1], RANDOM: GREY})
    spec = chart(
        f"Share of the differences of {found['pairs']} {audit.concept} pairs by principal direction, against random "
        f"pairs",
        width=400,
        height=220,
        layer=[
            {
                "data": {"values": bars},
                "mark": {"type": "bar", "size": 18},
                "encoding": {"x": x, "y": share, "color": colour},
            },
            {
                "data": {"values": random},
                "mark": {"type": "rule", "color": GREY, "strokeWidth": 2, "aria": False},
                "encoding": {"x": x, "y": number_axis("low", title), "y2": {"field": "high"}},
            },
            {
                "data": {"values": random},
                "mark": {"type": "point", "filled": True, "shape": "diamond", "size": 60, "opacity": 1},
                "encoding": {"x": x, "y": share, "color": colour},
            },
        ],
    )
    table = tuple(
        (str(bar["k"]), f"{bar['share']:.1%}", f"{r['share']:.1%} [{r['low']:.1%}, {r['high']:.1%}]")
        for bar, r in zip(bars, random, strict=False)
    )
    caption = (
        "Bars: the concept's pairs; diamonds: as many pairs of random words, with the range of 95 % of the draws. A "
        "first bar far above its diamond: the pairs share one direction, which a method can remove. Bars near the "
        f"diamonds: there is no such direction. n = {found['pairs']} pairs, {found['draws']} draws, seed {audit.seed}."
    )
    columns = ("direction", own, f"{RANDOM} [95 %]")
    return Figure("Do the pairs share one direction?", spec, columns, table, caption)
