"""BAT: do analogies between two groups complete in the stereotypical way? (Lauscher et al. 2020)."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix64, row_norms, unit_rows
from evenhand.errors import DegenerateError
from evenhand.measures.association.located_query import locate_query
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import clustered_interval, crossed_share_note
from evenhand.stats.units import mean_units
from evenhand.words import Query

CELLS_AT_ONCE = 4 << 20  # comparisons held at once
INFO = Info(
    id="bat",
    title="Bias Analogy Test",
    takes="query",
    better="lower",
    formula=(
        "share of (t1, t2, a1, a2, a') with |q1 - a1| < |q1 - a'|, a' in A2 without a2, q1 = t1 - t2 + a2, "
        "and with |q2 - a2| < |q2 - a'|, a' in A1 without a1, q2 = a1 - t1 + t2"
    ),
    reading=(
        "1: t1 : t2 always leads from the second attributes to the first and back; 0: never. Without association it "
        "equals the share with the two target sets swapped, `swapped` in the details."
    ),
    limits=(
        "The query word itself is nearest to most queries, and the test compares only within the two attribute sets: "
        "it does not say that the analogy is the nearest word of the vocabulary. There is no fixed chance level: each "
        "query starts at a word of one set, so that attribute sets that form clusters have values far below 0.5."
    ),
    cites=("lauscher2020",),
    queries=("weat-6", "weat-7", "weat-8"),
    arity=(2, 2),
    definition=3,
)


@measure(INFO)
def bat(
    call: Call,
    vectors: Vectors,
    query: Query | str,
    *,
    normalise: bool = False,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure how often an analogy between two groups is completed by an attribute of the expected set.

    For every pair of target words t1, t2 and every pair of attribute words a1, a2, the point t1 - t2 + a2 should be
    nearer to a1 than to another word of the second attribute set, if the vectors hold the stereotype; and a1 - t1 + t2
    nearer to a2 than to another word of the first set. The value is the share of such comparisons, by Euclidean
    distance, as Lauscher et al. define it. Their released code counts only the last pair of target words and cuts
    attribute sets to equal size; here all pairs and all words count. Ties count one half.

    Args:
        vectors: the vectors to measure.
        query: two target sets and two attribute sets; a positive association is first with first.
        normalise: scale every word to length 1 first.
        min_share: smallest share of each set that the vocabulary must have.
        reference: vectors before mitigation.
        seed: recorded only; nothing is drawn at random.

    Returns:
        The share, with that of each target word in `items`; in `details` that of both kinds of queries, and
        `swapped`, the share with the target sets exchanged, which is the level without association.

    What it does not tell you: whether any of these analogies would be found in a search of the whole vocabulary.
    """
    located = locate_query(vectors, query, targets=2, attributes=2)
    call.describe(located.query, coverage=located.coverage)
    call.require(located.lists(), min_share)
    located.require_distinct_means()
    if single := [group.name for group in located.attributes if len(group.words) < 2]:
        raise DegenerateError(f"{' and '.join(single)} has one word, so that there is no other word to compare with")
    x, y, a, b = (unit_rows(group.rows) if normalise else group.rows for group in located.sets)
    first, second = analogy_shares(x, y, a, b), analogy_shares(y, x, b, a).T
    shares = _combine(first, second, len(a), len(b))
    swapped = _combine(analogy_shares(y, x, a, b).T, analogy_shares(x, y, b, a), len(a), len(b))
    value, opposite = float(shares.mean()), float(swapped.mean())
    first_words, second_words = (group.words for group in located.targets)
    t1, t2 = (group.name for group in located.targets)
    a1, a2 = (group.name for group in located.attributes)
    rows, columns = np.indices(shares.shape).reshape(2, -1).tolist()
    clusters = {
        "first target": [first_words[row] for row in rows],
        "second target": [second_words[column] for column in columns],
    }
    return call.measurement(
        value,
        len(x) + len(y),
        interval=clustered_interval(shares.ravel(), list(clusters.values()), share=True),
        reading=f"{100 * value:.1f} % of the analogies {t1} : {a1} :: {t2} : {a2} hold, "
        f"{100 * opposite:.1f} % with the groups swapped",
        items=_items(first_words, second_words, shares, (t1, t2)),
        units=tuple(mean_units(kind, labels, shares.ravel()) for kind, labels in clusters.items()),
        note=crossed_share_note(value, list(clusters.values())),
        details={
            "swapped": opposite,
            "by_query": {f"{t1} - {t2} + {a2}": float(first.mean()), f"{a1} - {t1} + {t2}": float(second.mean())},
            **located.details(),
        },
    )


def analogy_shares(x: Matrix64, y: Matrix64, a: Matrix64, b: Matrix64) -> Matrix64:
    """Return for each (x, y) the share of (a, b, b') with |x - y + b - a| < |x - y + b - b'|, b' another row of b.

    With q = x - y + b, |q - c|^2 = |q|^2 + |c|^2 - 2 q.c, and q.c is a sum of three inner products, so that no query
    point has to be built. Equal distances count one half.
    """
    cross, within = b @ a.T, b @ b.T  # (b, a), (b, b')
    norms_a, norms_b = row_norms(a) ** 2, row_norms(b) ** 2
    off_diagonal = ~np.eye(len(b), dtype=bool)
    shares = np.empty((len(x), len(y)))
    step = max(1, CELLS_AT_ONCE // (len(b) * len(a) * len(b)))
    for row, point in enumerate(x):
        for start in range(0, len(y), step):
            difference = point - y[start : start + step]
            near = norms_a - 2 * ((difference @ a.T)[:, None, :] + cross)  # (y, b, a)
            far = norms_b - 2 * ((difference @ b.T)[:, None, :] + within)  # (y, b, b')
            gap = far[:, :, None, :] - near[:, :, :, None]  # (y, b, a, b')
            scale = 1e-12 * (np.abs(near).max() + np.abs(far).max())
            wins = np.where(np.abs(gap) <= scale, 0.5, gap > 0) * off_diagonal[:, None, :]
            shares[row, start : start + step] = wins.sum(axis=(1, 2, 3)) / (len(a) * len(b) * (len(b) - 1))
    return shares


def _combine(first: Matrix64, second: Matrix64, n_a: int, n_b: int) -> Matrix64:
    """Return the mean of both kinds of queries, every comparison with the same weight."""
    return (first * (n_b - 1) + second * (n_a - 1)) / (n_a + n_b - 2)


def _items(
    first: tuple[str, ...], second: tuple[str, ...], shares: Matrix64, names: tuple[str, str]
) -> tuple[MeasuredItem, ...]:
    rows = [(word, names[0], value) for word, value in zip(first, shares.mean(axis=1), strict=True)]
    columns = [(word, names[1], value) for word, value in zip(second, shares.mean(axis=0), strict=True)]
    return tuple({"word": word, "set": name, "value": float(value)} for word, name, value in rows + columns)
