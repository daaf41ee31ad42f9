"""RNSB: does a sentiment classifier rate all words for people as equally negative? (Sweeney & Najafian 2019)."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.association.located_query import LocatedQuery, locate_query
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import jackknife_interval
from evenhand.stats.bootstrap import Interval, leave_one_out
from evenhand.stats.units import Units, linearised_units
from evenhand.words import Query
from evenhand.words import query as find_query


class ClassifierSettings(TypedDict):
    """Settings of the logistic regression."""

    solver: str
    max_iter: int
    C: float


HELD_OUT = 0.2
FEWEST = 5  # the smallest set that leaves one word to test on
# liblinear and 10,000 steps as in WEFE; C = 1 is scikit-learn's default, written out because it changes the number.
CLASSIFIER: ClassifierSettings = {"solver": "liblinear", "max_iter": 10_000, "C": 1.0}
INFO = Info(
    id="rnsb",
    title="Relative Negative Sentiment Bias",
    takes="query",
    better="zero",
    formula="RNSB = KL(P || uniform) in nats,  P(w) = p(negative | w) / sum over all targets, p: logistic regression",
    reading="0: every target word is equally negative for the classifier; above 0: some are more negative than others.",
    limits=(
        "It measures how unevenly single words are rated, not how the groups differ: see the group means in the "
        "details. It depends on the sentiment words; a list of a few dozen makes an unstable classifier."
    ),
    cites=("sweeney2019",),
    queries=("weat-3", "weat-10"),
    arity=(None, 2),
    generic=("pleasant-unpleasant",),
    definition=3,
)


@measure(INFO)
def rnsb(
    call: Call,
    vectors: Vectors,
    query: Query | str,
    *,
    sentiment: Query | str | None = None,
    splits: int = 20,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure how unevenly a sentiment classifier rates the target words, as a Kullback-Leibler divergence.

    It is defined for any number of target sets.

    Args:
        vectors: the vectors to measure.
        query: target sets, and two attribute sets: the positive and the negative words, in this order, as WEAT has
            them (pleasant, unpleasant).
        sentiment: another query ("weat-1") to take these two sets from, for a query whose attributes are not sentiment.
        splits: number of classifiers. Each is trained on 80 % of the sentiment words, drawn within each set, and rates
            all words of all target sets; the value is the mean over the splits.
        min_share: smallest share of each set that the vocabulary must have.
        reference: vectors before mitigation.
        seed: seed of the splits. The interval is over target words.

    Returns:
        The divergence from uniform in nats, with P(negative) of each word in `items` and the mean of each target set
        and the held-out accuracy in `details`.

    What it does not tell you: which group is rated worse; and a classifier whose held-out accuracy is near 0.5 rates
    noise.
    """
    if splits < 1:
        raise UsageError(f"splits must be at least 1, got {splits}", hint="use 10 or more: single splits vary a lot")
    source = find_query(sentiment if sentiment is not None else query)
    resolved = find_query(query)
    combined = Query(resolved.name, resolved.targets, source.attributes, resolved.source, concept=resolved.concept)
    located = locate_query(vectors, combined, targets=None, attributes=2)
    good, bad = located.attributes
    chosen = {"held_out": HELD_OUT, "negative": bad.name, "sentiment": source.name, **CLASSIFIER}
    call.describe(located.query, coverage=located.coverage, params=chosen)
    call.require(located.lists(), min_share)
    _require_words(located)
    targets = np.concatenate([group.rows for group in located.targets])
    states = [int(state) for state in np.random.SeedSequence(seed).generate_state(splits)]
    ratings = [_rate(good.rows, bad.rows, targets, state) for state in states]
    negative = np.stack([probabilities for probabilities, _ in ratings])
    mean_negative = negative.mean(axis=0)
    values = divergences(negative, np.arange(len(targets))[None])[:, 0]
    return call.measurement(
        float(values.mean()),
        len(targets),
        interval=_interval(negative),
        reading=f"P({bad.name}) is uneven by {values.mean():.3f} nats over {len(targets)} words",
        items=located.target_items(mean_negative),
        units=_units(located.target_names(), negative, float(values.mean())),
        details={
            "over_splits": [float(values.min()), float(values.max())],
            "held_out_accuracy": float(np.mean([accuracy for _, accuracy in ratings])),
            "group_means": {group.name: float(mean_negative[span].mean()) for group, span in located.target_spans()},
            "random_states": states,
            **located.details(),
        },
    )


def divergences(negative: Matrix64, draws: Rows) -> Matrix64:
    """Return KL(P || uniform) for each split and each draw of words: (splits, draws).

    With r = p / mean p it is the mean of r log r, which is Theil's index of inequality.
    """
    chosen = negative[:, draws]
    ratio = chosen / chosen.mean(axis=-1, keepdims=True)
    logs = np.log(ratio, out=np.zeros_like(ratio), where=ratio > 0)
    return np.asarray((ratio * logs).mean(axis=-1))


def _require_words(located: LocatedQuery) -> None:
    small = [group.name for group in located.attributes if len(group.words) < FEWEST]
    if small:
        raise DegenerateError(
            f"{', '.join(small)} has fewer than {FEWEST} words, too few to train and test a classifier"
        )
    if sum(len(group.words) for group in located.targets) < 2:
        raise DegenerateError("a single target word cannot be rated unevenly")


def _rate(good: Matrix64, bad: Matrix64, targets: Matrix64, state: int) -> tuple[Vector64, float]:
    """Train one classifier; return its P(negative) of each target word and its accuracy on the held-out words."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    labels = np.repeat([1, -1], [len(good), len(bad)])
    train, test, train_labels, test_labels = train_test_split(
        np.vstack([good, bad]), labels, test_size=HELD_OUT, stratify=labels, random_state=state
    )
    classifier = LogisticRegression(**CLASSIFIER, random_state=state).fit(train, train_labels)
    probabilities = classifier.predict_proba(targets)[:, list(classifier.classes_).index(-1)]
    return np.asarray(probabilities, dtype=np.float64), float(classifier.score(test, test_labels))


def _units(names: list[str], negative: Matrix64, value: float) -> tuple[Units, ...]:
    if len(names) < 3:
        return ()
    left_out = divergences(negative, leave_one_out(len(names))).mean(axis=0)
    return (linearised_units("word", names, value, left_out),)


def _interval(negative: Matrix64) -> Interval:
    """Leave out one word at a time, on the scale of logarithms.

    The bootstrap repeats the downward bias that the divergence of few words has: it covered .69 to .93.
    """
    logs = np.log(negative, out=np.zeros_like(negative), where=negative > 0)
    splits = len(negative)

    def divergence(sums: Matrix64) -> Vector64:
        totals, products, count = sums[:, :splits], sums[:, splits:-1], sums[:, -1:]
        return np.asarray((products / totals - np.log(totals / count)).mean(axis=1))

    columns = np.vstack([negative, negative * logs, np.ones(negative.shape[1])]).T
    return jackknife_interval(divergence, columns, scale="log")
