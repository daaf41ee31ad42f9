"""Ethayarajh, Duvenaud & Hirst 2019: single-word WEATs can be made to give any result (table 1, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand import measures
from evenhand.arrays import Matrix64, unit_rows
from evenhand.errors import UsageError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.reproduce.table import PaperTable
from evenhand.words import concept, query

Words = Sequence[str]
# PaperTable 1 as printed: statistic, effect size, p-value.
PUBLISHED: Mapping[str, tuple[float, float, float]] = {
    "door-curtain-masculine-feminine": (0.021, 2.0, 0.0),
    "door-curtain-girlish-boyish": (-0.042, -2.0, 0.5),
    "door-curtain-woman-man": (0.071, 2.0, 0.0),
    "dog-cat-masculine-feminine": (0.063, 2.0, 0.0),
    "dog-cat-actress-actor": (-0.075, -2.0, 0.5),
    "dog-cat-womanly-manly": (0.001, 2.0, 0.0),
    "bowtie-corsage-masculine-feminine": (0.017, 2.0, 0.0),
    "bowtie-corsage-woman-masculine": (-0.071, -2.0, 0.5),
    "bowtie-corsage-girly-masculine": (0.054, 2.0, 0.0),
}
TARGETS = (("door", "curtain"), ("dog", "cat"), ("bowtie", "corsage"))
# The attribute words of table 1, which are added to the group words of the concept.
FEMALE = ("feminine", "girlish", "womanly", "girly", "actress")
MALE = ("masculine", "boyish", "manly", "actor")
RANDOM_WORDS = 300


@dataclass(frozen=True)
class Contrived:
    """Two attribute words, one of each list, with which the first target is associated with one of them."""

    towards: str
    attributes: tuple[str, str] | None
    statistic: float | None
    share: float
    """Share of all candidate attribute pairs with this outcome."""


def table_1(vectors: Vectors, *, seed: int = 0) -> PaperTable:
    """Return table 1: nine single-word WEATs, whose effect size is 2 or -2 and p 0 or 0.5 for any vectors."""
    rows = tuple(_row(vectors, name, *printed, seed=seed) for name, printed in PUBLISHED.items())
    columns = ("targets", "attributes", "statistic (paper)", "statistic", "effect (paper)", "effect", "p (paper)", "p")
    return PaperTable(
        "Ethayarajh et al. 2019, table 1: single-word WEAT",
        columns,
        rows,
        (
            f"Ours on {vectors.name}; the paper's (SGNS on Wikipedia) were not released, hence other statistics.",
            "Population deviation (ddof=0), one-sided p and strictly larger partitions (ties='gt'): with two words "
            "there are two partitions, so effect = 2 sign(statistic) and p = 0 or 0.5 by construction. "
            "Neither is evidence of anything.",
        ),
    )


def contrived(vectors: Vectors, *, seed: int = 0) -> PaperTable:
    """Return section 4: attributes that make the first word of each pair look female, and others for the opposite."""
    female, male = candidates(vectors)
    rows = []
    for pair in TARGETS:
        for result in find_attributes(vectors, pair, {"female": female, "male": male}):
            attributes = " / ".join(result.attributes) if result.attributes else None
            rows.append((" / ".join(pair), result.towards, attributes, result.statistic, result.share))
    chance = manipulable_share(vectors, _random_words(vectors, seed), {"female": female, "male": male})
    return PaperTable(
        "Ethayarajh et al. 2019, section 4: contrived attributes",
        ("targets", "the first looks", "attributes", "statistic", "share of attribute pairs"),
        tuple(rows),
        (
            f"{len(female)} female and {len(male)} male candidates on {vectors.name}; the strongest pair is shown, "
            "with effect size 2 and p 0.",
            f"Of all pairs among {RANDOM_WORDS} random words {100 * chance:.1f} % can be made to lean either way.",
        ),
    )


def find_attributes(
    vectors: Vectors, targets: tuple[str, str], candidates: Mapping[str, Words]
) -> tuple[Contrived, Contrived]:
    """Return the attribute pair that associates the first target most with the first list, and that for the second.

    With single words, the statistic is g(a) - g(b) with g(a) = cos(first target, a) - cos(second target, a), so its
    sign depends on the choice of the two attribute words.

    Args:
        vectors: the vectors.
        targets: two target words.
        candidates: two named lists of attribute words.

    Returns:
        One result per list; `attributes` is None if no pair of candidates gives that outcome.
    """
    names, words, unit = _candidate_rows(vectors, candidates)
    first, second = unit_rows(np.stack([_row_of(vectors, word) for word in targets]))
    g = [rows @ (first - second) for rows in unit]
    statistics = g[0][:, None] - g[1][None, :]
    return (
        _strongest(names[0], words[0], words[1], statistics),
        _strongest(names[1], words[1], words[0], -statistics.T),
    )


def manipulable_share(vectors: Vectors, words: Iterable[str], candidates: Mapping[str, Words]) -> float:
    """Return the share of all pairs of words for which candidate attributes exist for both outcomes."""
    rows, _ = vectors.take(words)
    _, _, (first, second) = _candidate_rows(vectors, candidates)
    near, far = (unit_rows(rows) @ side.T for side in (first, second))
    pairs = np.triu_indices(len(rows), 1)
    up = _largest(near, pairs) - _smallest(far, pairs)
    down = _smallest(near, pairs) - _largest(far, pairs)
    return float(((up > 0) & (down < 0)).mean())


def candidates(vectors: Vectors) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the female and male attribute words in the vocabulary: the concept's groups and the words of table 1."""
    groups = concept("gender").groups
    lists = ((*groups["female"], *FEMALE), (*groups["male"], *MALE))
    female, male = (tuple(dict.fromkeys(word for word in words if vectors.find(word))) for words in lists)
    return female, male


def _row(vectors: Vectors, name: str, statistic: float, effect: float, p_value: float, *, seed: int) -> tuple[Any, ...]:
    item = query(f"ethayarajh2019-{name}")
    ours = measures.weat(vectors, item, ddof=0, alternative="greater", ties="gt", seed=seed)
    targets, attributes = (" / ".join(group.words[0] for group in sets) for sets in (item.targets, item.attributes))
    value = ours.details.get("statistic")
    return targets, attributes, statistic, value, effect, ours.value, p_value, ours.p_value


def _candidate_rows(
    vectors: Vectors, lists: Mapping[str, Words]
) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[Matrix64]]:
    if len(lists) != 2:
        raise UsageError(f"candidates must be two named lists of words, got {len(lists)}")
    taken = [vectors.take(words) for words in lists.values()]
    for name, (rows, _) in zip(lists, taken, strict=True):
        if not len(rows):
            raise VocabularyError(f"no candidate of {name!r} is in {vectors.name}", hint="use other words")
    return tuple(lists), [account.found for _, account in taken], [unit_rows(rows) for rows, _ in taken]


def _row_of(vectors: Vectors, word: str) -> Any:
    return vectors[vectors.find(word) or word].astype(np.float64)


def _strongest(towards: str, own: tuple[str, ...], other: tuple[str, ...], statistics: Matrix64) -> Contrived:
    """Return the strongest pair, own attribute first: a positive statistic associates the first target with it."""
    share = float((statistics > 0).mean())
    if share == 0:
        return Contrived(towards, None, None, 0.0)
    row, column = np.unravel_index(int(statistics.argmax()), statistics.shape)
    return Contrived(towards, (own[row], other[column]), float(statistics[row, column]), share)


def _largest(cosines: Matrix64, pairs: tuple[Any, ...]) -> Matrix64:
    """Return the largest cos(first, a) - cos(second, a) of each pair, one candidate at a time to save memory."""
    best = np.full(len(pairs[0]), -np.inf)
    for column in cosines.T:
        np.maximum(best, column[pairs[0]] - column[pairs[1]], out=best)
    return best


def _smallest(cosines: Matrix64, pairs: tuple[Any, ...]) -> Matrix64:
    return -_largest(-cosines, pairs)


def _random_words(vectors: Vectors, seed: int) -> list[str]:
    rows = np.random.default_rng(seed).choice(len(vectors), size=min(RANDOM_WORDS, len(vectors)), replace=False)
    return [vectors.words[row] for row in rows]
