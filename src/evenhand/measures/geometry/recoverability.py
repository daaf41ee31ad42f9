"""Recoverability: can a classifier tell the side of biased words after mitigation? (Gonen & Goldberg 2019)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import UsageError, unknown_name
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.geometry.bias_score import Pair, Score, concept_poles
from evenhand.measures.geometry.word_selection import (
    VOCABULARY,
    Restriction,
    Words,
    select_most_biased,
    select_words,
)
from evenhand.measures.measurement import Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import share_interval
from evenhand.stats.units import Units, null_p, ratio_units
from evenhand.words import Concept, as_concept

Settings = Mapping[str, object]
# scikit-learn's current defaults, written out because they have changed before (gamma was "auto" until 0.22).
SETTINGS: Mapping[str, Settings] = {
    "logistic": {"C": 1.0, "max_iter": 2_000},
    "linear-svm": {"C": 1.0},
    "rbf-svm": {"C": 1.0, "gamma": "scale"},
    "mlp": {"hidden_layer_sizes": (100,), "alpha": 1e-4, "learning_rate_init": 1e-3, "max_iter": 200},
}
CHANCE = 0.5  # the sides are of equal size
INFO = Info(
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


@measure(INFO)
def recoverability(
    call: Call,
    vectors: Vectors,
    words: Words = VOCABULARY,
    *,
    classifier: str = "logistic",
    classifiers: Iterable[str] = tuple(SETTINGS),
    options: Mapping[str, Settings] | None = None,
    per_side: int = 2_500,
    train: float = 0.2,
    repeats: int = 3,
    score: Score = "cosine",
    pair: Pair | None = None,
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
    units = _units(biased.selection.words, correct, tested)
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


def _units(words: Sequence[str], correct: NDArray[np.bool_], tested: NDArray[np.bool_]) -> Units:
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


class Estimator(Protocol):
    """What is used of a scikit-learn classifier."""

    def fit(self, X: Matrix64, y: Rows) -> Estimator:
        """Train on rows and their labels."""

    def predict(self, X: Matrix64) -> Rows:
        """Return the labels of rows."""


def predict(
    name: str, options: Settings, train: tuple[Matrix64, Rows], test: Matrix64, *, seed: int
) -> tuple[Rows, bool]:
    """Train a classifier; return the labels it gives to the test rows, and whether its training converged."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        fitted = _make_classifier(name, options, seed).fit(*train)
    stopped_early = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return fitted.predict(test), not stopped_early


def _make_classifier(name: str, options: Settings, seed: int) -> Estimator:
    classifier: Estimator
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        classifier = LogisticRegression(**options)
    elif name == "mlp":
        from sklearn.neural_network import MLPClassifier

        classifier = MLPClassifier(**options, random_state=seed)
    else:
        from sklearn.svm import SVC

        classifier = SVC(kernel="linear" if name == "linear-svm" else "rbf", **options)
    return classifier
