"""The bias score of every word from its counts (Bordia & Bowman 2019, section 3.3.1), its evidence and its interval.

c(w, g) is the co-occurrence count of word w with group g, c(g) the number of words of g in the text. The paper prints
P(w|g) = [c(w,g) / sum_i c(w_i,g)] / [c(g) / sum_i c(w_i)], and bias(w) = log P(w|f) / P(w|m).

- `conditional` (default): bias = log [c(w,f) / sum_i c(w_i,f)] - log [c(w,m) / sum_i c(w_i,m)]. A word without a
  preference scores 0, and only this reading fits the published means and deviations.
- `literal`: as printed. The group's frequency is divided out twice, so that in a corpus with five male words for each
  female word a word without a preference scores log 5, female.
- `joint`: the numerator as a joint probability, c(w,g) over the sum of both groups: log [c(w,f) / c(f)] -
  log [c(w,m) / c(m)]. It equals `conditional` up to what the edges of documents cut off.

The sums run over all words of the text, including stop words and the groups' own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.corpus.counting.count import CountingPlan, Counts
from evenhand.corpus.counting.tokens import are_special_tokens
from evenhand.corpus.counting.windows import FoldCounts, SparseMatrix, Table
from evenhand.corpus.result import CorpusBias
from evenhand.errors import UsageError, VocabularyError
from evenhand.stats.bootstrap import ENOUGH, LEVEL
from evenhand.words.wordset import FrozenMap

if TYPE_CHECKING:
    from evenhand.corpus.bias import CorpusOptions


Normalisation = Literal["conditional", "literal", "joint"]
Shift: TypeAlias = np.float64 | NDArray[np.float64]


def log_ratio(counts: Table, shift: Shift, smoothing: float = 0.0) -> Vector64:
    """Return log c(w, first) - log c(w, second) - shift for counts (2, ...); not finite where a count is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = np.log(np.asarray(counts, dtype=np.float64) + smoothing)
        return np.asarray(first - second - shift, dtype=np.float64)


def normalising_shift(
    normalisation: Normalisation, totals: Table, hits: Table, *, smoothing: float = 0.0, vocabulary: int = 0
) -> Shift:
    """Return what a normalisation subtracts from every log ratio; totals and hits are (2, ...), first group first.

    Not finite where a group has no co-occurrence at all, which leaves every word undefined.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.log(np.asarray(totals, dtype=np.float64) + smoothing * vocabulary)
        seen = np.log(np.asarray(hits, dtype=np.float64))
        by_sum, by_hits = sums[0] - sums[1], seen[0] - seen[1]
        shifts = {"conditional": by_sum, "literal": by_sum + by_hits, "joint": by_hits}
    return cast(Shift, shifts[normalisation])


def one_against_rest(counts: Table, group: int) -> Table:
    """Return (2, ...): the counts of a group and of all other groups together."""
    return cast(Table, np.stack([counts[group], np.delete(counts, group, axis=0).sum(axis=0)]))


def check_normalisation(name: str) -> Normalisation:
    """Return the name of a normalisation, or raise an error that lists the valid ones."""
    names = get_args(Normalisation)
    if name not in names:
        raise UsageError(f"unknown normalisation {name!r}", hint=f"use {', '.join(names)}")
    return cast(Normalisation, name)


FOLDS = 100
UNIT = 5000  # tokens; a longer document is resampled in stretches of this length
WORDS_AT_ONCE = 1 << 11
PRIOR = 500.0  # co-occurrences that the prior of the log-odds is worth, over all words


class Scorer:
    """Turn the counts of a corpus into scores under given options."""

    def __init__(
        self,
        counts: Counts,
        plan: CountingPlan,
        options: CorpusOptions,
        *,
        params: Mapping[str, object] | None = None,
        name: str = "",
    ) -> None:
        self.counts, self.plan, self.options = counts, plan, options
        self.params, self.name = params or {}, name
        self.normalisation = check_normalisation(options.normalisation)
        own = counts.occurrences[1 : 1 + len(plan.group_words)]
        self.hits: NDArray[np.int64] = np.array([own[plan.labels == g].sum() for g in range(len(plan.groups))])
        self.missing = self._missing(own)
        self.candidates, self.lost = self._candidates()
        self.met = counts.cooccurrence[:, self.candidates].any(axis=0)

    def _missing(self, own: NDArray[np.int64]) -> Mapping[str, tuple[str, ...]]:
        seen = dict(zip(self.plan.group_words, own.tolist(), strict=True))
        for name, words in self.plan.groups.items():
            if not any(seen[word] for word in words):
                tokeniser, tokens = self.plan.tokeniser, int(self.counts.occurrences[1:].sum())
                raise VocabularyError(
                    f"none of the words of group {name!r} occurs in the text ({', '.join(words[:8])})",
                    hint=f"check the lists, the tokenizer ({tokeniser.name}) and lower={tokeniser.lower}; "
                    f"{tokens:,} words were read{self.counts.read_log.summary()}",
                )
        return FrozenMap({name: tuple(w for w in words if not seen[w]) for name, words in self.plan.groups.items()})

    def _candidates(self) -> tuple[Rows, dict[str, int]]:
        """Return the words that may be scored, and how many are excluded for each reason (the first that applies)."""
        rows = np.flatnonzero(self.counts.occurrences)
        rows = rows[rows > len(self.plan.group_words)]
        words, lost = self.counts.words.gather(rows), {}
        reasons = {"stop_words": np.asarray(words.is_in(list(self.options.stop_list)).to_numpy(), dtype=bool)}
        if self.options.drop_special_tokens:
            reasons["special_tokens"] = are_special_tokens(words, lower=self.plan.tokeniser.lower)
        reasons["below_min_count"] = self.counts.occurrences[rows] < self.options.min_count
        remaining = np.ones(len(rows), dtype=bool)
        for reason, excluded in reasons.items():
            lost[reason] = int((remaining & excluded).sum())
            remaining &= ~excluded
        return rows[remaining], lost

    @property
    def vocabulary(self) -> int:
        """Number of distinct words of the text."""
        return int(np.count_nonzero(self.counts.occurrences[1:]))

    def result(self, group: int) -> CorpusBias:
        """Return the record of one group against the rest."""
        counts, names = self.counts, list(self.plan.groups)
        values = self.values(counts.cooccurrence, group)[self.candidates]
        scored = self.met & np.isfinite(values)
        rows = self.candidates[scored]
        return CorpusBias(
            words=tuple(counts.words.gather(rows).to_list()),
            values=values[scored],
            positive=names[group],
            groups=FrozenMap(self.plan.groups),
            cooccurrence=np.asarray(counts.cooccurrence[:, rows], dtype=np.float64),
            evidence=evidence(one_against_rest(counts.cooccurrence, group), rows),
            occurrences=counts.occurrences[rows].astype(np.float64),
            hits=FrozenMap(dict(zip(names, self.hits.tolist(), strict=True))),
            missing=self.missing,
            lost=FrozenMap(
                {
                    **self.lost,
                    "never_near_any_group": int((~self.met).sum()),
                    "zero_count": int((self.met & ~scored).sum()),
                }
            ),
            tokens=int(counts.occurrences[1:].sum()),
            documents=counts.documents,
            empty_documents=counts.empty_documents,
            vocabulary=self.vocabulary,
            params=FrozenMap(self.params),
            read_log=FrozenMap(counts.read_log.to_dict()),
            intervals=self._intervals(rows, group),
            seed=self.options.seed,
            name=self.name,
        )

    def values(self, cooccurrence: Table, group: int) -> Vector64:
        """Return the score of every word of a table (groups, words); not finite where there is none."""
        two = one_against_rest(cooccurrence, group)
        shift = normalising_shift(
            self.normalisation,
            two.sum(axis=1),
            one_against_rest(self.hits, group),
            smoothing=self.options.smoothing,
            vocabulary=self.vocabulary,
        )
        return log_ratio(two, shift, self.options.smoothing)

    def _intervals(self, rows: Rows, group: int) -> Matrix64 | None:
        if not self.options.bootstrap or self.counts.by_fold is None:
            return None
        return word_intervals(
            self.counts.by_fold,
            rows,
            group,
            normalisation=self.normalisation,
            smoothing=self.options.smoothing,
            resamples=self.options.bootstrap,
            seed=self.options.seed,
        )


def evidence(counts: Table, words: Rows) -> Vector64:
    """Return the z-score of each word's log-odds between two groups under an informative prior (Monroe et al. 2008).

    `counts` are (2, all words). The prior spreads `PRIOR` co-occurrences over the words in proportion to their counts
    with both groups together, so that rare words are drawn towards 0. Windows overlap, which makes the counts
    dependent: use these values to order words, not as a test.
    """
    both = np.asarray(counts[:, words], dtype=np.float64)
    totals = np.asarray(counts.sum(axis=1), dtype=np.float64)
    if not totals.all():
        return np.zeros(len(words))
    prior = PRIOR * both.sum(axis=0) / totals.sum()
    posterior = both + prior
    rest = np.maximum((totals + PRIOR)[:, None] - posterior, np.finfo(np.float64).tiny)
    with np.errstate(divide="ignore", over="ignore"):  # a weight of 1e-310 has no finite inverse, and no evidence
        log_odds = np.log(posterior) - np.log(rest)
        scale = np.sqrt((1 / posterior).sum(axis=0))
        return np.asarray((log_odds[0] - log_odds[1]) / scale, dtype=np.float64)


def word_intervals(
    folds: FoldCounts,
    words: Rows,
    group: int,
    *,
    normalisation: Normalisation,
    smoothing: float,
    resamples: int,
    seed: int,
) -> Matrix64:
    """Return (2, words): lower and upper bounds, NaN where too many resamples leave a word without a score.

    All bounds are NaN if the words of the groups occur in one fold only.
    """
    weights = _fold_weights(folds, resamples, seed)
    if weights is None:
        return np.full((2, len(words)), np.nan)
    totals = np.stack([weights @ np.asarray(matrix.sum(axis=1)) for matrix in folds.cooccurrence])
    shift = normalising_shift(
        normalisation,
        one_against_rest(totals, group),
        one_against_rest(folds.hits @ weights.T, group),
        smoothing=smoothing,
        vocabulary=folds.cooccurrence[0].shape[1],
    )
    slices = [words[start : start + WORDS_AT_ONCE] for start in range(0, max(len(words), 1), WORDS_AT_ONCE)]
    bounds = [_bounds(weights, [m[:, some] for m in folds.cooccurrence], group, shift, smoothing) for some in slices]
    return np.concatenate(bounds, axis=1)


def _fold_weights(folds: FoldCounts, resamples: int, seed: int) -> Matrix64 | None:
    """Return how often each fold is drawn, (resamples, folds); folds without a group word are never drawn."""
    used = np.flatnonzero(folds.hits.sum(axis=0))
    if len(used) < 2:
        return None
    weights = np.zeros((resamples, folds.hits.shape[1]))
    chances = np.full(len(used), 1 / len(used))
    weights[:, used] = np.random.default_rng(seed).multinomial(len(used), chances, size=resamples)
    return weights


def _bounds(weights: Matrix64, slices: list[SparseMatrix], group: int, shift: Shift, smoothing: float) -> Matrix64:
    counts = one_against_rest(np.stack([(matrix.T @ weights.T).T for matrix in slices]), group)
    values = log_ratio(counts, np.asarray(shift)[:, None], smoothing)
    values[~np.isfinite(values)] = np.nan
    share = np.isfinite(values).mean(axis=0)
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    bounds = np.full((2, values.shape[1]), np.nan)
    whole, part = share == 1, (share >= ENOUGH) & (share < 1)
    bounds[:, whole] = np.quantile(values[:, whole], ends, axis=0)
    bounds[:, part] = np.nanquantile(values[:, part], ends, axis=0)
    return bounds
