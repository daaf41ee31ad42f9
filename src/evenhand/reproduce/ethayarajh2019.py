"""Ethayarajh, Duvenaud & Hirst 2019: WEAT with single words says what its author wants (table 1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand import measures
from evenhand.arrays import Matrix64, unit_rows
from evenhand.errors import UsageError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.reproduce.table import Table
from evenhand.words import concept, query

Words = Sequence[str]
# Table 1 as printed: statistic, effect size, p-value.
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
# Attribute words in the spirit of table 1: those it uses itself, beside the group words of the concept.
FEMALE = ("feminine", "girlish", "womanly", "girly", "actress")
MALE = ("masculine", "boyish", "manly", "actor")
RANDOM_WORDS = 300


@dataclass(frozen=True)
class Contrived:
    """Two attribute words, one of each list, that make the first target look more like one of them."""

    towards: str
    attributes: tuple[str, str] | None
    statistic: float | None
    share: float
    """Share of all candidate attribute pairs with this outcome."""


def table_1(vectors: Vectors, *, seed: int = 0) -> Table:
    """Table 1: nine WEATs with single words; the effect size is 2 or -2 and p is 0 or 0.5, whatever the vectors."""
    rows = tuple(_row(vectors, name, *printed, seed=seed) for name, printed in PUBLISHED.items())
    columns = ("targets", "attributes", "statistic (paper)", "statistic", "effect (paper)", "effect", "p (paper)", "p")
    return Table(
        "Ethayarajh et al. 2019, table 1: single-word WEAT",
        columns,
        rows,
        (
            f"Ours on {vectors.name}; the paper's (SGNS on Wikipedia) were not released, hence other statistics.",
            "Population deviation (ddof=0) and strictly larger partitions (ties='gt'): with two words there are two "
            "partitions, so that effect = 2 sign(statistic) and p = 0 or 0.5 by construction. "
            "Neither is evidence of anything.",
        ),
    )


def contrived(vectors: Vectors, *, seed: int = 0) -> Table:
    """Section 4: for each pair of words, attributes that make the first look female and others that do the opposite."""
    female, male = candidates(vectors)
    rows = []
    for pair in TARGETS:
        for found in find_attributes(vectors, pair, {"female": female, "male": male}):
            chosen = " / ".join(found.attributes) if found.attributes else None
            rows.append((" / ".join(pair), found.towards, chosen, found.statistic, found.share))
    chance = manipulable_share(vectors, _random_words(vectors, seed), {"female": female, "male": male})
    return Table(
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
    """The attribute pair that makes the first target lean most to the first list, and the one for the second list.

    With single words the statistic is g(a) - g(b) with g(a) = cos(first target, a) - cos(second target, a): any two
    attribute words whose order by g can be had either way will do. `candidates` maps two names to lists of words. An
    outcome that no pair of candidates gives has `attributes=None`.
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
    """Of all pairs among the words, the share for which some candidate attributes give each of the two outcomes."""
    rows, _ = vectors.take(words)
    _, _, (first, second) = _candidate_rows(vectors, candidates)
    near, far = (unit_rows(rows) @ side.T for side in (first, second))
    pairs = np.triu_indices(len(rows), 1)
    up = _largest(near, pairs) - _smallest(far, pairs)
    down = _smallest(near, pairs) - _largest(far, pairs)
    return float(((up > 0) & (down < 0)).mean())


def candidates(vectors: Vectors) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Female and male attribute words that these vectors have: the groups of the concept and the words of table 1."""
    groups = concept("gender").groups
    lists = ((*groups["female"], *FEMALE), (*groups["male"], *MALE))
    female, male = (tuple(dict.fromkeys(word for word in words if vectors.find(word))) for words in lists)
    return female, male


def _row(vectors: Vectors, name: str, statistic: float, effect: float, p_value: float, *, seed: int) -> tuple[Any, ...]:
    asked = query(f"ethayarajh2019-{name}")
    ours = measures.weat(vectors, asked, ddof=0, ties="gt", seed=seed)
    targets, attributes = (" / ".join(group.words[0] for group in sets) for sets in (asked.targets, asked.attributes))
    measured = ours.details.get("statistic")
    return targets, attributes, statistic, measured, effect, ours.value, p_value, ours.p_value


def _candidate_rows(
    vectors: Vectors, lists: Mapping[str, Words]
) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[Matrix64]]:
    if len(lists) != 2:
        raise UsageError(f"candidates must be two named lists of words, got {len(lists)}")
    taken = [vectors.take(words) for words in lists.values()]
    for name, (rows, _) in zip(lists, taken, strict=True):
        if not len(rows):
            raise VocabularyError(f"no candidate of {name!r} is in {vectors.name}", hint="give other words")
    return tuple(lists), [account.found for _, account in taken], [unit_rows(rows) for rows, _ in taken]


def _row_of(vectors: Vectors, word: str) -> Any:
    return vectors[vectors.find(word) or word].astype(np.float64)


def _strongest(towards: str, own: tuple[str, ...], other: tuple[str, ...], statistics: Matrix64) -> Contrived:
    """The own attribute is named first: a positive statistic says that the first target goes with it."""
    share = float((statistics > 0).mean())
    if share == 0:
        return Contrived(towards, None, None, 0.0)
    row, column = np.unravel_index(int(statistics.argmax()), statistics.shape)
    return Contrived(towards, (own[row], other[column]), float(statistics[row, column]), share)


def _largest(cosines: Matrix64, pairs: tuple[Any, ...]) -> Matrix64:
    """For each pair of words the largest cos(first, a) - cos(second, a), one candidate at a time to save memory."""
    best = np.full(len(pairs[0]), -np.inf)
    for column in cosines.T:
        np.maximum(best, column[pairs[0]] - column[pairs[1]], out=best)
    return best


def _smallest(cosines: Matrix64, pairs: tuple[Any, ...]) -> Matrix64:
    return -_largest(-cosines, pairs)


def _random_words(vectors: Vectors, seed: int) -> list[str]:
    rows = np.random.default_rng(seed).choice(len(vectors), size=min(RANDOM_WORDS, len(vectors)), replace=False)
    return [vectors.words[row] for row in rows]
