"""RNSB: does a sentiment classifier find all the words of people equally negative? (Sweeney & Najafian 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import UsageError
from evenhand.measures.association.located_query import MIN_SHARE, Gathered, gather_query
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import bootstrap, percentile_interval
from evenhand.words import Query
from evenhand.words import query as find_query

HELD_OUT = 0.2
FEWEST = 5  # the smallest set that leaves one word to test on
# liblinear and 10,000 steps as in WEFE; C = 1 is scikit-learn's own default, named because it moves the number.
CLASSIFIER: dict[str, Any] = {"solver": "liblinear", "max_iter": 10_000, "C": 1.0}
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
)


@measure(INFO)
def rnsb(
    vectors: Vectors,
    query: Query | str,
    *,
    sentiment: Query | str | None = None,
    splits: int = 20,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Kullback-Leibler divergence from uniform, averaged over splits, with a bootstrap interval over target words.

    The two attribute sets are the positive and the negative words, in this order, as WEAT has them (pleasant,
    unpleasant); `sentiment` takes them from another query ("weat-1"), for a query whose attributes mean other things.
    Each split trains on 80 % of them, drawn within each set, and rates all words of all target sets.

    What it does not tell you: which group is rated worse; and a classifier whose held-out accuracy (in the details) is
    near 0.5 rates noise.
    """
    if splits < 1:
        raise UsageError(f"rnsb needs at least 1 split, got {splits}", hint="use 10 or more: single splits vary a lot")
    asked = find_query(query)
    source = find_query(sentiment) if sentiment is not None else asked
    asked = Query(asked.name, asked.targets, source.attributes, asked.source)
    found = gather_query(vectors, asked, targets=None, attributes=2, min_share=min_share)
    good, bad = found.attributes
    params = {
        "splits": splits,
        "held_out": HELD_OUT,
        "negative": bad.name,
        "sentiment": source.name,
        "min_share": min_share,
    }
    common = found.common(vectors, params | CLASSIFIER, seed)
    if reason := _problem(found):
        return undefined("rnsb", reason, found.coverage, **common)
    targets = np.concatenate([group.rows for group in found.targets])
    states = [int(state) for state in np.random.SeedSequence(seed).generate_state(splits)]
    rated = [_rated(good.rows, bad.rows, targets, state) for state in states]
    negative = np.stack([probabilities for probabilities, _ in rated])
    values = divergences(negative, np.arange(len(targets))[None])[:, 0]
    return Measurement(
        "rnsb",
        float(values.mean()),
        len(targets),
        found.coverage,
        interval=_interval(negative, seed),
        reading=f"P({bad.name}) is uneven by {values.mean():.3f} nats over {len(targets)} words",
        items=_items(found, negative.mean(axis=0)),
        details={
            "over_splits": [float(values.min()), float(values.max())],
            "held_out_accuracy": float(np.mean([accuracy for _, accuracy in rated])),
            "group_means": _group_means(found, negative.mean(axis=0)),
            "random_states": states,
            **found.details(),
        },
        **common,
    )


def divergences(negative: Matrix64, drawn: Rows) -> Matrix64:
    """KL(P || uniform) for each split and each drawing of words: (splits, drawings).

    With r = p / mean p it is the mean of r log r, which is Theil's index of inequality.
    """
    chosen = negative[:, drawn]
    ratio = chosen / chosen.mean(axis=-1, keepdims=True)
    logs = np.log(ratio, out=np.zeros_like(ratio), where=ratio > 0)
    return np.asarray((ratio * logs).mean(axis=-1))


def _problem(found: Gathered) -> str:
    if found.problem:
        return found.problem
    small = [group.name for group in found.attributes if len(group.words) < FEWEST]
    if small:
        return f"{', '.join(small)} has fewer than {FEWEST} words, too few to train and test a classifier"
    if sum(len(group.words) for group in found.targets) < 2:
        return "one target word has nothing to be uneven with"
    return ""


def _rated(good: Matrix64, bad: Matrix64, targets: Matrix64, state: int) -> tuple[Vector64, float]:
    """P(negative) of each target word by one classifier, and its accuracy on the words held out."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    labels = np.repeat([1, -1], [len(good), len(bad)])
    train, test, train_labels, test_labels = train_test_split(
        np.vstack([good, bad]), labels, test_size=HELD_OUT, stratify=labels, random_state=state
    )
    classifier = LogisticRegression(**CLASSIFIER, random_state=state).fit(train, train_labels)
    probabilities = classifier.predict_proba(targets)[:, list(classifier.classes_).index(-1)]
    return np.asarray(probabilities, dtype=np.float64), float(classifier.score(test, test_labels))


def _interval(negative: Matrix64, seed: int) -> bootstrap.Interval:
    words = negative.shape[1]
    if words < 3:
        return None
    return percentile_interval(lambda rows: divergences(negative, rows).mean(axis=0), words, seed=seed)


def _items(found: Gathered, negative: Vector64) -> tuple[dict[str, Any], ...]:
    words = [(group.name, word) for group in found.targets for word in group.words]
    return tuple(
        {"word": word, "set": name, "value": float(value)} for (name, word), value in zip(words, negative, strict=True)
    )


def _group_means(found: Gathered, negative: Vector64) -> dict[str, float]:
    starts = np.cumsum([0, *(len(group.words) for group in found.targets)])
    spans = zip(found.targets, starts, starts[1:], strict=False)
    return {group.name: float(negative[start:end].mean()) for group, start, end in spans}
