"""Several subjects side by side: ranks per measure, and how far the measures agree about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64
from evenhand.audit.record import ORIGINAL, Audit
from evenhand.audit.significance import distance_from_ideal
from evenhand.errors import UsageError

FEWEST = 3  # subjects: with two, every rank correlation is +1 or -1


@dataclass(frozen=True)
class Ranking:
    """Ranks of the subjects in every row, 1 for the least bias or best quality; ties share the mean rank."""

    subjects: tuple[str, ...]
    stage: str
    ranks: dict[str, tuple[float, ...]]
    undefined: tuple[str, ...]
    """Rows without a number for every subject, which are not ranked."""
    agreement: dict[tuple[str, str], float]
    """Spearman correlation between two rows over the subjects; empty for fewer than three subjects."""

    @property
    def mean_ranks(self) -> dict[str, float]:
        """Mean rank of each subject over the rows."""
        table = np.array(list(self.ranks.values())) if self.ranks else np.zeros((0, len(self.subjects)))
        means = table.mean(axis=0) if len(table) else np.full(len(self.subjects), np.nan)
        return dict(zip(self.subjects, map(float, means), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "subjects": list(self.subjects),
            "stage": self.stage,
            "ranks": {label: list(ranks) for label, ranks in self.ranks.items()},
            "mean_ranks": self.mean_ranks,
            "undefined": list(self.undefined),
            "agreement": [{"rows": list(pair), "spearman": rho} for pair, rho in self.agreement.items()],
        }


def rank(audit: Audit, stage: str = ORIGINAL) -> Ranking:
    """Rank the subjects of an audit in every row that all of them have."""
    if len(audit.subjects) < 2:
        raise UsageError("a ranking needs two subjects or more", hint="audit several: evenhand audit a.vec b.vec")
    tables = [audit.rows(subject) for subject in audit.subjects]
    shared = [label for label in audit.labels if all(stage in table.get(label, {}) for table in tables)]
    values = {label: [table[label][stage] for table in tables] for label in shared}
    undefined = tuple(label for label, row in values.items() if any(m.value is None for m in row))
    ranks = {
        label: tuple(map(float, mean_ranks(np.array([distance_from_ideal(m) for m in row]))))
        for label, row in values.items()
        if label not in undefined
    }
    return Ranking(audit.subjects, stage, ranks, undefined, _agreement(ranks, len(audit.subjects)))


def mean_ranks(values: Matrix64) -> Matrix64:
    """Return ranks from 1; equal values share the mean of their ranks."""
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return np.asarray(below + (equal + 1) / 2, dtype=np.float64)


def _agreement(ranks: dict[str, tuple[float, ...]], subjects: int) -> dict[tuple[str, str], float]:
    if subjects < FEWEST:
        return {}
    table = {label: np.array(row) for label, row in ranks.items() if len(set(row)) > 1}
    labels = list(table)
    return {
        (one, other): float(np.corrcoef(table[one], table[other])[0, 1])
        for position, one in enumerate(labels)
        for other in labels[position + 1 :]
    }
