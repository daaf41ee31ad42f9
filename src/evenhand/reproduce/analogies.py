"""Figure 1 of Ethayarajh, Duvenaud & Hirst 2019: which analogies are left when some words are debiased.

Detection is trained on analogies. The paper tests it on the same ones; here it never sees those it is tested on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand import words
from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import UsageError, VocabularyError
from evenhand.mitigations.selection import ExceptDefined, ExceptListed
from evenhand.models.vectors import Vectors
from evenhand.reproduce.table import Table
from evenhand.subspaces import pairs as direction_of_pairs
from evenhand.words import Pairs

THRESHOLD = 0.5
QUANTILES = (0.25, 0.5, 0.75)
LISTED, REVERSED = "Bolukbasi's list spared", "Bolukbasi's list debiased"
HELD_OUT, IN_SAMPLE = "proposed, held out", "proposed, in sample"
# Section 6.3: share of the analogies with a strength of at least 0.5 that is still there, in per cent.
PUBLISHED = {
    ("appropriate", LISTED): 16.5,
    ("biased", LISTED): 80.0,
    ("appropriate", IN_SAMPLE): 94.9,
    ("biased", IN_SAMPLE): 36.7,
}
NOTES = (
    "The paper's analogies (72 appropriate, 29 biased, rated by a crowd for Bolukbasi et al. 2016) are in no release: "
    "equalize pairs and SemBias pairs stand in for them.",
    "The paper's vectors are its own SGNS on Wikipedia, of unstated settings; 0.5 is a length in those vectors, so "
    "that the rows at quantiles of the strength before debiasing compare better.",
    "Sparing Bolukbasi's list preserves most appropriate and few biased analogies here, the opposite of the paper. "
    "Part of that is the stand-in, many of whose words are on the list. Debiasing the listed words and sparing all "
    "others, the list turned round, comes nearer to the published shares (GloVe 6B 100-d: 22 and 100 %); whether the "
    "paper did that cannot be told without its code. The released list has godfather, which the paper says it lacks.",
    "In sample: the biased analogies tested also made b', and defining pairs are among the appropriate ones. Held "
    "out: pairs that share a word with a tested analogy are left out of both directions; mean and range over splits.",
)


@dataclass(frozen=True, eq=False)
class Strengths:
    """|<a - b, b*>| of each analogy a : b :: woman : man, before and after: one row for each random split."""

    kind: str
    pairs: tuple[tuple[str, str], ...]
    before: Vector64
    after: Mapping[str, Matrix64]

    def preserved(self, method: str, threshold: float) -> Vector64:
        """Analogies at least this strong after, as a share of those before, for each split; NaN where none was."""
        before = int((self.before >= threshold).sum())
        return (self.after[method] >= threshold).sum(axis=1) / before if before else np.full(1, np.nan)


@dataclass(frozen=True)
class Setting:
    """The lists of the experiment; the defaults are those the paper names or stand-ins for them."""

    defining: Pairs | str = "ethayarajh2019-pairs"
    appropriate: Pairs | str = "ethayarajh2019-appropriate-standin"
    biased: Pairs | str = "ethayarajh2019-biased-standin"
    listed: str = "bolukbasi2016-gender-specific"
    folds: int = 5
    splits: int = 20

    def __post_init__(self) -> None:
        if self.folds < 2 or self.splits < 1:
            raise UsageError(f"at least 2 folds and 1 split are needed, got {self.folds} and {self.splits}")


def figure_1(vectors: Vectors, *, setting: Setting | None = None, seed: int = 0) -> Table:
    """Figure 1: the analogies preserved at the paper's threshold and at quantiles, beside the published shares."""
    measured = strengths(vectors, setting=setting, seed=seed)
    pooled = np.concatenate([one.before for one in measured])
    thresholds = [(f"{THRESHOLD}", THRESHOLD)]
    thresholds += [(f"quantile {q}", float(np.quantile(pooled, q))) for q in QUANTILES]
    rows = [
        _row(one, method, label, threshold)
        for label, threshold in thresholds
        for one in measured
        for method in one.after
    ]
    columns = ("threshold", "strength", "analogies", "method", "before", "preserved %", "range", "preserved % (paper)")
    title = f"Ethayarajh et al. 2019, figure 1: analogies preserved, {vectors.name}"
    return Table(title, columns, tuple(rows), NOTES)


def curves(vectors: Vectors, *, setting: Setting | None = None, points: int = 41, seed: int = 0) -> Table:
    """The lines of figure 1: how many analogies have at least that strength, before and after each method."""
    measured = strengths(vectors, setting=setting, seed=seed)
    top = max(float(one.before.max()) for one in measured)
    rows = [
        (one.kind, method, float(threshold), float((values >= threshold).sum(axis=1).mean()))
        for one in measured
        for method, values in {"before": one.before[None], **one.after}.items()
        for threshold in np.linspace(0, top, points)
    ]
    title = f"Ethayarajh et al. 2019, figure 1: number of analogies by strength, {vectors.name}"
    return Table(title, ("analogies", "method", "strength", "number"), tuple(rows), NOTES)


def strengths(vectors: Vectors, *, setting: Setting | None = None, seed: int = 0) -> tuple[Strengths, Strengths]:
    """Strength of the appropriate and of the biased analogies, before and after each way to choose words.

    Debiasing removes b*, the first uncentred principal direction of the defining pairs, from the words chosen. So the
    part of a chosen word along b* becomes 0 and that of any other stays: if only one word of an analogy is chosen, its
    strength changes too.
    """
    given = setting or Setting()
    defining, appropriate, biased = (
        _present(vectors, words.pairs(p)) for p in (given.defining, given.appropriate, given.biased)
    )
    kinds = {"appropriate": appropriate, "biased": biased}
    everything = sorted({word for two in (*defining, *appropriate, *biased) for word in two})
    small = vectors.restrict(everything)  # no rule looks beyond the word itself and the two directions
    beta = dict(zip(everything, small.matrix @ direction_of_pairs(small, defining).basis[0], strict=True))
    listed, proposed = ExceptListed(given.listed)(small, None), ExceptDefined(biased, defining)(small, None)
    spared = {LISTED: listed, REVERSED: frozenset(everything) - listed, IN_SAMPLE: proposed}
    after: dict[str, dict[str, Matrix64]] = {
        kind: {name: _after(beta, tested, exempt)[None] for name, exempt in spared.items()}
        for kind, tested in kinds.items()
    }
    for kind, held_out in _held_out(small, beta, defining, kinds, given, seed).items():
        after[kind][HELD_OUT] = held_out
    first, second = (
        Strengths(kind, tested.pairs, _after(beta, tested, frozenset(everything)), after[kind])
        for kind, tested in kinds.items()
    )
    return first, second


def folds(pairs: Sequence[tuple[str, str]], k: int, rng: np.random.Generator) -> list[Rows]:
    """Random parts of about equal size; analogies that share a word stay together."""
    group = {word: number for number, two in enumerate(pairs) for word in two}
    for _ in pairs:  # labels travel along shared words; a chain of n analogies needs at most n rounds
        merged = dict(group)
        for a, b in pairs:
            merged[a] = merged[b] = min(merged[a], merged[b])
        if merged == group:
            break
        group = merged
    labels = np.array([group[a] for a, _ in pairs])
    parts: list[list[int]] = [[] for _ in range(k)]
    for label in rng.permutation(np.unique(labels)):
        min(parts, key=len).extend(np.flatnonzero(labels == label).tolist())
    return [np.array(sorted(part), dtype=np.int64) for part in parts]


def _held_out(
    v: Vectors, beta: Mapping[str, float], defining: Pairs, kinds: Mapping[str, Pairs], given: Setting, seed: int
) -> dict[str, Matrix64]:
    """Strengths after the proposed rule, each analogy judged by directions that were learned without it."""
    rng = np.random.default_rng(seed)
    out = {kind: np.full((given.splits, len(tested)), np.nan) for kind, tested in kinds.items()}
    for split in range(given.splits):
        parts = {kind: folds(tested.pairs, given.folds, rng) for kind, tested in kinds.items()}
        for fold in range(given.folds):
            tested = {kind: _picked(pairs, parts[kind][fold]) for kind, pairs in kinds.items()}
            unseen = {word for pairs in tested.values() for two in pairs for word in two}
            exempt = ExceptDefined(_without(kinds["biased"], unseen), _without(defining, unseen))(v, None)
            for kind, pairs in tested.items():
                out[kind][split, parts[kind][fold]] = _after(beta, pairs, exempt)
    return out


def _after(beta: Mapping[str, float], pairs: Pairs, exempt: frozenset[str]) -> Vector64:
    """|<a - b, b*>| once every word that is not exempt has lost b*."""
    kept = [[beta[word] if word in exempt else 0.0 for word in two] for two in pairs]
    a, b = np.array(kept, dtype=np.float64).reshape(-1, 2).T
    return np.asarray(np.abs(a - b))


def _present(vectors: Vectors, pairs: Pairs) -> Pairs:
    """The pairs whose two words the vectors have, in their spelling."""
    spelt = [(vectors.find(a), vectors.find(b)) for a, b in pairs]
    kept = [(a, b) for a, b in dict.fromkeys(spelt) if a is not None and b is not None]
    if len(kept) < 2:
        raise VocabularyError(f"{vectors.name} has {len(kept)} pairs of {pairs.name}, too few for a direction")
    return Pairs(pairs.name, kept, pairs.poles, pairs.source)


def _picked(pairs: Pairs, rows: Rows) -> Pairs:
    return Pairs(pairs.name, [pairs.pairs[row] for row in rows.tolist()], pairs.poles)


def _without(pairs: Pairs, unseen: set[str]) -> Pairs:
    kept = [(a, b) for a, b in pairs if a not in unseen and b not in unseen]
    if not kept:
        raise UsageError(f"every pair of {pairs.name} shares a word with a tested one", hint="use more folds")
    return Pairs(pairs.name, kept, pairs.poles)


def _row(one: Strengths, method: str, label: str, threshold: float) -> tuple[Any, ...]:
    shares = 100 * one.preserved(method, threshold)
    spread = f"{shares.min():.1f}-{shares.max():.1f}" if len(shares) > 1 else ""
    published = PUBLISHED.get((one.kind, method)) if threshold == THRESHOLD else None
    before = int((one.before >= threshold).sum())
    value = float(shares.mean()) if before else None
    return (label, threshold, one.kind, method, before, value, spread if before else "", published)
