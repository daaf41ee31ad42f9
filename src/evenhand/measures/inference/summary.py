"""Scores from the sums of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import FormatError
from evenhand.measures.inference import scores as mab_scores
from evenhand.measures.inference.accumulator import Accumulator, SampleStatistics
from evenhand.measures.inference.pair_statistics import OFF, divided, threshold_name
from evenhand.measures.inference.scores import Gap, GroupScores, Interval, MarkedBias, Neutrality, Score
from evenhand.models.nli import LABELS
from evenhand.stats import interval, permutation_test

ROUNDING = 1e-12


def neutrality(sums: Accumulator) -> Neutrality:
    """Return NN, FN and T:tau over sentences."""
    columns, means = sums.columns, sums.tables.means
    draws = sums.resamples.means() if sums.resamples else None
    bounds = sums.sample.bounds() if sums.sample else None

    def score(name: str) -> Score:
        column = columns.index(name)
        return Score(float(means[column]), _bootstrap_interval(draws, column), _sampling_interval(bounds, column))

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
            Score(float(values[columns.index("neutral")])),
            Score(float(values[columns.index("says_neutral")])),
            {tau: Score(float(values[columns.index(threshold_name(tau))])) for tau in columns.thresholds},
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
    test = mab_scores.gap_test(triples[0], triples[1], seed=seed)
    return MarkedBias(*names, distance, error, sentence_error, test.p_value, test.partitions, test.exact)


def _marked_values(means: Matrix64, shares: Vector64, off: int) -> Matrix64:
    """Return (..., 3) values of d, E, and E over sentences from the (..., 2, columns) means of two groups."""
    first, second = means[..., 0, : len(LABELS)], means[..., 1, : len(LABELS)]
    distance, error = mab_scores.gender_gap(first, second), mab_scores.error(first, second)
    return np.stack([distance, error, means[..., off] @ shares], axis=-1)


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


def _scores(values: Vector64, draws: Matrix64 | None, bounds: Matrix64 | None) -> list[Score]:
    """Return one score per value; draws and bounds may have further columns."""
    return [
        Score(value, _bootstrap_interval(draws, column), _sampling_interval(bounds, column))
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
    return draws | gaps | {"d": mab_scores.gender_gap(first, second), "E": mab_scores.error(first, second)}
