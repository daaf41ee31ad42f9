"""One HTML file about a pair of texts: where in a network the difference between their scores comes from."""

from __future__ import annotations

from pathlib import Path

from evenhand.files import write_text
from evenhand.models.attribution.pairs import PairAttribution
from evenhand.report.charts.attribution import gradient_figure, patching_figure
from evenhand.report.html import draw, render

FEWEST = 2  # sites: the word table and one layer


def write_attribution(result: PairAttribution, path: Path) -> Path:
    """Write the page, replacing an older one only when it is whole."""
    write_text(path, attribution_page(result))
    return path


def attribution_page(result: PairAttribution) -> str:
    """Return the page as text."""
    figures = [draw(figure) for figure in (patching_figure(result), gradient_figure(result))]
    return render("attribution.html", result=result, sentences=attribution_findings(result), figures=figures)


def attribution_findings(result: PairAttribution) -> list[str]:
    """Return what the attribution of one pair shows, in sentences."""
    what = f"{result.kind} of {result.label}" if result.label else result.kind
    verb = "are" if result.kind == "log-odds" else "is"
    found = [
        f"The {what} {verb} {result.scores[0]:.3f} for the first text and {result.scores[1]:.3f} for the second: a "
        f"difference of {result.difference:+.3f}."
    ]
    shares = result.shares
    if shares is None:
        return [*found, "The difference is rounding, so there is nothing to attribute."]
    carried = result.carried / result.difference
    left = next((site for site, share in zip(result.sites, carried, strict=True) if share < 0.5), "")
    if left:
        found.append(
            f"The tokens that differ carry less than half of it from {left} on: by then other tokens have read them."
        )
    else:
        found.append("The tokens that differ carry at least half of it up to the last layer.")
    # What decides is read from one token of the last layer, unless tokens are scored: there the effect is all of it.
    inner = shares[1:] if result.kind == "log-probability" or len(shares) == FEWEST else shares[1:-1]
    row, place = divmod(int(abs(inner).argmax()), inner.shape[1])
    found.append(
        f"The largest single effect inside the network is {inner[row, place]:.0%} of it, at {result.sites[row + 1]} of "
        f"“{result.units[place].name}”."
    )
    return found
