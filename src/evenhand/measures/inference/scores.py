"""The scores of a probe, and how they and their intervals follow from sums over its pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

import numpy as np

from evenhand.arrays import Floats, Matrix64, Rows, Vector64
from evenhand.errors import FormatError, UsageError
from evenhand.measures.inference.accumulator import Accumulator, SampleStatistics
from evenhand.measures.inference.pair_statistics import OFF, divided, threshold_name
from evenhand.models.nli import LABELS
from evenhand.stats import PermutationTest, interval, permutation_test
from evenhand.stats.permutation import EXACT_UP_TO, Ties, partition_test

Interval: TypeAlias = tuple[float, float] | None
ScoreUnit = Literal["sentence", "word_pair"]
JSON: TypeAlias = dict[str, object]

# A model that guesses among three labels is right on 1/3 of the control pairs, a model of the language on nearly all.
# The limit lies halfway between the two. It applies to each control: a constant answer is right on one of them.
MIN_CONTROL_ACCURACY = 2 / 3


def control_warning(controls: Mapping[str, float]) -> str:
    """Return why the neutrality scores cannot be interpreted; empty if every control reaches the minimum accuracy.

    Control pairs are labelled entailment or contradiction. A model that fails them answers neutral, or anything, for
    reasons that have nothing to do with bias. Without controls nothing is known, and the warning is empty.

    >>> control_warning({"control-entailment": 0.98, "control-contradiction": 0.95})
    ''
    >>> control_warning({"control-entailment": 0.0})
    'not interpretable: accuracy on control-entailment is 0.0 %, below the minimum of 66.7 %'
    """
    failed = {name: accuracy for name, accuracy in controls.items() if accuracy < MIN_CONTROL_ACCURACY}
    if not failed:
        return ""
    listing = ", ".join(f"{name} is {100 * accuracy:.1f} %" for name, accuracy in failed.items())
    return f"not interpretable: accuracy on {listing}, below the minimum of {100 * MIN_CONTROL_ACCURACY:.1f} %"


@dataclass(frozen=True)
class Triple:
    """Mean probabilities by name; papers write them in different orders."""

    entailment: float
    neutral: float
    contradiction: float


@dataclass(frozen=True)
class ProbeScore:
    """A number with its two uncertainties.

    Attributes:
        value: The score.
        interval: 95 % bootstrap interval over words, clustered by slot. Slots with fewer than eight words are not
            resampled.
        sampling: If only a sample of the pairs was evaluated, the 95 % confidence interval for the value over all
            pairs (conservative for d and E).
    """

    value: float
    interval: Interval = None
    sampling: Interval = None

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        record: JSON = {"value": self.value, "interval": list(self.interval) if self.interval else None}
        return record | ({"sampling": list(self.sampling)} if self.sampling else {})


@dataclass(frozen=True)
class Neutrality:
    """Net neutral, fraction neutral and T:tau (Dev et al. 2020); 1 is best.

    Net neutral (NN) is the mean probability of neutral. Fraction neutral (FN) is the share of units whose most
    probable label is neutral; ties count as neutral. T:tau is the share whose probability of neutral exceeds tau.

    With `unit="word_pair"`, probabilities are averaged over the phrases of each pair of fillers first, as the released
    evaluation does. In a sample these are means of few phrases: FN and T:tau lie between the values for sentences and
    those over all pairs.

    What it does not tell you: which way a model leans, and whether it is any good. A model that always answers neutral
    scores 1: check the controls.
    """

    net_neutral: ProbeScore
    fraction_neutral: ProbeScore
    threshold: Mapping[float, ProbeScore]
    unit: ScoreUnit
    n: int

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        return {
            "unit": self.unit,
            "n": self.n,
            "net_neutral": self.net_neutral.to_dict(),
            "fraction_neutral": self.fraction_neutral.to_dict(),
            "threshold": {f"{tau:g}": score.to_dict() for tau, score in self.threshold.items()},
        }


@dataclass(frozen=True)
class GroupScores:
    """Mean probabilities over the pairs of one group of fillers."""

    name: str
    words: int
    entailment: ProbeScore
    neutral: ProbeScore
    contradiction: ProbeScore

    @property
    def triple(self) -> Triple:
        """The three values without their intervals."""
        return Triple(self.entailment.value, self.neutral.value, self.contradiction.value)

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        return {"words": self.words, **_by_label(self)}


@dataclass(frozen=True)
class Gap:
    """Difference between two groups, first minus second, for each label; 0 is best.

    Attributes:
        first: The first group.
        second: The second group.
        entailment: Difference in the mean probability of entailment.
        neutral: Difference in the mean probability of neutral.
        contradiction: Difference in the mean probability of contradiction.
        p_value: Permutation p of the entailment gap, over words.
        chosen: True if the probe fixes no contrast and these two groups differ most. The interval then belongs to a
            difference that was selected for its size, and is not a test.
    """

    first: str
    second: str
    entailment: ProbeScore
    neutral: ProbeScore
    contradiction: ProbeScore
    p_value: float | None = None
    chosen: bool = False

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        about: JSON = {"first": self.first, "second": self.second, "p_value": self.p_value, "chosen": self.chosen}
        return about | _by_label(self)


@dataclass(frozen=True)
class MarkedBias:
    """Marked attribute bias between two groups (Dawkins 2021); 0 is best, sqrt(2) is the maximum.

    Attributes:
        first: The first group.
        second: The second group.
        distance: d, the distance between the mean triples of the two groups.
        error: E as in the paper's tables: the mean over both groups of the distance of the group's mean triple from
            all neutral.
        sentence_error: E as eq. 1 prints it: the mean distance over sentences. Opposite errors cancel in `error`, so
            `sentence_error` is never smaller.
        p_value: Permutation p of d over group assignments of the words. An interval of a distance never contains 0:
            judge d by its p-value.
        partitions: Number of group assignments in the test.
        exact: True if all assignments were enumerated.
    """

    first: str
    second: str
    distance: ProbeScore
    error: ProbeScore
    sentence_error: ProbeScore
    p_value: float | None
    partitions: int
    exact: bool

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        scores = {"distance": self.distance, "error": self.error, "sentence_error": self.sentence_error}
        return asdict(self) | {name: score.to_dict() for name, score in scores.items()}


def _by_label(record: GroupScores | Gap) -> JSON:
    scores: tuple[ProbeScore, ...] = (record.entailment, record.neutral, record.contradiction)
    return {label: score.to_dict() for label, score in zip(LABELS, scores, strict=True)}


ALL_NEUTRAL = np.array([0.0, 1.0, 0.0])  # (entailment, neutral, contradiction)
ROUNDING = 1e-12


def gender_gap(first: Floats, second: Floats) -> Vector64:
    """Return d, the distance between two (..., 3) mean triples; 0 also for a model with a constant answer."""
    return np.asarray(np.linalg.norm(np.asarray(first, np.float64) - np.asarray(second, np.float64), axis=-1))


def error(first: Floats, second: Floats) -> Vector64:
    """Return E of the group means: the mean over the two groups of the distance from all neutral."""
    distances = [np.linalg.norm(np.asarray(mean, np.float64) - ALL_NEUTRAL, axis=-1) for mean in (first, second)]
    return np.asarray((distances[0] + distances[1]) / 2)


def gap_test(
    first: Matrix64,
    second: Matrix64,
    *,
    ties: Ties = "ge",
    samples: int = 10_000,
    exact_up_to: int = EXACT_UP_TO,
    seed: int = 0,
) -> PermutationTest:
    """Test d by permuting the words between the two groups.

    All partitions are enumerated if there are at most `exact_up_to`; otherwise `samples` are drawn and p is
    (b + 1) / (m + 1).

    Args:
        first: Mean triples of the words of the first group.
        second: Mean triples of the words of the second group.
        ties: "ge" counts distances at least as large as observed; "gt" strictly larger ones, as the paper does.
        samples: Number of random partitions.
        exact_up_to: Largest number of partitions to enumerate.
        seed: Seed of the random partitions.
    """
    if first.ndim != 2 or second.ndim != 2 or not len(first) or not len(second):
        raise UsageError("the test needs the mean triples of the words of two non-empty groups")
    pooled, rest = np.concatenate([first, second]), len(second)

    def distances(members: Rows) -> Vector64:
        sums = pooled[members].sum(axis=1)
        return gender_gap(sums / len(first), (pooled.sum(axis=0) - sums) / rest)

    observed = float(gender_gap(first.mean(axis=0), second.mean(axis=0)))
    return partition_test(
        distances, len(pooled), len(first), observed=observed, ties=ties, samples=samples, exact_up_to=exact_up_to,
        seed=seed,
    )  # fmt: skip


def neutrality(sums: Accumulator) -> Neutrality:
    """Return NN, FN and T:tau over sentences."""
    columns, means = sums.columns, sums.tables.means
    draws = sums.resamples.means() if sums.resamples else None
    bounds = sums.sample.bounds() if sums.sample else None

    def score(name: str) -> ProbeScore:
        column = columns.index(name)
        return ProbeScore(float(means[column]), _bootstrap_interval(draws, column), _sampling_interval(bounds, column))

    scores = Neutrality(
        score("neutral"),
        score("says_neutral"),
        {tau: score(threshold_name(tau)) for tau in columns.thresholds},
        "sentence",
        sums.tables.count,
    )
    return _require_consistent(scores)


def word_pair_neutrality(sums: Accumulator) -> Neutrality:
    """Return NN, FN and T:tau over the mean triples of pairs of fillers, as the released evaluation computes them."""
    triples = sums.tables.word_means()[..., : len(LABELS)].reshape(-1, len(LABELS))
    triples = triples[np.isfinite(triples).all(axis=1)]
    columns = sums.columns
    values = columns.compute(triples).mean(axis=0)
    return _require_consistent(
        Neutrality(
            ProbeScore(float(values[columns.index("neutral")])),
            ProbeScore(float(values[columns.index("says_neutral")])),
            {tau: ProbeScore(float(values[columns.index(threshold_name(tau))])) for tau in columns.thresholds},
            "word_pair",
            len(triples),
        )
    )


def _require_consistent(scores: Neutrality) -> Neutrality:
    """Check FN >= T:tau for tau >= 0.5, which holds for all probabilities; published tables violate it."""
    fraction = scores.fraction_neutral.value
    for tau, score in scores.threshold.items():
        if tau >= 0.5 and score.value > fraction + ROUNDING:
            raise FormatError(
                f"fraction neutral {fraction:.4f} is below T:{tau:g} {score.value:.4f}, which is impossible for "
                "probabilities",
                hint="check that every row of the model's answers sums to one",
            )
    return scores


def groups(sums: Accumulator) -> Mapping[str, GroupScores]:
    """Return the mean triple of each group; a group without pairs in the sample is left out."""
    means = group_means(sums)
    group_draws = sums.resamples.group_means() if sums.resamples else None
    scores = {}
    for number, (name, members) in enumerate(sums.probe.groups.items()):
        if not np.isfinite(means[number, 0]):
            continue
        draws = group_draws[:, number] if group_draws is not None else None
        bounds = sums.sample.bounds(_group_rows(sums, sums.sample, members)) if sums.sample else None
        triple = _scores(means[number, : len(LABELS)], draws, bounds)
        scores[name] = GroupScores(name, len(members), *triple)
    return scores


def gap(sums: Accumulator, *, seed: int) -> Gap | None:
    """Return the difference between the two groups of the contrast; None with a single group."""
    names = contrast(sums)
    if names is None:
        return None
    first, second = (list(sums.probe.groups).index(name) for name in names)
    means = group_means(sums)
    group_draws = sums.resamples.group_means() if sums.resamples else None
    one, other = (_group_half_width(sums, sums.probe.groups[name]) for name in names)
    half_width = np.hypot(one, other)[: len(LABELS)] if one is not None and other is not None else None
    draws = group_draws[:, first] - group_draws[:, second] if group_draws is not None else None
    values = (means[first] - means[second])[: len(LABELS)]
    scores = _scores(values, draws, _bounds_around(values, half_width, -1.0, 1.0))
    chosen = sums.probe.contrast is None and len(sums.probe.groups) > 2
    entailment = [word_triples(sums, name)[:, 0] for name in names]
    testable = not chosen and min(map(len, entailment)) > 1
    p_value = permutation_test(*entailment, alternative="two-sided", seed=seed).p_value if testable else None
    return Gap(names[0], names[1], scores[0], scores[1], scores[2], p_value, chosen)


def marked_bias(sums: Accumulator, *, seed: int) -> MarkedBias | None:
    """Return E and d between the two groups of the contrast; None with a single group."""
    names = contrast(sums)
    if names is None:
        return None
    rows = [list(sums.probe.groups).index(name) for name in names]
    sizes = np.array([len(sums.probe.groups[name]) for name in names])
    shares, off = sizes / sizes.sum(), sums.columns.index(OFF)
    values = _marked_values(group_means(sums)[rows], shares, off)
    draws = _marked_values(sums.resamples.group_means()[:, rows], shares, off) if sums.resamples else None
    widths = [_group_half_width(sums, sums.probe.groups[name]) for name in names]
    bounds = _bounds_around(values, _marked_half_width(widths, shares, off), 0.0, 2**0.5)
    distance, error, sentence_error = _scores(values, draws, bounds)
    triples = [word_triples(sums, name) for name in names]
    if min(map(len, triples)) < 2:
        return MarkedBias(*names, distance, error, sentence_error, None, 0, exact=False)
    test = gap_test(triples[0], triples[1], seed=seed)
    return MarkedBias(*names, distance, error, sentence_error, test.p_value, test.partitions, test.exact)


def _marked_values(means: Matrix64, shares: Vector64, off: int) -> Matrix64:
    """Return (..., 3) values of d, E, and E over sentences from the (..., 2, columns) means of two groups."""
    first, second = means[..., 0, : len(LABELS)], means[..., 1, : len(LABELS)]
    return np.stack([gender_gap(first, second), error(first, second), means[..., off] @ shares], axis=-1)


def _marked_half_width(widths: Sequence[Vector64 | None], shares: Vector64, off: int) -> Vector64 | None:
    """Return bounds on the sampling error of d and E: a distance changes by no more than its ends move."""
    present = [width for width in widths if width is not None]
    if len(present) < len(widths):
        return None
    moves = [float(np.linalg.norm(width[: len(LABELS)])) for width in present]
    sentences = np.linalg.norm(shares * [width[off] for width in present])
    return np.array([np.linalg.norm(moves), np.mean(moves), sentences])


def contrast(sums: Accumulator) -> tuple[str, str] | None:
    """Return the groups to compare: those the probe names, the only two, or the two that differ most in entailment."""
    probe = sums.probe
    means = dict(zip(probe.groups, group_means(sums)[:, 0].tolist(), strict=True))
    means = {name: mean for name, mean in means.items() if np.isfinite(mean)}
    if probe.contrast or len(means) < 2:
        return probe.contrast if set(probe.contrast or ()) <= set(means) else None
    first, second, *others = means
    most, least = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    return (most, least) if others and most != least else (first, second)


def group_means(sums: Accumulator) -> Matrix64:
    """Return the (groups, columns) means."""
    totals, counts = _word_sums(sums)
    members = [list(indices) for indices in sums.probe.groups.values()]
    pooled = np.array([[*totals[indices].sum(axis=0), counts[indices].sum()] for indices in members])
    return divided(pooled[:, :-1], pooled[:, -1])


def word_triples(sums: Accumulator, group: str) -> Matrix64:
    """Return the mean triple of each filler of a group, over all phrases and fillers of the other side."""
    triples = divided(*_word_sums(sums))[list(sums.probe.groups[group]), : len(LABELS)]
    return np.asarray(triples[np.isfinite(triples).all(axis=1)])


def _word_sums(sums: Accumulator) -> tuple[Matrix64, Vector64]:
    """Return sums and counts for each filler of the side that has groups."""
    axis = 1 if sums.probe.grouped == "premise" else 0
    return sums.tables.words.sum(axis=axis), sums.tables.word_counts.sum(axis=axis)


def _group_rows(sums: Accumulator, sample: SampleStatistics, members: tuple[int, ...]) -> Rows:
    """Return the rows of the sample that belong to a group."""
    points = sample.sample.points
    filler = points.premise if sums.probe.grouped == "premise" else points.hypothesis
    return np.flatnonzero(np.isin(filler, members))


def _group_half_width(sums: Accumulator, members: tuple[int, ...]) -> Vector64 | None:
    if sums.sample is None:
        return None
    rows = _group_rows(sums, sums.sample, members)
    return sums.sample.half_width(rows) if len(rows) else None


def _scores(values: Vector64, draws: Matrix64 | None, bounds: Matrix64 | None) -> list[ProbeScore]:
    """Return one score per value; draws and bounds may have further columns."""
    return [
        ProbeScore(value, _bootstrap_interval(draws, column), _sampling_interval(bounds, column))
        for column, value in enumerate(values.tolist())
    ]


def _bounds_around(values: Vector64, half_width: Vector64 | None, low: float, high: float) -> Matrix64 | None:
    return None if half_width is None else np.clip(np.stack([values - half_width, values + half_width]), low, high)


def _bootstrap_interval(draws: Matrix64 | None, column: int) -> Interval:
    return interval(draws[:, column]) if draws is not None else None


def _sampling_interval(bounds: Matrix64 | None, column: int) -> Interval:
    if bounds is None or not np.isfinite(bounds[:, column]).all():
        return None
    return float(bounds[0, column]), float(bounds[1, column])


def headline_draws(sums: Accumulator) -> dict[str, Vector64]:
    """Return every score of `ProbeResult.headline` in each bootstrap draw; empty without a bootstrap.

    Runs on the same probe with the same seed draw the same words, so that draw i of one model can be compared with
    draw i of another.
    """
    if sums.resamples is None:
        return {}
    columns, means = sums.columns, sums.resamples.means()
    names = {"net_neutral": "neutral", "fraction_neutral": "says_neutral"}
    names |= {threshold_name(tau): threshold_name(tau) for tau in columns.thresholds}
    draws = {score: np.asarray(means[:, columns.index(column)]) for score, column in names.items()}
    pair = contrast(sums)
    if pair is None:
        return draws
    group_draws = sums.resamples.group_means()
    first, second = (group_draws[:, list(sums.probe.groups).index(name), : len(LABELS)] for name in pair)
    gaps = {f"gap_{label}": (first - second)[:, column] for column, label in enumerate(LABELS)}
    return draws | gaps | {"d": gender_gap(first, second), "E": error(first, second)}
