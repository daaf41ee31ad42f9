"""One HTML file about two texts: findings, the regression with its scatter, and the same as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from evenhand.audit.significance import LEVEL
from evenhand.corpus.comparison import Comparison
from evenhand.files import write_text
from evenhand.measures import numbers
from evenhand.report.charts import Figure
from evenhand.report.charts.style import VegaSpec
from evenhand.report.charts.words import MOST, beta_scatter
from evenhand.report.html import draw, render
from evenhand.stats.multiplicity import holm, two_sided_p

MOVED = 25  # words in the table of those that moved most
SIMILAR = 0.9  # of the larger count: texts whose counts of group words are nearer compare
LEAST = 10  # occurrences in both texts that a word of that table has


def write_comparison(
    comparisons: Mapping[str, Comparison], path: Path, *, names: tuple[str, str], perplexity: str = ""
) -> Path:
    """Write the page, replacing an older one only when it is whole."""
    write_text(path, comparison_page(comparisons, names=names, perplexity=perplexity))
    return path


def comparison_page(comparisons: Mapping[str, Comparison], *, names: tuple[str, str], perplexity: str = "") -> str:
    """Return the page as text; each context is a section."""
    sections = [
        _section(name, comparison, names, number) for number, (name, comparison) in enumerate(comparisons.items())
    ]
    found = text_findings(comparisons, names)
    return render("comparison.html", sections=sections, names=names, perplexity=perplexity, findings=found)


def text_findings(comparisons: Mapping[str, Comparison], names: tuple[str, str]) -> list[str]:
    """Return what the comparisons show, in sentences whose wording the corrected tests decide.

    Every context is tested three times: whether the mean |bias| differs between the texts, and whether the slope beta
    differs from 0 and from 1. p-values are corrected by Holm's method over all of them.
    """
    pending: list[tuple[str, str, float]] = []
    for context, comparison in comparisons.items():
        means = [comparison.errors.get(name) for name in ("first_mu", "mu")]
        if means[0] is not None and means[1] is not None and math.hypot(means[0], means[1]) > 0:
            difference = comparison.value("mu") - comparison.value("first_mu")
            pending.append((context, "mu", two_sided_p(difference / math.hypot(means[0], means[1]))))
        error = comparison.errors.get("beta")
        if error:
            beta = comparison.value("beta")
            pending += [(context, "zero", two_sided_p(beta / error)), (context, "one", two_sided_p((beta - 1) / error))]
    corrected = holm([p for *_, p in pending])
    p_values = {(context, test): float(p) for (context, test, _), p in zip(pending, corrected, strict=True)}
    sentences = [text for comparison in list(comparisons.values())[:1] for text in _size_caution(comparison, names)]
    for context, comparison in comparisons.items():
        where = f" ({context} context)" if len(comparisons) > 1 else ""
        sentences += _mean_sentence(comparison, names, where, p_values.get((context, "mu")))
        slope = [p_values.get((context, test)) for test in ("zero", "one")]
        sentences += _slope_sentence(comparison, names, where, slope[0], slope[1])
    return sentences


def _size_caution(comparison: Comparison, names: tuple[str, str]) -> list[str]:
    """Return a warning if a text has many fewer words of a group than the other: chance makes its bias larger."""
    one, other = comparison.first.hits, comparison.second.hits
    unequal = [name for name in one if min(one[name], other[name]) < SIMILAR * max(one[name], other[name])]
    if not unequal:
        return []
    counts = "; ".join(f"{one[name]:,} and {other[name]:,} {name} words" for name in unequal)
    return [
        f"Compare means with care: {names[0]} and {names[1]} have {counts}, and a text with fewer has a larger mean "
        "|bias| by chance alone."
    ]


def _mean_sentence(comparison: Comparison, names: tuple[str, str], where: str, p: float | None) -> list[str]:
    values = f"mean |bias| {comparison.text('first_mu')} in {names[0]}, {comparison.text('mu')} in {names[1]}{where}"
    if p is None:
        return [f"Not tested, because a text has fewer than two documents: {values}."]
    if p >= LEVEL:
        return [f"The texts do not differ significantly in mean bias: {values}, {numbers.format_p(p)}."]
    word = "less" if comparison.value("mu") < comparison.value("first_mu") else "more"
    return [f"{names[1]} is {word} biased than {names[0]}: {values}, {numbers.format_p(p)}."]


def _slope_sentence(
    comparison: Comparison, names: tuple[str, str], where: str, zero: float | None, one: float | None
) -> list[str]:
    if zero is None or one is None:
        return []
    value = f"beta {comparison.text('beta')}{where}"
    if zero >= LEVEL:
        return [f"No sure relation between the biases of words in the two texts: {value}, {numbers.format_p(zero)}."]
    if comparison.value("beta") < 0:
        return [f"Words lean to the other side in {names[1]}: {value}, {numbers.format_p(zero)}."]
    if one >= LEVEL:
        return [f"Words are about as biased in {names[1]} as in {names[0]}: {value}; it does not surely differ from 1."]
    word = "less" if comparison.value("beta") < 1 else "more"
    return [
        f"Words lean the same way in {names[1]} as in {names[0]}, but {word} far: {value}, between 0 and 1."
        if word == "less"
        else f"{names[1]} amplifies the bias of {names[0]}: {value}, above 1."
    ]


def _section(name: str, comparison: Comparison, names: tuple[str, str], number: int) -> dict[str, object]:
    params = comparison.second.params
    reach = f"decay {params['decay']}" if params["decay"] else f"window of {params['window']} words"
    return {
        "title": f"{name.capitalize()} context ({reach})",
        "figure": draw(regression_figure(comparison, names), number),
        "table": _numbers(comparison),
    }


def regression_figure(comparison: Comparison, names: tuple[str, str]) -> Figure:
    """Return the scatter of the words with the regression, and the words that moved most as its table."""
    spec = bias_scatter(comparison, names)
    drawn = min(MOST, comparison.beta.words)
    caption = (
        f"A dot is a word; above 0 it co-occurs more with {comparison.second.positive}. On the dashed line, words are "
        f"as biased in both texts; a flatter regression line: less biased in {names[1]}. n = {comparison.beta.words:,} "
        f"words in both texts, {drawn:,} drawn, seed {comparison.second.seed}. The table has the "
        f"words that moved most, of those that occur {LEAST} times in both texts."
    )
    moved = comparison.moved(MOVED, min_occurrences=LEAST)
    table = tuple(
        (p["word"], f"{p['first']:+z.2f}", f"{p['second']:+z.2f}", f"{p['second'] - p['first']:+z.2f}") for p in moved
    )
    return Figure(
        "Words in one text against the other", spec, ("word", *names, "change"), table, caption, id="beta-regression"
    )


def bias_scatter(comparison: Comparison, names: tuple[str, str] = ("first", "second")) -> VegaSpec:
    """Draw the words scored in both texts with the regression line and the diagonal."""
    beta = comparison.beta
    return beta_scatter(
        comparison.points(), (beta.trimmed, beta.intercept), names, comparison.second.positive, words=beta.words
    )


def _numbers(comparison: Comparison) -> list[tuple[str, str, str]]:
    one, other, beta = comparison.first, comparison.second, comparison.beta
    bases = [f"{b.baseline.mu:z.3f}" if b.baseline else "" for b in (one, other)]
    rows: list[tuple[str, str, str]] = [
        ("tokens", f"{one.tokens:,}", f"{other.tokens:,}"),
        *((f"{group} words", f"{one.hits[group]:,}", f"{other.hits[group]:,}") for group in one.hits),
        ("words scored", f"{one.n:,}", f"{other.n:,}"),
        ("mean |bias|", comparison.text("first_mu"), comparison.text("mu")),
        ("... with shuffled labels", bases[0], bases[1]),
        ("standard deviation", comparison.text("first_sigma"), comparison.text("sigma")),
        ("... corrected for noise", comparison.corrected_text("first_sigma"), comparison.corrected_text("sigma")),
        ("beta", "", comparison.text("beta")),
        ("... corrected for noise", "", comparison.corrected_text("beta")),
        ("... with outliers", "", f"{beta.untrimmed:z.3f}"),
        ("... Theil-Sen", "", f"{beta.theil_sen:z.3f}"),
    ]
    return [row for row in rows if any(row[1:])]
