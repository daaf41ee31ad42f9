"""Bias by site: at which layers of a language model the difference between two sentences of a pair can be moved."""

from __future__ import annotations

from typing import Literal, TypedDict

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError
from evenhand.measures.call import Call, measure
from evenhand.measures.likelihood.scoring import undefined_if_unscorable
from evenhand.measures.likelihood.stereotype_pairs import (
    CONCEPTS,
    DATA,
    PairSet,
    PairSource,
    StereotypePair,
    available,
    commonest_differences,
    require_pairs,
)
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.attribution.pairs import ALIGNMENT, SiteEffects, site_effects
from evenhand.models.encoders.sites import SiteKind
from evenhand.models.lm.likelihood import Likelihood
from evenhand.stats import clustered_interval, jackknife_interval
from evenhand.stats.bootstrap import Interval
from evenhand.stats.units import mean_units, null_p
from evenhand.words import Concept, as_concept, ids
from evenhand.words import template as find_template
from evenhand.words.document import SUFFIXES
from evenhand.words.persons import person_sentences, persons

TEMPLATE = "person-sentences"
SiteParts = Literal["layers", "all"]


class SiteItem(TypedDict):
    """What a measurement records of one site."""

    word: str
    value: float | None
    interval: list[float] | None
    effect: float | None
    pairs: int


INFO = Info(
    id="bias-by-site",
    title="Bias by site",
    takes="dataset",
    better="zero",
    null=0.0,
    formula=(
        "mean over pairs of s(first) - s(second), s the log-probability of the tokens that both sentences have; at a "
        "site: sum of sign(d) (s(second with the activations of first) - s(second)) over sum of |d|, d the difference"
    ),
    reading=(
        "The value is the whole difference in nats: above 0, the words that both sentences share are more probable in "
        "the first (the more stereotyping) sentence. The items say what share of the differences each site carries: "
        "at layer:N in the tokens that differ, at attention:N and mlp:N in what this part reads."
    ),
    limits=(
        "A site that carries a difference is enough to move it, and need not be where it arises; shares of several "
        "sites do not add up to 1. Pairs whose sentences differ in length have no share at attention:N and mlp:N. The "
        "words that differ are not scored."
    ),
    cites=("vig2020", "meng2022", "nangia2020"),
    queries=(TEMPLATE,),
    available=available,
    view="likelihood",
    family="likelihood",
    query_concepts=CONCEPTS,
    data=(DATA,),
    on_request=True,
    charts=("bias-by-site",),
)


@measure(INFO)
def bias_by_site(
    call: Call,
    view: Likelihood,
    dataset: PairSource = TEMPLATE,
    *,
    concept: Concept | str = "gender",
    parts: SiteParts = "all",
    sample: int | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure how much of the difference between two sentences each layer of a language model carries.

    Args:
        view: a masked or causal transformer, or the `likelihood` view of a subject.
        dataset: `crows-pairs`, one of its categories, a file with the same columns, or a list of `StereotypePair`; or
            a template with the free slot `{person}`, which is filled with the phrases of the concept's first two
            groups.
        concept: whose groups are compared in a template.
        parts: `layers`: the output of every layer; `all`: also what its attention and its feed-forward part read.
        sample: how many pairs are compared, spread over the categories; None or 0 for all.
        seed: seed of the sample; nothing else is drawn at random.

    Returns:
        The mean difference in nats. Its p-value is the larger one of two tests, by pair and by the commonest word in
        which pairs differ. `items` has for each site its share of the differences, with an interval over pairs, and
        the mean effect in nats. The details name the layer from which the tokens that differ carry less than half.

    What it does not tell you: what the activations mean. See `evenhand show bias-by-site`.
    """
    asked, frames = pair_set(dataset, as_concept(concept))
    asked = asked.sampled(sample, seed)
    require_pairs(asked)
    call.describe(asked.name, scores="", positive="the first sentence", params={"alignment": ALIGNMENT})
    kinds: tuple[SiteKind, ...] = ("layer", "attention", "mlp") if parts == "all" else ("layer",)
    with undefined_if_unscorable():
        found = site_effects(view, [(pair.more, pair.less) for pair in asked.pairs], kinds)
    if not np.abs(found.differences).sum() > 0:
        raise DegenerateError("no pair has a difference, so no site carries one")
    pairs = [asked.pairs[row] for row in found.pairs]
    clusters = {"pair": [pair.id for pair in pairs]}
    if frames:  # sentences of a template share their phrases and their frames
        clusters = {"phrase": [pair.category for pair in pairs], "sentence": [frames[pair.id] for pair in pairs]}
    units = tuple(mean_units(kind, labels, found.differences) for kind, labels in clusters.items())
    names = commonest_differences([(pair.more, pair.less) for pair in pairs])
    tests = [null_p(each) for each in (units[0], mean_units("word", names, found.differences))]
    p_values = [p for p in tests if p is not None]
    value = float(found.differences.mean())
    items = [_item(found, place) for place in range(len(found.sites))]
    half = _half(items)
    return call.measurement(
        value,
        len(pairs),
        interval=clustered_interval(found.differences, list(clusters.values())),
        p_value=max(p_values) if p_values else None,
        units=units,
        reading=_reading(value, half),
        note=f"{len(found.lost)} pairs left out: {next(iter(found.lost.values()))}" if found.lost else "",
        items=items,
        details={
            "mean_size": float(np.abs(found.differences).mean()),
            "handed_over_at": half,
            "left_out": len(found.lost),
        },
    )


def pair_set(dataset: PairSource, concept: Concept) -> tuple[PairSet, dict[str, str]]:
    """Return pairs of a data set, or sentences about the first two groups of a concept with the frame of each."""
    is_template = isinstance(dataset, str) and (
        dataset in ids("template") or dataset.partition("#")[0].lower().endswith(SUFFIXES)
    )
    if not is_template:
        return PairSet.resolve(dataset), {}
    template, people = find_template(str(dataset)), persons(concept)
    pairs, frames = [], {}
    for row in people.rows:
        versions = [person_sentences(template, phrase) for phrase in row[:2]]
        for number, (first, second) in enumerate(zip(*versions, strict=True)):
            id = f"{row[0]} / {row[1]} {number}"
            pairs.append(StereotypePair(id, first, second, f"{row[0]} / {row[1]}"))
            frames[id] = f"sentence {number}"
    return PairSet(template.name, tuple(pairs)), frames


def _item(found: SiteEffects, place: int) -> SiteItem:
    """Return the share of one site, with its interval over pairs; the sums are those of the pairs that have one."""
    scored = np.flatnonzero(np.isfinite(found.effects[:, place]))
    differences, effects = found.differences[scored], found.effects[scored, place]
    carried, sizes = np.sign(differences) * effects, np.abs(differences)
    share = float(carried.sum() / sizes.sum()) if sizes.sum() > 0 else None
    bounds = _interval(carried, sizes) if share is not None else None
    return {
        "word": found.sites[place],
        "value": share,
        "interval": list(bounds) if bounds else None,
        "effect": float(effects.mean()) if len(scored) else None,
        "pairs": len(scored),
    }


def _interval(carried: Vector64, sizes: Vector64) -> Interval:
    return jackknife_interval(lambda sums: sums[:, 0] / sums[:, 1], np.stack([carried, sizes], axis=1))


def _half(items: list[SiteItem]) -> str:
    """Return the first layer at whose output the tokens that differ carry less than half; empty if there is none."""
    layers = [item for item in items if item["word"].startswith("layer:")]
    return next((item["word"] for item in layers if item["value"] is not None and item["value"] < 0.5), "")


def _reading(value: float, half: str) -> str:
    whole = f"the shared words are {abs(value):.3f} nats {'more' if value >= 0 else 'less'} probable in the first text"
    where = f"the words that differ carry less than half from {half} on" if half else "they carry it to the last layer"
    return f"{whole}; {where}"
