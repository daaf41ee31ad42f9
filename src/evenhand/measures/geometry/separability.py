"""Clustering and recoverability: can the most biased words still be told apart? (Gonen & Goldberg 2019)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64, as_float64, unit_rows
from evenhand.errors import DegenerateError, UsageError, unknown_name
from evenhand.measures.call import MIN_SHARE, Call, measure, word_interval
from evenhand.measures.geometry.biased_words import (
    VOCABULARY,
    BiasedWords,
    BiasScore,
    PolePair,
    Restriction,
    WordSource,
    concept_poles,
    select_most_biased,
    select_words,
)
from evenhand.measures.measurement import MOST, Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import share_interval
from evenhand.stats.bootstrap import Interval
from evenhand.stats.units import Units, mean_units, null_p, ratio_units
from evenhand.words import Concept, as_concept

if TYPE_CHECKING:
    from sklearn.base import ClassifierMixin

SideLabels = Rows  # one number for each word: its side, or its cluster


def tables(labels: SideLabels, clusters: SideLabels) -> Matrix64:
    """Return the counts (..., 2, 2) of label x cluster along the last axis of both."""
    cells = 2 * labels + clusters
    counts = np.stack([(cells == cell).sum(axis=-1) for cell in range(4)], axis=-1)
    return counts.reshape(*counts.shape[:-1], 2, 2).astype(np.float64)


def accuracy(counts: Matrix64) -> Vector64:
    """Return the share of words in the right cluster under the better of the two namings: 0.5 is chance, 1 perfect."""
    straight = counts[..., 0, 0] + counts[..., 1, 1]
    total = counts.sum(axis=(-2, -1))
    return np.asarray(np.maximum(straight, total - straight) / total)


def v_measure(counts: Matrix64) -> Vector64:
    """Return the harmonic mean of homogeneity and completeness (Rosenberg & Hirschberg 2007): 0 independent, 1 perfect.

    It is 2 I / (H(labels) + H(clusters)); one label and one cluster agree perfectly, as the paper defines it.
    """
    shares = counts / counts.sum(axis=(-2, -1), keepdims=True)
    labels, clusters = _entropy(shares.sum(axis=-1)), _entropy(shares.sum(axis=-2))
    mutual = labels + clusters - _entropy(shares.reshape(*shares.shape[:-2], 4))
    total = labels + clusters
    return np.asarray(np.divide(2 * mutual, total, out=np.ones_like(total), where=total > 0))


CLUSTERING_INFO = Info(
    id="clustering",
    title="Clustering of biased words",
    takes="words",
    better="lower",
    null=0.5,
    formula="accuracy (or v-measure) of 2-means against the side of the n + n most biased words of the reference",
    reading="Accuracy 0.5 (v-measure 0): the two sides are mixed. 1: the clusters are exactly the two sides.",
    limits=(
        "The words are chosen by their bias, so that vectors before any mitigation are near 1 by construction; only "
        "what is left afterwards is informative. 2-means finds the strongest division of these words, which may have "
        "another cause, and a low value does not keep a classifier from finding the sides."
    ),
    cites=("gonen2019", "wang2020", "dawkins2021"),
    queries=(VOCABULARY,),
    family="geometry",
    needs_reference=True,
    definition=2,
    two_groups=True,
    role="left",
    in_tradeoff=True,
    plain=4,
    charts=("clusters",),
)
Agreement = Literal["accuracy", "v-measure"]
SHUFFLES = 999  # of the sides, for the p-value
SAME_POINT = 1e-6  # of the largest coordinate: the precision of float32 vectors
FUNCTIONS = {"accuracy": accuracy, "v-measure": v_measure}


@measure(CLUSTERING_INFO)
def clustering(
    call: Call,
    vectors: Vectors,
    words: WordSource = VOCABULARY,
    *,
    per_side: int = 500,
    value: Agreement = "accuracy",
    score: BiasScore = "cosine",
    pair: PolePair | None = None,
    normalise: bool = False,
    runs: int = 5,
    starts: int = 10,
    min_share: float = MIN_SHARE,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure how well 2-means clusters agree with the side of the most biased words, as a mean over seeded runs.

    Args:
        vectors: the vectors to measure; they are clustered.
        words: a list of words, its id or its file; the restricted vocabulary by default.
        per_side: number of words on each side. Gonen & Goldberg take 500, Wang 100, 500 and 1,000, Dawkins 1,500.
        value: "accuracy", or "v-measure" as Dawkins reports; the details have both.
        score: the bias score that chooses the words in the reference: "cosine" as Gonen & Goldberg, "projection" as
            Dawkins; see `bias_scores`.
        pair: the two poles; by default those of the concept.
        normalise: scale words to length 1 before clustering.
        runs: number of seeds; the details have the range over them, which can be wide where clusters are weak.
        starts: initialisations of each run, of which the best counts.
        min_share: smallest share of the words, and of the concept's groups, that the vocabulary must have.
        concept: the concept. Without a published pair, the sides are its positive group and all others together.
        restriction: how the vocabulary is restricted.
        reference: vectors before mitigation, which decide the words and their sides; these vectors by default. The
            details have the same numbers of the reference under "before".
        seed: seed of the runs and of the bootstrap over words and runs.

    Returns:
        The mean agreement, with bias score, cluster and position on two principal components of each word in `items`.

    What it does not tell you: that bias is gone when it is low. See `evenhand show clustering`.
    """
    if value not in get_args(Agreement):
        raise UsageError(f"unknown value {value!r}", hint="use accuracy or v-measure")
    if runs < 1 or starts < 1:
        raise UsageError(f"runs and starts must be at least 1, got runs={runs}, starts={starts}")
    concept, original = as_concept(concept), reference or vectors
    poles = concept_poles(concept, pair)
    selection = select_words(vectors, words, concept=concept, restriction=restriction, reference=reference)
    call.describe(selection.name, coverage=selection.coverage, params={**poles.to_dict(), **selection.restriction})
    call.require((*selection.lists(), *poles.lists(original)), min_share)
    cluster = partial(two_means, normalise=normalise, runs=runs, starts=starts, seed=seed)
    biased = select_most_biased(selection, original, poles, score=score, per_side=per_side)
    clusters = cluster(biased.selection.matrix(vectors))
    earlier = None if original is vectors else cluster(as_float64(original.matrix[biased.selection.reference_rows]))
    counts = tables(biased.labels, clusters)
    return call.measurement(
        float(FUNCTIONS[value](counts).mean()),
        len(biased.selection),
        interval=_interval(biased.labels, clusters, value, seed),
        reading=f"2-means finds the side of {100 * accuracy(counts).mean():.1f} % of the words (50 % is chance)",
        p_value=_chance_p(biased.labels, clusters, value, seed),
        items=_items(biased, vectors, clusters[0]),
        units=_units(biased.selection.words, biased.labels, clusters, value),
        details={
            **biased.to_dict(),
            **_ranges(biased.labels, clusters),
            **({} if earlier is None else {"before": _ranges(biased.labels, earlier)}),
        },
    )


def two_means(rows: Matrix64, *, normalise: bool, runs: int, starts: int, seed: int) -> Rows:
    """Return (runs, words): the cluster of each word, each run with its own seed."""
    from sklearn.cluster import KMeans  # slow to import
    from threadpoolctl import threadpool_limits

    scaled = unit_rows(rows) if normalise else rows
    if np.ptp(scaled, axis=0).max() <= SAME_POINT * max(1.0, float(np.abs(scaled).max())):
        raise DegenerateError("all chosen words have the same vector, so that there are no clusters")
    with threadpool_limits(1):  # threads that share so few rows mostly wait for each other
        clusters = [KMeans(2, n_init=starts, random_state=seed + run).fit_predict(scaled) for run in range(runs)]
    return np.asarray(clusters, dtype=np.int64)


def _items(biased: BiasedWords, vectors: Vectors, clusters: Rows) -> tuple[Mapping[str, object], ...]:
    """Return the most biased words of each side, with cluster and place on a picture."""
    plane = _plane(biased.selection.matrix(vectors), biased.labels)
    ends = [row for side in (0, 1) for row in np.flatnonzero(biased.labels == side)[: MOST // 2]]
    return tuple(
        {
            "word": biased.selection.words[row],
            "value": float(biased.scores[row]),
            "cluster": int(clusters[row]),
            "x": float(plane[row, 0]),
            "y": float(plane[row, 1]),
        }
        for row in ends
    )


def _plane(rows: Matrix64, labels: Rows) -> Matrix64:
    """Return coordinates on the first two principal components, (words, 2), with the positive side on the right."""
    centred = rows - rows.mean(axis=0)
    _, _, right = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(rows), 2))
    plane[:, : len(right[:2])] = centred @ right[:2].T
    if plane[labels == 0, 0].mean() < plane[labels == 1, 0].mean():
        plane[:, 0] *= -1
    return np.asarray(np.round(plane / (np.abs(plane).max() or 1.0), 3), dtype=np.float64)


def _ranges(labels: Rows, clusters: Rows) -> dict[str, dict[str, float]]:
    """Return mean, minimum and maximum of both agreements over the runs."""
    counts = tables(labels, clusters)
    values = {name: function(counts) for name, function in FUNCTIONS.items()}
    return {
        name: {"mean": float(v.mean()), "least": float(v.min()), "most": float(v.max())} for name, v in values.items()
    }


def _interval(labels: Rows, clusters: Rows, value: Agreement, seed: int) -> Interval:
    """Resample words with replacement and pick one of the runs for each draw, so that both widen the interval."""
    rng = np.random.default_rng(seed)

    def agreement(rows: Rows) -> Vector64:
        run = rng.integers(len(clusters), size=(len(rows), 1))
        return FUNCTIONS[value](tables(labels[rows], clusters[run, rows]))

    return word_interval(agreement, len(labels), seed=seed + 1)


def _units(words: Sequence[str], labels: Rows, clusters: Rows, value: Agreement) -> tuple[Units, ...]:
    """Return for each word the share of the runs that put it on its side; the V-measure is no mean over words."""
    if value != "accuracy":
        return ()
    agree = clusters == labels
    sides = np.where(agree.mean(axis=1, keepdims=True) >= 0.5, agree, ~agree)
    return (mean_units("word", words, sides.mean(axis=0)),)


def _chance_p(labels: Rows, clusters: Rows, value: Agreement, seed: int) -> float:
    """Return the p-value over assignments of the words to the two sides.

    The better of two matchings is never below one half, so a test against one half would find clusters in noise.
    """
    rng = np.random.default_rng(seed)
    dealt = rng.permuted(np.broadcast_to(labels, (SHUFFLES, len(labels))), axis=1)
    runs = [FUNCTIONS[value](tables(dealt, run)) for run in clusters]
    observed = float(FUNCTIONS[value](tables(labels, clusters)).mean())
    return float((np.count_nonzero(np.mean(runs, axis=0) >= observed - 1e-12) + 1) / (SHUFFLES + 1))


def _entropy(shares: Matrix64) -> Vector64:
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=-1))


Settings = Mapping[str, object]
# scikit-learn's current defaults, written out because they have changed before (gamma was "auto" until 0.22).
SETTINGS: Mapping[str, Settings] = {
    "logistic": {"C": 1.0, "max_iter": 2_000},
    "linear-svm": {"C": 1.0},
    "rbf-svm": {"C": 1.0, "gamma": "scale"},
    "mlp": {"hidden_layer_sizes": (100,), "alpha": 1e-4, "learning_rate_init": 1e-3, "max_iter": 200},
}
CHANCE = 0.5  # the sides are of equal size
RECOVERABILITY_INFO = Info(
    id="recoverability",
    title="Recoverability of bias by a classifier",
    takes="words",
    better="lower",
    null=CHANCE,
    formula="test accuracy of a classifier trained on a share of the n + n most biased words of the reference",
    reading="0.5: the side cannot be predicted. 1: it is fully recoverable, whatever direct bias says.",
    limits=(
        "The words are chosen by their bias, so that vectors before any mitigation are near 1 by construction. A "
        "classifier that fails does not prove that another would fail; that a side can be predicted does not say that "
        "anything downstream uses it."
    ),
    cites=("gonen2019", "dawkins2021"),
    queries=(VOCABULARY,),
    family="geometry",
    needs_reference=True,
    definition=3,
    two_groups=True,
    role="left",
    in_tradeoff=True,
    plain=3,
)


@measure(RECOVERABILITY_INFO)
def recoverability(
    call: Call,
    vectors: Vectors,
    words: WordSource = VOCABULARY,
    *,
    classifier: str = "logistic",
    classifiers: Iterable[str] = tuple(SETTINGS),
    options: Mapping[str, Settings] | None = None,
    per_side: int = 2_500,
    train: float = 0.2,
    repeats: int = 3,
    score: BiasScore = "cosine",
    pair: PolePair | None = None,
    normalise: bool = False,
    min_share: float = MIN_SHARE,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the test accuracy of a classifier that predicts the side of biased words, as a mean over seeded splits.

    Args:
        vectors: the vectors to measure; the classifier sees them.
        words: a list of words, its id or its file; the restricted vocabulary by default.
        classifier: the one whose accuracy is the value. Gonen & Goldberg use "rbf-svm", Dawkins "logistic".
        classifiers: further classifiers, reported in the details.
        options: settings that replace the defaults, as in {"rbf-svm": {"gamma": "auto"}}; all are in the parameters.
        per_side: number of words on each side; both papers take 2,500.
        train: share of the words to train on, balanced by side; both papers take 0.2.
        repeats: number of splits.
        score: the bias score that chooses the words in the reference, see `bias_scores`.
        pair: the two poles; by default those of the concept.
        normalise: scale words to length 1 first.
        min_share: smallest share of the words, and of the concept's groups, that the vocabulary must have.
        concept: the concept. Without a published pair, the sides are its positive group and all others together.
        restriction: how the vocabulary is restricted.
        reference: vectors before mitigation, which decide the words and their sides; these vectors by default.
        seed: seed of the splits and the classifiers. The interval is over words, each with the mean of the splits that
            test it.

    Returns:
        The mean accuracy, with the bias score of each word in `items`.

    What it does not tell you: whether anything uses the difference. See `evenhand show recoverability`.
    """
    names = tuple(dict.fromkeys((classifier, *classifiers)))
    settings = classifier_settings(names, options or {})
    if not 0 < train < 1 or repeats < 1:
        raise UsageError(f"train must be between 0 and 1 and repeats at least 1, got {train} and {repeats}")
    concept, original = as_concept(concept), reference or vectors
    poles = concept_poles(concept, pair)
    selection = select_words(vectors, words, concept=concept, restriction=restriction, reference=reference)
    took_effect = {"settings": settings, **poles.to_dict(), **selection.restriction}
    call.describe(selection.name, coverage=selection.coverage, params=took_effect)
    call.require((*selection.lists(), *poles.lists(original)), min_share)
    biased = select_most_biased(selection, original, poles, score=score, per_side=per_side)
    rows = biased.selection.matrix(vectors)
    scaled = unit_rows(rows) if normalise else rows
    tested = np.stack([_test_mask(biased.per_side, train, seed + repeat) for repeat in range(repeats)])
    runs = {name: _evaluate(name, settings[name], scaled, biased.labels, tested, seed) for name in names}
    correct = runs[classifier].correct
    value = float(correct[tested].mean())
    units = _recoverability_units(biased.selection.words, correct, tested)
    return call.measurement(
        value,
        len(biased.selection),
        interval=share_interval(_accuracy_by_word(correct, tested)),
        reading=(
            f"a {classifier} classifier tells for {100 * value:.1f} % of unseen words which side they were nearer to"
        ),
        p_value=null_p(units, CHANCE),
        items=word_items(biased.selection.words, biased.scores),
        units=(units,),
        details={
            "by_classifier": {name: run.to_dict(tested) for name, run in runs.items()},
            "trained_on": int((~tested[0]).sum()),
            "tested_on": int(tested[0].sum()),
            **biased.to_dict(),
        },
    )


class _Evaluation(NamedTuple):
    """One classifier over all splits: (repeats, words) correct answers, and how many trainings converged."""

    correct: NDArray[np.bool_]
    converged: int

    def to_dict(self, tested: NDArray[np.bool_]) -> dict[str, float]:
        """Return mean, minimum and maximum accuracy over the splits."""
        shares = [float(correct[test].mean()) for correct, test in zip(self.correct, tested, strict=True)]
        spread = {"least": min(shares), "most": max(shares), "converged": self.converged}
        return {"mean": sum(shares) / len(shares), **spread}


def _test_mask(per_side: int, train: float, seed: int) -> NDArray[np.bool_]:
    """Return which words are tested: all but an equal number of randomly chosen ones of each side."""
    count = min(max(1, round(train * per_side)), per_side - 1)
    rng = np.random.default_rng(seed)
    trained = np.concatenate([side * per_side + rng.permutation(per_side)[:count] for side in (0, 1)])
    tested = np.ones(2 * per_side, dtype=bool)
    tested[trained] = False
    return tested


def _evaluate(
    name: str, options: Settings, rows: Matrix64, labels: Rows, tested: NDArray[np.bool_], seed: int
) -> _Evaluation:
    correct = np.zeros(tested.shape, dtype=bool)
    converged = 0
    for repeat, test in enumerate(tested):
        answers, success = predict(name, options, (rows[~test], labels[~test]), rows[test], seed=seed + repeat)
        correct[repeat, test] = answers == labels[test]
        converged += success
    return _Evaluation(correct, converged)


def _recoverability_units(words: Sequence[str], correct: NDArray[np.bool_], tested: NDArray[np.bool_]) -> Units:
    """Return the words with how often each was tested, and how often its side was told."""
    times, right = tested.sum(axis=0), (correct & tested).sum(axis=0)
    asked = np.flatnonzero(times)
    return ratio_units("word", [words[row] for row in asked.tolist()], right[asked], times[asked])


def _accuracy_by_word(correct: NDArray[np.bool_], tested: NDArray[np.bool_]) -> Vector64:
    """Return the share of correct answers for each word that some split tested."""
    times = tested.sum(axis=0)
    return np.asarray((correct & tested).sum(axis=0)[times > 0] / times[times > 0])


def classifier_settings(names: tuple[str, ...], overrides: Mapping[str, Settings]) -> dict[str, dict[str, object]]:
    """Return the settings of each classifier; raise `UnknownNameError` for an unknown one."""
    for name in (*names, *overrides):
        if name not in SETTINGS:
            raise unknown_name("classifier", name, SETTINGS)
    return {name: {**SETTINGS[name], **overrides.get(name, {})} for name in names}


def predict(
    name: str, options: Settings, train: tuple[Matrix64, Rows], test: Matrix64, *, seed: int
) -> tuple[Rows, bool]:
    """Train a classifier; return the labels it gives to the test rows, and whether its training converged."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    # Products of a few hundred rows are too small to be shared by threads.
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        answers: Rows = _make_classifier(name, options, train[0], seed).fit(*train).predict(test)
    return answers, not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)


def _make_classifier(name: str, options: Settings, rows: Matrix64, seed: int) -> ClassifierMixin:
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(**options)
    if name == "mlp":
        from sklearn.neural_network import MLPClassifier

        return MLPClassifier(**options, random_state=seed)
    from sklearn.svm import SVC

    if name == "linear-svm":
        return SVC(kernel="linear", **options)
    from sklearn.metrics.pairwise import rbf_kernel

    # The same kernel as kernel="rbf", from one product of matrices instead of one value after the other.
    others = {option: value for option, value in options.items() if option != "gamma"}
    return SVC(kernel=partial(rbf_kernel, gamma=_gamma(options["gamma"], rows)), **others)


def _gamma(gamma: object, rows: Matrix64) -> object:
    """Return the number that "scale" or "auto" stands for, as scikit-learn defines it."""
    dim, variance = rows.shape[1], float(rows.var())
    if gamma == "scale":
        return 1 / (dim * variance) if variance else 1.0
    return 1 / dim if gamma == "auto" else gamma
