"""Bias by site: at which layers of a language model the difference between two sentences of a pair can be moved.

The measures of classifiers and inference models share what follows the pairs: `measure_sites`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError
from evenhand.measures.call import Call, measure
from evenhand.measures.groups import LEVEL, contrasts, group_word_p
from evenhand.measures.likelihood.scoring import clustered_interval as ratio_interval
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
from evenhand.models.attribution.pairs import ALIGNMENT, SiteEffects, TextInput, site_effects
from evenhand.models.encoders.sites import SiteKind
from evenhand.models.lm.likelihood import Likelihood
from evenhand.stats import clustered_interval
from evenhand.stats.units import mean_units, null_p
from evenhand.words import Concept, as_concept
from evenhand.words import template as find_template
from evenhand.words.persons import is_template, person_sentences, persons

TEMPLATE = "person-sentences"
SiteParts = Literal["layers", "all"]
KINDS: Mapping[str, tuple[SiteKind, ...]] = {"layers": ("layer",), "all": ("layer", "attention", "mlp")}
SITE_READING = (
    "The items say what share of the differences each site carries: at layer:N in the tokens that differ, at "
    "attention:N and mlp:N in what this part reads. Models without any bias have such shares too, so the reading names "
    "a layer only if p < .05."
)
SITE_LIMITS = (
    "A site that carries a difference is enough to move it, and need not be where it arises; shares of several sites "
    "do not add up to 1. Pairs that differ in length have no share at attention:N and mlp:N."
)


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
        f"the first (the more stereotyping) sentence. {SITE_READING}"
    ),
    limits=f"{SITE_LIMITS} The words that differ are not scored.",
    cites=("vig2020", "meng2022", "nangia2020"),
    queries=(TEMPLATE,),
    available=available,
    view="likelihood",
    query_concepts=CONCEPTS,
    data=(DATA,),
    definition=2,
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
        The mean difference in nats. `items` has for each site its share of the differences, with an interval over
        pairs or phrases, and the mean effect in nats. The details name the layer from which the tokens that differ
        carry less than half. The p-value exchanges the groups of the words in which sentences of a template differ; for
        a data set it is the larger one of two tests, by pair and by the commonest word in which pairs differ.

    What it does not tell you: what the activations mean. See `evenhand show bias-by-site`.
    """
    asked, frames = pair_set(dataset, as_concept(concept))
    asked = asked.sampled(sample, seed)
    require_pairs(asked)
    call.describe(asked.name, scores="", positive="the first sentence")
    texts = [(pair.more, pair.less) for pair in asked.pairs]
    clusters = {"pair": [pair.id for pair in asked.pairs]}
    if frames:  # sentences of a template share their phrases and their frames
        sentences = [frames[pair.id] for pair in asked.pairs]
        clusters = {"phrase": [pair.category for pair in asked.pairs], "sentence": sentences}

    def test(kept: Sequence[int], differences: Vector64) -> float | None:
        some = [texts[row] for row in kept]
        return template_p(some, differences, [sentences[row] for row in kept]) if frames else _set_p(some, differences)

    def says(value: float) -> str:
        return (
            f"the shared words are {abs(value):.3f} nats {'more' if value >= 0 else 'less'} probable in the first text"
        )

    return measure_sites(call, view, texts, clusters, test, says, parts=parts)


def measure_sites(
    call: Call,
    view: object,
    pairs: Sequence[tuple[TextInput, TextInput]],
    clusters: Mapping[str, Sequence[str]],
    test: Callable[[Sequence[int], Vector64], float | None],
    says: Callable[[float], str],
    *,
    parts: SiteParts,
    label: str | None = None,
) -> Measurement:
    """Return the mean difference of pairs of inputs, with the share that each site carries.

    Args:
        call: the call of the measure.
        view: what `site_effects` takes.
        pairs: the inputs; the activations of the first are put into the run of the second.
        clusters: what pairs share, with its label for each pair; the first is what intervals of sites are over.
        test: returns the p-value from the numbers of the pairs that have a score and their differences.
        says: returns a mean difference in words.
        parts: the sites.
        label: of a classifier.
    """
    call.params |= {"alignment": ALIGNMENT}
    with undefined_if_unscorable():
        found = site_effects(view, pairs, KINDS[parts], label=label)
    if not np.abs(found.differences).sum() > 0:
        raise DegenerateError("no pair has a difference, so no site carries one")
    kept = found.pairs.tolist()
    own = {unit: [labels[row] for row in kept] for unit, labels in clusters.items()}
    by, p_value = next(iter(own.values())), test(kept, found.differences)
    value = float(found.differences.mean())
    items = [_item(found, place, by) for place in range(len(found.sites))]
    half = _half(items)
    where = f"the words that differ carry less than half from {half} on" if half else "they carry it to the last layer"
    if p_value is None or p_value >= LEVEL:
        where = "no site is named, because the differences may point one way by chance"
    return call.measurement(
        value,
        len(kept),
        interval=clustered_interval(found.differences, list(own.values())),
        p_value=p_value,
        units=tuple(mean_units(unit, labels, found.differences) for unit, labels in own.items()),
        reading=f"{says(value)}; {where}",
        note=f"{len(found.lost)} pairs left out: {next(iter(found.lost.values()))}" if found.lost else "",
        items=items,
        details={
            "mean_size": float(np.abs(found.differences).mean()),
            "handed_over_at": half,
            "left_out": len(found.lost),
        },
    )


def template_p(texts: Sequence[tuple[str, str]], differences: Vector64, sentences: Sequence[str]) -> float:
    """Return the p-value of a mean difference over pairs that differ in words of two groups; see `group_word_p`."""
    signed = np.stack([differences, -differences], axis=1)
    return group_word_p(texts, signed, contrasts(("first", "second"))[0], [sentences])


def _set_p(texts: Sequence[tuple[str, str]], differences: Vector64) -> float | None:
    """Return the larger p-value over pairs and over words; none where too few words tell the pairs apart."""
    by_pair = null_p(mean_units("pair", range(len(texts)), differences))
    by_word = null_p(mean_units("word", commonest_differences(texts), differences))
    return None if by_pair is None or by_word is None else max(by_pair, by_word)


def pair_set(dataset: PairSource, concept: Concept) -> tuple[PairSet, dict[str, str]]:
    """Return pairs of a data set, or sentences about the first two groups of a concept with the frame of each."""
    if not (isinstance(dataset, str) and is_template(dataset)):
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


def _item(found: SiteEffects, place: int, clusters: Sequence[str]) -> SiteItem:
    """Return the share of one site, with its interval over clusters; the sums are those of the pairs that have one."""
    scored = np.flatnonzero(np.isfinite(found.effects[:, place]))
    differences, effects = found.differences[scored], found.effects[scored, place]
    carried, sizes = np.sign(differences) * effects, np.abs(differences)
    share = float(carried.sum() / sizes.sum()) if sizes.sum() > 0 else None
    labels = [clusters[row] for row in scored.tolist()]
    bounds = ratio_interval([sizes, carried], labels, _share) if share is not None else None
    return {
        "word": found.sites[place],
        "value": share,
        "interval": list(bounds) if bounds else None,
        "effect": float(effects.mean()) if len(scored) else None,
        "pairs": len(scored),
    }


def _share(sums: Matrix64) -> Vector64:
    return np.asarray(sums[:, 1] / sums[:, 0])


def _half(items: list[SiteItem]) -> str:
    """Return the first layer at whose output the tokens that differ carry less than half; empty if there is none."""
    layers = [item for item in items if item["word"].startswith("layer:")]
    return next((item["word"] for item in layers if item["value"] is not None and item["value"] < 0.5), "")
