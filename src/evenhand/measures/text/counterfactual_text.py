"""Counterfactual prompts: what a language model writes about the same person in different groups."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.measures.call import Call, measure
from evenhand.measures.groups import Contrast, contrasts
from evenhand.measures.labels.counterfactual import template_cases
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.stats import clustered_interval
from evenhand.stats.bootstrap import Interval
from evenhand.stats.units import Units, mean_units
from evenhand.subjects.subject import PromptWriter
from evenhand.words import Concept, Query, Template, as_concept
from evenhand.words import query as find_query
from evenhand.words import template as find_template
from evenhand.words.group_swap import mask_group_words
from evenhand.words.persons import person_sentences, persons

TEMPLATE = "person-prompts"
ROWS, SAMPLES, TOKENS = 4, 4, 20
# Whose attribute sets are counted: career and family for gender, pleasant and unpleasant words for any other concept.
ATTRIBUTES = {"gender": "weat-6"}
OTHER_ATTRIBUTES = "weat-1"
FLIPS = 5_000
FEW_HITS = 5  # attribute words in all texts; fewer say nothing
EXAMPLES, WORDS = 10, 30
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
INFO = Info(
    id="counterfactual-text",
    title="Texts after counterfactual prompts",
    takes="text",
    better="zero",
    formula="divergence = overlap of texts of one prompt - overlap between groups; length, association: first - others",
    reading=(
        "Prompts that differ in the group only. Divergence 0: texts about two groups differ as much as two texts about "
        "the same person. Length in words; association is the rate per 1,000 words of the first attribute words minus "
        "that of the second. Both are above 0 where they are higher for the first group."
    ),
    limits=(
        "Counts words, not meaning; no classifier judges the texts. A few hundred short samples show large differences "
        "only. Group words are masked before texts are compared, other consequences of grammar are not."
    ),
    cites=("huang2020", "bordia2019"),
    queries=(TEMPLATE,),
    view="generation",
    null=0.0,
    definition=2,
    plain=1,
)


@dataclass(frozen=True, eq=False)
class Continuations:
    """What was written for each case, a row of phrases in one frame, and each group.

    Attributes:
        words: the words of the texts by case, group and sample, group words masked.
        texts: the texts as written.
    """

    groups: tuple[str, ...]
    frames: tuple[str, ...]
    rows: tuple[str, ...]
    texts: list[list[list[str]]]
    words: list[list[list[list[str]]]]

    def details(self) -> dict[str, object]:
        """Return the number of prompts and, for a reader, the first text of each group after some of them."""
        step = max(1, len(self.frames) // EXAMPLES)
        examples = [
            {"prompt": self.frames[case], "groups": self.rows[case]}
            | {group: self.texts[case][number][0].strip() for number, group in enumerate(self.groups)}
            for case in range(0, len(self.frames), step)
        ]
        return {"prompts": len(self.frames) * len(self.groups), "examples": examples[:EXAMPLES]}


@measure(INFO)
def counterfactual_text(
    call: Call,
    view: PromptWriter,
    prompts: str | Template = TEMPLATE,
    *,
    concept: Concept | str = "gender",
    attributes: Query | str | None = None,
    rows: int | None = ROWS,
    samples: int = SAMPLES,
    tokens: int = TOKENS,
    temperature: float = 1.0,
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Compare what a model writes after prompts that differ in the group only.

    The i-th texts of all prompts are sampled with the same random numbers.

    Args:
        view: a language model that continues prompts, or the `generation` view of a subject.
        prompts: a template with the free slot `{person}`.
        concept: whose groups are compared.
        attributes: a query whose two attribute sets are counted; by default career and family words for gender,
            pleasant and unpleasant words for other concepts.
        rows: how many rows of phrases are used; None for all of them.
        samples: texts for each prompt, at least 2, because texts of one prompt are the baseline.
        tokens: the largest number of tokens in a text.
        temperature: divisor of the logits.
        seed: seed of the texts and the test.

    Returns:
        `divergence`, and for each contrast of groups `length` and `association`. Intervals resample prompts and
        phrases. The p-values come from exchanging the groups within a prompt at random: of all its texts for `length`
        and `association`, of texts with the same number for `divergence`.
        `items` of `association` are the words most typical of the first group and of the others.
    """
    if samples < 2:
        raise UsageError(f"at least 2 samples are needed to compare texts of one prompt, got {samples}")
    concept = as_concept(concept)
    counted = find_query(attributes or ATTRIBUTES.get(concept.name, OTHER_ATTRIBUTES))
    if len(counted.attributes) != 2:
        raise UsageError(f"{counted.name!r} has {len(counted.attributes)} attribute sets, two are counted")
    template = find_template(prompts)
    compared = contrasts(persons(concept).groups)
    scores = [contrast.name(score) for contrast in compared for score in ("length", "association")]
    call.describe(template.name, scores=("divergence", *scores), params={"attributes": counted.name})
    written = _write(view, template, concept, rows, samples=samples, tokens=tokens, temperature=temperature, seed=seed)
    results = [_divergence(call, written, seed)]
    for contrast in compared:
        results.append(_length(call, written, contrast, seed))
        results.append(_association(call, written, contrast, counted, seed))
    return tuple(results)


def count_texts(concept: Concept, *, rows: int | None = ROWS, samples: int = SAMPLES) -> int:
    """Return how many texts a model writes for the shipped prompts."""
    people = persons(concept)
    frames = list(person_sentences(find_template(TEMPLATE), "someone"))
    return len(people.rows[:rows]) * len(frames) * len(people.groups) * samples


def _write(view: PromptWriter, template: Template, concept: Concept, rows: int | None, **options: Any) -> Continuations:
    found = template_cases(template, concept)
    cases, size = found.of_rows(rows), len(found.groups)
    flat = view.continuations([text for case in cases for text in case.texts], **options)
    texts = [flat[start : start + size] for start in range(0, len(flat), size)]
    words = [
        [[WORD.findall(text.lower()) for text in mask_group_words(concept, some)] for some in case] for case in texts
    ]
    frames, names = tuple(case.cluster for case in cases), tuple(case.row for case in cases)
    return Continuations(found.groups, frames, names, texts, words)


def _divergence(call: Call, written: Continuations, seed: int) -> Measurement:
    """Return how much less texts of two groups overlap than two texts of one prompt, samples of other numbers only."""
    within, between = [], []
    for case in written.words:
        same = [overlap(a, b) for texts in case for a, b in combinations(texts, 2)]
        crossed = [
            overlap(one[i], other[j])
            for one, other in combinations(case, 2)
            for i in range(len(one))
            for j in range(len(other))
            if i != j
        ]
        within.append(float(np.mean(same)))
        between.append(float(np.mean(crossed)))
    values = np.array(within) - np.array(between)
    overlaps = {"overlap_within": float(np.mean(within)), "overlap_between": float(np.mean(between))}
    return call.measurement(
        float(values.mean()), len(values), score="divergence", details={**written.details(), **overlaps},
        interval=_interval(written, values), p_value=_exchange_test(written.words, seed), units=_units(written, values),
        reading=f"texts of one prompt share {np.mean(within):.3f} of their words, texts of two groups "
        f"{np.mean(between):.3f}",
    )  # fmt: skip


def overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the share of words that two texts have in common: 2 |a n b| / (|a| + |b|), repeats counted.

    >>> overlap(["a", "b", "a"], ["a", "c"])
    0.4
    >>> overlap([], [])
    1.0
    """
    total = len(first) + len(second)
    common = sum((Counter(first) & Counter(second)).values())
    return 2 * common / total if total else 1.0


def _length(call: Call, written: Continuations, contrast: Contrast, seed: int) -> Measurement:
    lengths = np.array([[np.mean([len(text) for text in texts]) for texts in case] for case in written.words])
    differences = _differences(lengths, contrast)
    value = float(differences.mean())
    same_prompt = [abs(len(a) - len(b)) for case in written.words for texts in case for a, b in combinations(texts, 2)]
    details = {**written.details(), "mean_length": float(lengths.mean()), "same_prompt": float(np.mean(same_prompt))}
    return call.measurement(
        value, len(differences), score=contrast.name("length"), details=details,
        interval=_interval(written, differences), p_value=_sign_test(differences, seed),
        units=_units(written, differences),
        positive=contrast.group,
        reading=f"texts about {contrast.group} are {abs(value):.2f} words {'longer' if value >= 0 else 'shorter'} than "
        f"those about {contrast.against}",
    )  # fmt: skip


def _association(call: Call, written: Continuations, contrast: Contrast, query: Query, seed: int) -> Measurement:
    """Return the difference of rates of attribute words, with the words most typical of either side."""
    near, far = ({word.lower() for word in group} for group in query.attributes)
    names = [group.name for group in query.attributes]
    score, positive = contrast.name("association"), f"{contrast.group} with {names[0]}"
    rates = np.zeros((len(written.words), len(written.groups)))
    hits = [0, 0]
    for number, case in enumerate(written.words):
        for group, texts in enumerate(case):
            every = [word for text in texts for word in text]
            counts = [sum(word in some for word in every) for some in (near, far)]
            hits = [total + count for total, count in zip(hits, counts, strict=True)]
            rates[number, group] = 1000 * (counts[0] - counts[1]) / max(1, len(every))
    details = {**written.details(), "hits": dict(zip(names, hits, strict=True))}
    items = _typical_words(written, contrast)
    if sum(hits) < FEW_HITS:
        reason = f"the texts hold {sum(hits)} words of {names[0]} and {names[1]}, at least {FEW_HITS} are needed"
        return call.undefined(reason, score=score, positive=positive, items=items, details=details)
    differences = _differences(rates, contrast)
    value = float(differences.mean())
    return call.measurement(
        value, len(differences), score=score, positive=positive, interval=_interval(written, differences),
        p_value=_sign_test(differences, seed), units=_units(written, differences),
        reading=f"{abs(value):.1f} {'more' if value >= 0 else 'fewer'} words of {names[0]} than of {names[1]} in 1,000 "
        f"for {contrast.group} than for {contrast.against}",
        items=items, details=details,
    )  # fmt: skip


def _typical_words(written: Continuations, contrast: Contrast) -> tuple[dict[str, object], ...]:
    """Return the words with the largest log ratio of their rates, smoothed by one half, in about equal texts."""
    first, others = Counter[str](), Counter[str]()
    for case in written.words:
        for group, texts in enumerate(case):
            target = first if group == contrast.first else others if group in contrast.others else None
            for text in texts:
                if target is not None:
                    target.update(word for word in text if word != "_")
    totals = [sum(counts.values()) + 1 for counts in (first, others)]
    ratios = {
        word: math.log((first[word] + 0.5) / totals[0]) - math.log((others[word] + 0.5) / totals[1])
        for word in {*first, *others}
    }
    ordered = sorted(ratios, key=lambda word: (-ratios[word], word))
    chosen = [*ordered[:WORDS], *ordered[max(WORDS, len(ordered) - WORDS) :]]
    return tuple({"word": word, "value": ratios[word], "counts": [first[word], others[word]]} for word in chosen)


def _differences(values: Matrix64, contrast: Contrast) -> Vector64:
    """Return the value of the first group minus the mean of the others, for each case."""
    return np.asarray(values[:, contrast.first] - values[:, list(contrast.others)].mean(axis=1))


def _interval(written: Continuations, values: Vector64) -> Interval:
    return clustered_interval(values, [written.frames, written.rows])


def _units(written: Continuations, values: Vector64) -> tuple[Units, ...]:
    return mean_units("prompt", written.frames, values), mean_units("phrase", written.rows, values)


def _exchange_test(words: Sequence[Sequence[Sequence[Sequence[str]]]], seed: int) -> float:
    """Return the two-sided p-value of the divergence when texts of one prompt and number exchange their groups.

    If the group does not matter, the i-th texts of all groups could as well have come in another order. Only the
    overlap within groups depends on the order: that of all texts with different numbers stays the same.
    """
    groups, samples = len(words[0]), len(words[0][0])
    pairs = list(combinations(range(samples), 2))
    rng = np.random.default_rng(seed)
    within = np.zeros(FLIPS + 1)
    expected = 0.0
    own = np.tile(np.arange(groups), (FLIPS + 1, samples, 1))
    for case in words:
        orders = rng.permuted(own, axis=2)
        orders[0] = own[0]
        for i, j in pairs:
            table = np.array([[overlap(one[i], other[j]) for other in case] for one in case])
            within += table[orders[:, i], orders[:, j]].mean(axis=1)
            expected += float(table.mean())
    away = np.abs(within - expected)
    return float(np.mean(away >= away[0] - 1e-12 * max(1.0, expected)))


def _sign_test(differences: Vector64, seed: int) -> float:
    """Return the two-sided p-value of a mean when the groups of each case are exchanged at random."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(FLIPS, len(differences)))
    observed = abs(float(differences.mean()))
    drawn = np.abs(signs @ differences) / len(differences)
    return float((np.count_nonzero(drawn >= observed - 1e-12) + 1) / (FLIPS + 1))
