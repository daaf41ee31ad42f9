"""Corpus bias: which words occur with which group in a text (Bordia & Bowman 2019)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.corpus import Comparison, CorpusBias
from evenhand.corpus import bias as corpus_bias_scores
from evenhand.corpus.bias import LABELLINGS
from evenhand.corpus.readers.source import as_source
from evenhand.measures.call import Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.stats.multiplicity import holm
from evenhand.subjects.subject import TextView
from evenhand.words import Concept, as_concept

PAIRS_OF_PAPER = "bordia2019-cnn-dm"
TOP = 100  # words kept at each end
WIDE = "the jackknife interval of mu is wider than it needs to be: it covers 99 % of texts of this size in simulation"
POINTS = 400  # words of a comparison that are kept, drawn evenly
INFO = Info(
    id="corpus-bias",
    title="Corpus bias",
    takes="text",
    better="lower",
    formula="bias(w) = log [c(w,f) / sum c(.,f)] - log [c(w,m) / sum c(.,m)];  mu = mean |bias|,  sigma = sd of bias",
    reading=(
        "mu 0: every word occurs with both groups alike. Compare it with the baseline in the details, the same text "
        "with permuted group labels: small texts have a large mu by chance alone."
    ),
    limits=(
        "Counts nearness, not meaning: 'she is not a nurse' counts as 'she is a nurse'. It depends on the size of the "
        "text, so only texts of about the same size compare. Words of the groups are chosen by somebody."
    ),
    cites=("bordia2019",),
    queries=("words",),
    view="text",
    definition=3,
    plain=2,
    charts=("extreme-words", "beta-regression"),
    ticked=("text",),
)


@measure(INFO)
def corpus_bias(
    call: Call,
    view: TextView | str | Path,
    words: str = "words",
    *,
    concept: Concept | str = "gender",
    permutations: int = LABELLINGS,
    stop_words: str = "english",
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Mean absolute bias (mu) and standard deviation (sigma) over the words of a text.

    With more than two groups each is scored against all others together: the scores are `mu:GROUP` and `sigma:GROUP`,
    with p-values adjusted for all groups by Holm in the details.

    Args:
        view: a `text` view, a path, or a data frame with a column `text`.
        words: which words are scored; all of them.
        concept: whose groups are counted. For gender, the pairs of the paper.
        permutations: the most relabelled texts for the baseline of mu, fewer if p is clear before; 0 for none.
        stop_words: words that are not scored: `english`, `none` or a file.
        seed: seed of the relabelling.

    What it does not tell you: what the text says about anybody. See `evenhand show corpus-bias`.
    """
    named = Path(view).name if isinstance(view, str | Path) else "texts"
    text = view if isinstance(view, TextView) else TextView(named, as_source(view))
    concept = as_concept(concept)
    is_english = concept.language == "en"
    groups: dict[str, Any] = {"lists": PAIRS_OF_PAPER} if concept.name == "gender" else {"groups": concept}
    stops = stop_words if is_english else "none"
    counting = text.counting if is_english else {"tokenizer": f"language:{concept.language}", **text.counting}
    several = tuple(concept.groups) if len(concept.groups) > 2 else ("",)
    call.model = text.name
    call.describe(
        words, scores=[":".join(filter(None, (score, group))) for group in several for score in ("mu", "sigma")]
    )
    result = corpus_bias_scores(
        text.source, **groups, stop_words=stops, permutations=permutations, seed=seed, **counting
    )
    call.params |= {**result.params, **text.about}
    return _measurements(call, result) if len(result.groups) == 2 else _group_measurements(call, result)


def measurements(result: CorpusBias, *, model: str, seed: int) -> tuple[Measurement, ...]:
    """Return the measurements of a text that was scored already."""
    return _measurements(Call(INFO, model, dict(result.params), seed, query="words"), result)


def _group_measurements(call: Call, result: CorpusBias) -> tuple[Measurement, ...]:
    """Return the measurements of every group against the rest."""
    by_group = {group: result.for_group(group) for group in result.groups}
    tested = {group: one.baseline.p_value for group, one in by_group.items() if one.baseline}
    p_values = {group: p for group, p in tested.items() if p is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values())).tolist(), strict=True)) if p_values else {}
    return tuple(
        replace(
            measurement,
            score=f"{measurement.score}:{group}",
            details={**measurement.details, "group": group, "p_holm": adjusted.get(group)},
        )
        for group, one in by_group.items()
        for measurement in _measurements(call, one)
    )


def _measurements(call: Call, result: CorpusBias, *, prefix: str = "") -> tuple[Measurement, ...]:
    """Return the measurements of a scored text; `prefix` tells scores of several contexts apart."""
    base = result.baseline
    details: dict[str, object] = {"tokens": result.tokens, "hits": dict(result.hits), "notes": list(result.notes)}
    if base:
        details |= {"baseline_mu": base.mu, "baseline_interval": list(base.interval)}
        details |= {"baseline_labellings": base.permutations, "p_value_rule": base.rule}
        details |= {"p_value_labellings": base.decided_after, "p_value_reached": base.reached}
    items = [{"word": word, "value": score} for word, score in (*result.top(TOP), *result.top(-TOP))]
    ratio = math.exp(result.mu)
    near, far = ("one group", "the other") if len(result.groups) == 2 else (result.positive, "the other groups")
    reading = f"a word is {ratio:.2f} times as likely near {near} as near {far} (or the reverse), on average over words"
    mu = call.measurement(
        result.mu, len(result.scores), score=f"{prefix}mu", positive=result.positive, reading=reading,
        p_value=base.p_value if base else None, items=items, details=details,
    )  # fmt: skip
    sigma = call.measurement(
        result.sigma, len(result.scores), score=f"{prefix}sigma", positive=result.positive,
        reading="standard deviation of the signed scores", details=details,
    )  # fmt: skip
    return mu, sigma


def comparison_measurements(
    comparison: Comparison, *, model: str, seed: int, prefix: str = ""
) -> tuple[Measurement, ...]:
    """Return mu and sigma of the second text with their intervals, and the slope of its scores on the first text's."""
    call = Call(INFO, model, dict(comparison.second.params), seed, query="words")
    own = _measurements(call, comparison.second, prefix=prefix)
    with_intervals = tuple(
        replace(measurement, interval=comparison.interval(name), note=WIDE if name == "mu" else "")
        for measurement, name in zip(own, ("mu", "sigma"), strict=True)
    )
    corrected = {f"{name}_corrected_for_noise": found.to_dict() for name, found in comparison.corrected.items()}
    slope = call.measurement(
        comparison.value("beta"), comparison.beta.words, score=f"{prefix}beta",
        interval=comparison.interval("beta"), reading="slope of the scores on those of the first text",
        items=_points(comparison, POINTS), positive=comparison.second.positive,
        details={**corrected, "intercept": comparison.beta.intercept, "words": comparison.beta.words},
    )  # fmt: skip
    return (*with_intervals, slope)


def _points(comparison: Comparison, most: int) -> tuple[dict[str, object], ...]:
    """Return words scored in both texts: all, or as many drawn evenly, the same ones each time."""
    points = comparison.points()
    if len(points) > most:
        points = [points[row] for row in np.linspace(0, len(points) - 1, most).astype(int)]
    return tuple({"word": p["word"], "value": round(p["second"], 4), "first": round(p["first"], 4)} for p in points)
