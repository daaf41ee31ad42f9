"""From the sums of a run to its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import FormatError
from evenhand.measures.inference import mab_scores as marked
from evenhand.measures.inference.accumulator import Gathered
from evenhand.measures.inference.pair_statistics import OFF, divided, threshold_name
from evenhand.measures.inference.sampling_error import SampledValues
from evenhand.measures.inference.scores import Gap, Group, Interval, Marked, Neutrality, Score
from evenhand.models.nli import LABELS
from evenhand.stats import interval, permutation_test


def neutrality(gathered: Gathered) -> Neutrality:
    """NN, FN and T:tau over sentences."""
    columns, means = gathered.columns, gathered.tables.means
    drawn = gathered.resampled.means() if gathered.resampled else None
    bounds = gathered.sampled.bounds() if gathered.sampled else None

    def score(name: str) -> Score:
        place = columns.at(name)
        return Score(float(means[place]), _middle(drawn, place), _sampling(bounds, place))

    found = Neutrality(
        score("neutral"),
        score("says_neutral"),
        {tau: score(threshold_name(tau)) for tau in columns.thresholds},
        "sentence",
        gathered.tables.count,
    )
    return _consistent(found)


def word_pair_neutrality(gathered: Gathered) -> Neutrality:
    """NN, FN and T:tau over the mean triples of pairs of fillers, as the released evaluation has them."""
    triples = gathered.tables.word_means()[..., : len(LABELS)].reshape(-1, len(LABELS))
    triples = triples[np.isfinite(triples).all(axis=1)]
    values = gathered.columns.of(triples).mean(axis=0)
    names = gathered.columns
    return _consistent(
        Neutrality(
            Score(float(values[names.at("neutral")])),
            Score(float(values[names.at("says_neutral")])),
            {tau: Score(float(values[names.at(threshold_name(tau))])) for tau in names.thresholds},
            "word_pair",
            len(triples),
        )
    )


def _consistent(found: Neutrality) -> Neutrality:
    """FN >= T:0.5 on any one sample, since more than half is more than the others; published tables break this."""
    for tau, score in found.threshold.items():
        if tau >= 0.5 and score.value > found.fraction_neutral.value + 1e-12:
            raise FormatError(
                f"fraction neutral {found.fraction_neutral.value:.4f} is below T:{tau:g} {score.value:.4f}, "
                "which no probabilities allow",
                hint="the answers are no probabilities: check that every row sums to one",
            )
    return found


def groups(gathered: Gathered) -> Mapping[str, Group]:
    """Entailment, neutral and contradiction of each group; a group that a sample has no pair of is left out."""
    means = group_means(gathered)
    drawn = gathered.resampled.group_means() if gathered.resampled else None
    found = {}
    for number, (name, places) in enumerate(gathered.probe.groups.items()):
        if not np.isfinite(means[number, 0]):
            continue
        draws = drawn[:, number] if drawn is not None else None
        sampled = gathered.sampled
        bounds = sampled.bounds(_group_rows(gathered, sampled, places)) if sampled else None
        shares = _scores(means[number, : len(LABELS)], draws, bounds)
        found[name] = Group(name, len(places), *shares)
    return found


def gap(gathered: Gathered, *, seed: int) -> Gap | None:
    """The headline difference between two groups; None with a single group."""
    names = contrast(gathered)
    if names is None:
        return None
    first, second = (list(gathered.probe.groups).index(name) for name in names)
    means = group_means(gathered)
    drawn = gathered.resampled.group_means() if gathered.resampled else None
    one, other = (_group_reach(gathered, gathered.probe.groups[name]) for name in names)
    reach = np.hypot(one, other)[: len(LABELS)] if one is not None and other is not None else None
    draws = drawn[:, first] - drawn[:, second] if drawn is not None else None
    values = (means[first] - means[second])[: len(LABELS)]
    shares = _scores(values, draws, _around(values, reach, -1.0, 1.0))
    chosen = gathered.probe.contrast is None and len(gathered.probe.groups) > 2
    sides = [word_triples(gathered, name)[:, 0] for name in names]
    test = permutation_test(*sides, alternative="two-sided", seed=seed) if min(map(len, sides)) > 1 else None
    p_value = test.p_value if test and not chosen else None
    return Gap(names[0], names[1], shares[0], shares[1], shares[2], p_value, chosen)


def marked_scores(gathered: Gathered, *, seed: int) -> Marked | None:
    """E and d between the two groups of the contrast."""
    names = contrast(gathered)
    if names is None:
        return None
    places = [list(gathered.probe.groups).index(name) for name in names]
    sizes = np.array([len(gathered.probe.groups[name]) for name in names])
    shares, off = sizes / sizes.sum(), gathered.columns.at(OFF)
    values = _marked_values(group_means(gathered)[places], shares, off)
    draws = _marked_values(gathered.resampled.group_means()[:, places], shares, off) if gathered.resampled else None
    reaches = _marked_reach([_group_reach(gathered, gathered.probe.groups[name]) for name in names], shares, off)
    sides = [word_triples(gathered, name) for name in names]
    test = marked.gap_test(sides[0], sides[1], seed=seed) if min(map(len, sides)) > 1 else None
    d, by_group, by_sentence = _scores(values, draws, _around(values, reaches, 0.0, 2**0.5))
    p_value, partitions, exact = (test.p_value, test.partitions, test.exact) if test else (None, 0, False)
    return Marked(*names, d, by_group, by_sentence, p_value, partitions, exact)


def _marked_values(means: Matrix64, shares: Vector64, off: int) -> Matrix64:
    """(..., 3): d, E, and E over sentences, from the (..., 2, columns) means of the two groups."""
    first, second = means[..., 0, : len(LABELS)], means[..., 1, : len(LABELS)]
    return np.stack([marked.gender_gap(first, second), marked.error(first, second), means[..., off] @ shares], axis=-1)


def _marked_reach(reaches: Sequence[Vector64 | None], shares: Vector64, off: int) -> Vector64 | None:
    """How far those of a sample may be off: a distance changes by no more than its ends move, and mostly by less."""
    known = [reach for reach in reaches if reach is not None]
    if len(known) < len(reaches):
        return None
    moved = [float(np.linalg.norm(reach[: len(LABELS)])) for reach in known]
    sentences = np.linalg.norm(shares * [reach[off] for reach in known])
    return np.array([np.linalg.norm(moved), np.mean(moved), sentences])


def contrast(gathered: Gathered) -> tuple[str, str] | None:
    """The two groups to compare: those of the probe, the only two, or the two that entail most differently."""
    probe = gathered.probe
    means = dict(zip(probe.groups, group_means(gathered)[:, 0].tolist(), strict=True))
    asked = {name: mean for name, mean in means.items() if np.isfinite(mean)}
    if probe.contrast or len(asked) < 2:
        return probe.contrast if set(probe.contrast or ()) <= set(asked) else None
    first, second, *others = asked
    most, least = max(asked, key=asked.__getitem__), min(asked, key=asked.__getitem__)
    return (most, least) if others and most != least else (first, second)


def group_means(gathered: Gathered) -> Matrix64:
    """(groups, columns)."""
    axis = 1 if gathered.probe.grouped == "premise" else 0
    sums, counts = gathered.tables.words.sum(axis=axis), gathered.tables.word_counts.sum(axis=axis)
    groups = [list(places) for places in gathered.probe.groups.values()]
    totals = np.array([[*sums[places].sum(axis=0), counts[places].sum()] for places in groups])
    return divided(totals[:, :-1], totals[:, -1])


def word_triples(gathered: Gathered, group: str) -> Matrix64:
    """The mean triple of each filler of a group, over all phrases and fillers of the other side."""
    axis = 1 if gathered.probe.grouped == "premise" else 0
    sums, counts = gathered.tables.words.sum(axis=axis), gathered.tables.word_counts.sum(axis=axis)
    found = divided(sums, counts)[list(gathered.probe.groups[group]), : len(LABELS)]
    return np.asarray(found[np.isfinite(found).all(axis=1)])


def _group_rows(gathered: Gathered, sampled: SampledValues, places: tuple[int, ...]) -> Rows:
    """Which sampled pairs are of a group."""
    points = sampled.sample.points
    member = points.premise if gathered.probe.grouped == "premise" else points.hypothesis
    return np.flatnonzero(np.isin(member, places))


def _group_reach(gathered: Gathered, places: tuple[int, ...]) -> Vector64 | None:
    if gathered.sampled is None:
        return None
    rows = _group_rows(gathered, gathered.sampled, places)
    return gathered.sampled.reach(rows) if len(rows) else None


def _scores(values: Vector64, drawn: Matrix64 | None, bounds: Matrix64 | None) -> list[Score]:
    """Values with their two intervals; draws and bounds may go on after the last of them."""
    pairs = enumerate(values.tolist())
    return [Score(value, _middle(drawn, place), _sampling(bounds, place)) for place, value in pairs]


def _around(values: Vector64, reach: Vector64 | None, least: float, most: float) -> Matrix64 | None:
    return None if reach is None else np.clip(np.stack([values - reach, values + reach]), least, most)


def _middle(drawn: Matrix64 | None, column: int) -> Interval:
    return interval(drawn[:, column]) if drawn is not None else None


def _sampling(bounds: Matrix64 | None, column: int) -> Interval:
    if bounds is None or not np.isfinite(bounds[:, column]).all():
        return None
    return float(bounds[0, column]), float(bounds[1, column])


def headline_draws(gathered: Gathered) -> dict[str, Vector64]:
    """Every score of `ProbeResult.headline` in each draw of words; nothing without a bootstrap.

    Runs on the same probe with the same seed draw the same words, so that draw i of one model can be set
    against draw i of another.
    """
    if gathered.resampled is None:
        return {}
    columns, means = gathered.columns, gathered.resampled.means()
    scores = {"net_neutral": "neutral", "fraction_neutral": "says_neutral"}
    scores |= {threshold_name(tau): threshold_name(tau) for tau in columns.thresholds}
    found = {score: means[:, columns.at(column)] for score, column in scores.items()}
    names = contrast(gathered)
    return found if names is None else found | _between(gathered, names)


def _between(gathered: Gathered, names: tuple[str, str]) -> dict[str, Vector64]:
    places = [list(gathered.probe.groups).index(name) for name in names]
    drawn = gathered.resampled.group_means() if gathered.resampled else None
    if drawn is None:
        return {}
    first, second = (drawn[:, place, : len(LABELS)] for place in places)
    gaps = {f"gap_{label}": (first - second)[:, number] for number, label in enumerate(LABELS)}
    return {**gaps, "d": marked.gender_gap(first, second), "E": marked.error(first, second)}
