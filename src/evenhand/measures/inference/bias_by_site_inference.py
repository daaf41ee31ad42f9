"""Bias by site of an inference model: at which layers its conclusions about two groups are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError
from evenhand.measures.call import Call, measure
from evenhand.measures.inference.nli_measures import InferenceView
from evenhand.measures.inference.run_probe import require_model
from evenhand.measures.likelihood.bias_by_site import SITE_LIMITS, SITE_READING, SiteParts, measure_sites
from evenhand.measures.likelihood.scoring import undefined_if_unscorable
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.attribution.pairs import TextInput
from evenhand.stats.units import mean_units, null_p
from evenhand.words.probes import Points, Probe
from evenhand.words.probes import probe as find_probe

SAMPLE = 300
FEWEST = 2  # words of a group that differ from each other
INFO = Info(
    id="bias-by-site-inference",
    title="Bias by site of an inference model",
    takes="probe",
    better="zero",
    null=0.0,
    formula=(
        "mean over pairs of s(first) - s(second), s the log-odds of a label for the same sentences with a word of the "
        "first or second group; at a site: sum of sign(d) (s(second with the activations of first) - s(second)) over "
        "sum of |d|, d the difference"
    ),
    reading=(
        "The value is the whole difference in log-odds: above 0, the label is concluded more often for the first group "
        f"of the probe. {SITE_READING}"
    ),
    limits=f"{SITE_LIMITS} The words of a group are few, so that few differences are certain.",
    cites=("vig2020", "meng2022", "dev2019"),
    queries=("gender-occupation", "gender-activity-fr"),
    view="inference",
    family="inference",
    on_request=True,
    charts=("bias-by-site",),
)


class ProbePairs(NamedTuple):
    """Two inputs for each pair, which of the words of both groups they have, and the word of the other side."""

    inputs: list[tuple[TextInput, TextInput]]
    words: list[str]
    fillers: list[str]


@measure(INFO)
def bias_by_site_inference(
    call: Call,
    model: InferenceView,
    probe: Probe | str | Path = "gender-occupation",
    *,
    label: str = "entailment",
    parts: SiteParts = "all",
    sample: int | None = SAMPLE,
    seed: int = 0,
) -> Measurement:
    """Measure how much of the difference between two groups each layer of an inference model carries.

    Args:
        model: an inference model that is a transformer, or the `inference` view of a subject.
        probe: a probe with two groups on one side; the n-th words of both groups make a pair of inputs.
        label: the label whose log-odds are compared: entailment, neutral or contradiction.
        parts: `layers`: the output of every layer; `all`: also what its attention and its feed-forward part read.
        sample: how many pairs are compared, spread over the words of both sides; None or 0 for all of the probe.
        seed: seed of the sample; nothing else is drawn at random.

    Returns:
        The mean difference in log-odds. `items` has for each site its share of the differences, with an interval over
        the words of the other side. The p-value is the larger one of Student's test over the words of the groups and of
        changed signs over the words of the other side.

    What it does not tell you: what the activations mean. See `evenhand show bias-by-site-inference`.
    """
    asked = find_probe(probe)
    groups = asked.contrast or tuple(asked.groups)
    call.describe(asked.name, scores="", positive=groups[0], params={"label": label})
    if len(groups) != 2:
        raise DegenerateError(f"{asked.name} has no two groups to compare", hint="name two of them: contrast = [...]")
    pairs = probe_pairs(asked, groups[0], groups[1], sample, seed)
    with undefined_if_unscorable():
        member = require_model(model)

    def test(kept: Sequence[int], differences: Vector64) -> float | None:
        return words_p([pairs.words[row] for row in kept], [pairs.fillers[row] for row in kept], differences)

    def says(value: float) -> str:
        more = "higher" if value >= 0 else "lower"
        return f"the log-odds of {label} are {abs(value):.3f} {more} for {groups[0]} than for {groups[1]}"

    clusters = {"filler": pairs.fillers, "word": pairs.words}
    return measure_sites(call, member, pairs.inputs, clusters, test, says, parts=parts, label=label)


def probe_pairs(asked: Probe, first: str, second: str, sample: int | None, seed: int) -> ProbePairs:
    """Return pairs of inputs that differ in a word of two groups, all of the probe or some, evenly over its words."""
    own = list(zip(asked.groups[first], asked.groups[second], strict=False))
    others = asked.side("hypothesis" if asked.grouped == "premise" else "premise")
    total = len(asked.phrases) * len(others) * len(own)
    if not sample or sample >= total:
        chosen = np.stack(np.unravel_index(np.arange(total), (len(asked.phrases), len(others), len(own))), axis=1)
    else:
        rng, number = np.random.default_rng(seed), np.arange(sample)
        order = rng.permutation(len(others))
        phrases = rng.integers(len(asked.phrases), size=sample)
        chosen = np.stack([phrases, order[number % len(others)], (number + number // len(others)) % len(own)], axis=1)
        chosen = np.unique(chosen, axis=0)
    phrase, other, pair = chosen.T
    sides = []
    for words in np.array(own, dtype=np.int64).T:
        at = (words[pair], other) if asked.grouped == "premise" else (other, words[pair])
        sides.append(list(zip(*asked.texts(Points(phrase, *at)), strict=True)))
    names = [filler.word for filler in asked.side(asked.grouped)]
    labels = [f"{names[one]} / {names[two]}" for one, two in own]
    return ProbePairs(
        list(zip(*sides, strict=True)), [labels[row] for row in pair], [others[row].word for row in other]
    )


def words_p(words: Sequence[str], fillers: Sequence[str], differences: Vector64) -> float | None:
    """Return the p-value of a mean difference that few words of groups and many others share; none for a single word.

    A difference that stands for the groups must be large beside what the words of the groups differ among themselves
    (Student's test of their means, because few words have few changes of sign), and the fillers must agree.
    """
    from scipy.special import stdtr

    index = {word: number for number, word in enumerate(dict.fromkeys(words))}
    codes = np.array([index[word] for word in words], dtype=np.int64)
    means = np.bincount(codes, weights=differences) / np.bincount(codes)
    if len(means) < FEWEST:
        return None
    error = float(means.std(ddof=1)) / len(means) ** 0.5
    over_words = float(2 * stdtr(len(means) - 1, -abs(float(means.mean())) / error)) if error > 0 else 0.0
    over_fillers = null_p(mean_units("filler", fillers, differences))
    return over_words if over_fillers is None else max(over_words, over_fillers)
