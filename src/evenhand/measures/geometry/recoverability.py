"""Recoverability: can a classifier tell the side of biased words after mitigation? (Gonen & Goldberg 2019)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError, unknown_name
from evenhand.measures.geometry.bias_score import Pair, Score, pole_pair
from evenhand.measures.geometry.intervals import mean_interval
from evenhand.measures.geometry.word_selection import VOCABULARY, Restriction, extremes, pool
from evenhand.measures.measurement import Measurement, undefined, word_items
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.words import Concept, WordSet, as_concept

# scikit-learn's defaults of today, written out because they have changed before (gamma was "auto" until 0.22).
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "logistic": {"C": 1.0, "max_iter": 2_000},
    "linear-svm": {"C": 1.0},
    "rbf-svm": {"C": 1.0, "gamma": "scale"},
    "mlp": {"hidden_layer_sizes": (100,), "alpha": 1e-4, "learning_rate_init": 1e-3, "max_iter": 200},
}


INFO = Info(
    id="recoverability",
    title="Recoverability of bias by a classifier",
    takes="words",
    better="lower",
    formula="test accuracy of a classifier trained on a share of the n + n most biased words of the reference",
    reading="0.5: the side cannot be told. 1: it is fully there, whatever direct bias says.",
    limits=(
        "The words are chosen by their bias, so that vectors before any mitigation are near 1 by construction. A "
        "classifier that fails does not prove that another would; that a side can be told does not say that anything "
        "downstream uses it."
    ),
    cites=("gonen2019", "dawkins2021"),
    queries=(VOCABULARY,),
    family="geometry",
    needs_reference=True,
)


@measure(INFO)
def recoverability(
    vectors: Vectors,
    words: WordSet | str | Iterable[str] = VOCABULARY,
    *,
    classifier: str = "logistic",
    classifiers: Iterable[str] = tuple(SETTINGS),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    per_side: int = 2_500,
    train: float = 0.2,
    repeats: int = 3,
    score: Score = "cosine",
    pair: Pair | None = None,
    normalise: bool = False,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean test accuracy of `classifier` over seeded splits, balanced by side; the other classifiers in the details.

    Gonen & Goldberg train an RBF support vector machine on 1,000 of 5,000 words; Dawkins reports logistic regression
    with the same sizes. `options` overrides settings, as in {"rbf-svm": {"gamma": "auto"}}; all are in the parameters.
    A word's side is that of its score in the `reference`. The interval is over words, each with the mean of the
    splits that test it.

    What it does not tell you: whether anything uses the difference. See `evenhand show recoverability`.
    """
    asked = tuple(dict.fromkeys((classifier, *classifiers)))
    tuned = settings(asked, options or {})
    if not 0 < train < 1 or repeats < 1:
        raise UsageError(f"train must be between 0 and 1 and repeats at least 1, got {train} and {repeats}")
    about, before = as_concept(concept), reference or vectors
    ends = pole_pair(about, pair)
    every = pool(vectors, words, concept=about, restriction=restriction or Restriction(), reference=reference)
    chosen = {
        "classifier": classifier,
        "per_side": per_side,
        "train": train,
        "repeats": repeats,
        "score": score,
    }
    common: dict[str, Any] = {
        "query": every.name,
        "model": vectors.name,
        "params": {"concept": about.name, "pair": list(ends), "normalise": normalise, "settings": tuned}
        | chosen
        | every.rules,
        "seed": seed,
    }
    try:
        sides = extremes(every, before, ends, score=score, per_side=per_side)
        rows = sides.chosen.matrix(vectors)
    except (DegenerateError, VocabularyError) as error:
        return undefined("recoverability", error.message, every.coverage, **common)
    tested = np.stack([_tested(sides.per_side, train, seed + repeat) for repeat in range(repeats)])
    scaled = unit_rows(rows) if normalise else rows
    runs = {name: _run(name, tuned[name], scaled, sides.labels, tested, seed) for name in asked}
    right = runs[classifier].right
    return Measurement(
        "recoverability",
        float(right[tested].mean()),
        len(sides.chosen),
        every.coverage,
        interval=mean_interval(_by_word(right, tested), seed=seed),
        reading=f"a {classifier} classifier tells the side of {100 * right[tested].mean():.1f} % of unseen words",
        items=word_items(sides.chosen.words, sides.scores),
        details={
            "by_classifier": {name: run.to_dict(tested) for name, run in runs.items()},
            "trained_on": int((~tested[0]).sum()),
            "tested_on": int(tested[0].sum()),
        }
        | sides.to_dict(),
        **common,
    )


class _Run(NamedTuple):
    """One classifier over all splits: (repeats, words), whether it was right, and how many trainings converged."""

    right: NDArray[np.bool_]
    converged: int

    def to_dict(self, tested: NDArray[np.bool_]) -> dict[str, Any]:
        """Mean, least and most accuracy over the splits."""
        shares = [float(right[test].mean()) for right, test in zip(self.right, tested, strict=True)]
        spread = {"least": min(shares), "most": max(shares), "converged": self.converged}
        return {"mean": sum(shares) / len(shares)} | spread


def _tested(per_side: int, train: float, seed: int) -> NDArray[np.bool_]:
    """Which words are tested: all but the same number of randomly chosen ones of each side."""
    count = min(max(1, round(train * per_side)), per_side - 1)
    rng = np.random.default_rng(seed)
    trained = np.concatenate([side * per_side + rng.permutation(per_side)[:count] for side in (0, 1)])
    tested = np.ones(2 * per_side, dtype=bool)
    tested[trained] = False
    return tested


def _run(
    name: str, options: Mapping[str, Any], rows: Matrix64, labels: Rows, tested: NDArray[np.bool_], seed: int
) -> _Run:
    right = np.zeros(tested.shape, dtype=bool)
    converged = 0
    for repeat, test in enumerate(tested):
        answers, good = predicted(name, options, (rows[~test], labels[~test]), rows[test], seed=seed + repeat)
        right[repeat, test] = answers == labels[test]
        converged += good
    return _Run(right, converged)


def _by_word(right: NDArray[np.bool_], tested: NDArray[np.bool_]) -> Vector64:
    """The share of right answers for each word that some split tested."""
    times = tested.sum(axis=0)
    return np.asarray((right & tested).sum(axis=0)[times > 0] / times[times > 0])


def settings(names: tuple[str, ...], overrides: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings of each classifier asked for; an unknown one is an error."""
    for name in (*names, *overrides):
        if name not in SETTINGS:
            raise unknown_name("classifier", name, SETTINGS)
    return {name: {**SETTINGS[name], **overrides.get(name, {})} for name in names}


def predicted(
    name: str, options: Mapping[str, Any], train: tuple[Matrix64, Rows], test: Matrix64, *, seed: int
) -> tuple[Rows, bool]:
    """The labels that the trained classifier gives to the test rows, and whether its training converged."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        fitted = _made(name, options, seed).fit(*train)
    stopped_early = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return fitted.predict(test), not stopped_early


def _made(name: str, options: Mapping[str, Any], seed: int) -> Any:
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(**options)
    if name == "mlp":
        from sklearn.neural_network import MLPClassifier

        return MLPClassifier(**options, random_state=seed)
    from sklearn.svm import SVC

    return SVC(kernel="linear" if name == "linear-svm" else "rbf", **options)
