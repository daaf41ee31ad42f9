"""The score of every word, with its interval over documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.corpus.counting.count import Counts, Plan
from evenhand.corpus.counting.document_folds import Parts
from evenhand.corpus.counting.vocabulary import are_marks
from evenhand.corpus.result import CorpusBias
from evenhand.corpus.scores.log_ratio import Normalisation, checked_normalisation, log_ratio, offset, one_against_rest
from evenhand.errors import VocabularyError
from evenhand.stats.bootstrap import ENOUGH, LEVEL
from evenhand.words.wordset import FrozenMap


class Scored:
    """The counts of a corpus with the choices under which they become scores."""

    def __init__(
        self,
        counts: Counts,
        plan: Plan,
        stops: tuple[str, ...],
        *,
        drop_marks: bool = False,
        min_count: int,
        smoothing: float,
        normalisation: str,
        seed: int,
        params: Mapping[str, Any],
    ) -> None:
        self.counts, self.plan, self.params, self.seed = counts, plan, params, seed
        self.how, self.smoothing = checked_normalisation(normalisation), smoothing
        own = counts.occurrences[1 : 1 + len(plan.group_words)]
        self.hits: NDArray[np.int64] = np.array([own[plan.labels == g].sum() for g in range(len(plan.groups))])
        self.missing = self._missing(own)
        self.candidates, self.lost = self._candidates(stops, min_count, drop_marks)
        self.met = counts.company[:, self.candidates].any(axis=0)

    def _missing(self, own: NDArray[np.int64]) -> Mapping[str, tuple[str, ...]]:
        seen = dict(zip(self.plan.group_words, own.tolist(), strict=True))
        for name, words in self.plan.groups.items():
            if not any(seen[word] for word in words):
                how, read = self.plan.tokeniser, int(self.counts.occurrences[1:].sum())
                raise VocabularyError(
                    f"none of the words of group {name!r} occurs in the text ({', '.join(words[:8])})",
                    hint=f"check the lists, the tokenizer ({how.name}) and lower={how.lower}; {read:,} words were read"
                    f"{self.counts.account.told()}",
                )
        return FrozenMap({name: tuple(w for w in words if not seen[w]) for name, words in self.plan.groups.items()})

    def _candidates(self, stops: tuple[str, ...], min_count: int, drop_marks: bool) -> tuple[Rows, dict[str, int]]:
        """Words that may be scored, and how many fall out for each reason, one reason a word."""
        rows = np.flatnonzero(self.counts.occurrences)
        rows = rows[rows > len(self.plan.group_words)]
        words, lost = self.counts.words.gather(rows), {}
        reasons = {"stop_words": np.asarray(words.is_in(list(stops)).to_numpy(), dtype=bool)}
        if drop_marks:
            reasons["marks"] = are_marks(words, lower=self.plan.tokeniser.lower)
        reasons["below_min_count"] = self.counts.occurrences[rows] < min_count
        left = np.ones(len(rows), dtype=bool)
        for reason, falls in reasons.items():
            lost[reason] = int((left & falls).sum())
            left &= ~falls
        return rows[left], lost

    @property
    def vocabulary(self) -> int:
        """Distinct words of the text."""
        return int(np.count_nonzero(self.counts.occurrences[1:]))

    def result(self, group: int, draws: int) -> CorpusBias:
        """The record of one group against the rest."""
        counts, names = self.counts, list(self.plan.groups)
        values = self.values(counts.company, group)[self.candidates]
        kept = self.met & np.isfinite(values)
        rows = self.candidates[kept]
        return CorpusBias(
            words=tuple(counts.words.gather(rows).to_list()),
            values=values[kept],
            positive=names[group],
            groups=FrozenMap(self.plan.groups),
            company=np.asarray(counts.company[:, rows], dtype=np.float64),
            occurrences=counts.occurrences[rows].astype(np.float64),
            hits=FrozenMap(dict(zip(names, self.hits.tolist(), strict=True))),
            missing=self.missing,
            lost=FrozenMap(
                {
                    **self.lost,
                    "never_near_any_group": int((~self.met).sum()),
                    "zero_count": int((self.met & ~kept).sum()),
                }
            ),
            tokens=int(counts.occurrences[1:].sum()),
            documents=counts.documents,
            empty_documents=counts.empty_documents,
            vocabulary=self.vocabulary,
            params=FrozenMap(self.params),
            account=FrozenMap(counts.account.to_dict()),
            intervals=self._intervals(rows, group, draws),
            seed=self.seed,
        )

    def values(self, company: NDArray[Any], group: int) -> Vector64:
        """The score of every word of a table (groups, words); not finite where there is none."""
        two = one_against_rest(company, group)
        with np.errstate(divide="ignore", invalid="ignore"):  # a group without company leaves every word undefined
            shift = offset(
                self.how,
                two.sum(axis=1),
                one_against_rest(self.hits, group),
                smoothing=self.smoothing,
                vocabulary=self.vocabulary,
            )
        return log_ratio(two, shift, self.smoothing)

    def _intervals(self, rows: Rows, group: int, draws: int) -> Matrix64 | None:
        if not draws or self.counts.by_part is None:
            return None
        return word_intervals(
            self.counts.by_part,
            rows,
            group,
            how=self.how,
            smoothing=self.smoothing,
            resamples=draws,
            seed=self.seed,
        )


PARTS = 100
WORDS_AT_ONCE = 1 << 11


def word_intervals(
    parts: Parts, words: Rows, group: int, *, how: Normalisation, smoothing: float, resamples: int, seed: int
) -> Matrix64:
    """(2, words): lower and upper bound, NaN where too many draws lose the word from one of the groups."""
    weights = _draws(parts, resamples, seed)
    totals = np.stack([weights @ np.asarray(matrix.sum(axis=1)) for matrix in parts.company])
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = offset(
            how,
            one_against_rest(totals, group),
            one_against_rest(parts.hits @ weights.T, group),
            smoothing=smoothing,
            vocabulary=parts.company[0].shape[1],
        )
    slices = [words[start : start + WORDS_AT_ONCE] for start in range(0, max(len(words), 1), WORDS_AT_ONCE)]
    return np.concatenate(
        [_bounds(weights, [m[:, some] for m in parts.company], group, shift, smoothing) for some in slices], axis=1
    )


def _draws(parts: Parts, resamples: int, seed: int) -> Matrix64:
    """How often each part is drawn: (resamples, parts); parts without any company are not there to be drawn."""
    used = np.flatnonzero(parts.hits.sum(axis=0))
    weights = np.zeros((resamples, parts.hits.shape[1]))
    chances = np.full(len(used), 1 / len(used))
    weights[:, used] = np.random.default_rng(seed).multinomial(len(used), chances, size=resamples)
    return weights


def _bounds(weights: Matrix64, slices: list[Any], group: int, shift: Any, smoothing: float) -> Matrix64:
    company = one_against_rest(np.stack([(matrix.T @ weights.T).T for matrix in slices]), group)
    values = log_ratio(company, shift[:, None], smoothing)
    values[~np.isfinite(values)] = np.nan
    share = np.isfinite(values).mean(axis=0)
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    bounds = np.full((2, values.shape[1]), np.nan)
    whole, part = share == 1, (share >= ENOUGH) & (share < 1)
    bounds[:, whole] = np.quantile(values[:, whole], ends, axis=0)
    bounds[:, part] = np.nanquantile(values[:, part], ends, axis=0)
    return bounds
