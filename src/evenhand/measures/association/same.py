"""SAME: how far words lie along the differences between the means of groups (Schröder et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from evenhand.arrays import Matrix64, Vector64, row_norms, unit_rows
from evenhand.errors import UsageError
from evenhand.measures.association.located_query import Group, gather, problem, same_direction
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Coverage, Vectors
from evenhand.stats import percentile_interval
from evenhand.words import Concept, WordSet, as_concept, as_wordset

Combine = Literal["length", "sum", "released"]
RANK_RTOL = 1e-6  # single precision: a component shorter than this share of the first is rounding
INFO = Info(
    id="same",
    title="Scoring Association Means of Embeddings",
    takes="words",
    better="zero",
    formula="SAME(w) = |cos(w, m_1 - m_2)|, m_i = mean unit vector of group i;  more groups: length of w in their span",
    reading="Mean over the words, from 0 to 1. Two groups: skew is the mean signed cosine, stereotype its deviation.",
    limits=(
        "It sees the directions between the given group words only; projecting them out makes it 0 while neighbours "
        "and classifiers still find the groups."
    ),
    cites=("schroeder2022",),
    queries=("bolukbasi2016-professions",),
)


@measure(INFO)
def same(
    vectors: Vectors,
    words: WordSet | str | Iterable[str],
    *,
    concept: Concept | str = "gender",
    combine: Combine = "length",
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean association with the groups of a concept, with that of each word and a bootstrap interval over the words.

    With more than two groups the differences from the first group, made orthogonal, are the components.
    `combine="length"` takes the length of the unit word's part in their span: it is |cos| for two groups and does not
    depend on the order of the groups. `"sum"` adds the |cos| with each component, which does depend on it. `"released"`
    is the authors' code: |cos| for the first component, but |cos| times the component's length for the others.

    What it does not tell you: with more than two groups, which one a word leans to; see `by_group` in the details.
    """
    if combine not in ("length", "sum", "released"):
        raise UsageError(f"unknown combine {combine!r}", hint="use length, sum or released")
    asked, about = as_wordset(words), as_concept(concept)
    names = [about.positive, *(name for name in about.groups if name != about.positive)]
    if len(names) < 2:
        raise UsageError(f"SAME needs at least two groups, concept {about.name!r} has {len(names)}")
    found, groups = gather(vectors, asked), [gather(vectors, about.groups[name]) for name in names]
    coverage = sum((group.coverage for group in groups), found.coverage)
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "positive": about.positive,
        "params": {"combine": combine, "concept": about.name, "groups": names, "case": vectors.case},
        "seed": seed,
    }
    if reason := problem([found, *groups]) or _alike(groups):
        return undefined("same", reason, coverage, **common)
    means = np.stack([unit_rows(group.rows).mean(axis=0) for group in groups])
    scores = _scores(unit_rows(found.rows), components(means), combine)
    return _measurement(found, scores, _by_group(found, means, names), coverage, common, seed)


def components(means: Matrix64) -> Matrix64:
    """Differences of the first mean from each other one, each made orthogonal to those before it; none of length 0."""
    kept: list[Vector64] = []
    for difference in means[0] - means[1:]:
        left = difference
        for earlier in kept:
            left = left - (left @ earlier) / (earlier @ earlier) * earlier
        if np.linalg.norm(left) > RANK_RTOL * np.linalg.norm(difference):
            kept.append(left)
    return np.stack(kept)


def _scores(words: Matrix64, parts: Matrix64, combine: Combine) -> Vector64:
    sizes = np.abs(words @ unit_rows(parts).T)
    if combine == "length":
        return np.asarray(np.sqrt((sizes**2).sum(axis=1)))
    weights = np.ones(len(parts)) if combine == "sum" else np.r_[1.0, row_norms(parts)[1:]]
    return np.asarray(sizes @ weights)


def _by_group(found: Group, means: Matrix64, names: list[str]) -> dict[str, Vector64]:
    """The signed cosine of each word with the difference of the first mean from each other one."""
    cosines = unit_rows(found.rows) @ unit_rows(means[0] - means[1:]).T
    return dict(zip(names[1:], cosines.T, strict=True))


def _alike(groups: list[Group]) -> str:
    """A mean that does not differ from the first one has no direction to it."""
    first, *others = (unit_rows(group.rows).mean(axis=0) for group in groups)
    alike = [group.name for group, mean in zip(groups[1:], others, strict=True) if same_direction(first, mean)]
    return f"{', '.join(alike)} has the same mean vector as {groups[0].name}: no direction tells them apart" * bool(
        alike
    )


def _measurement(
    found: Group,
    scores: Vector64,
    by_group: dict[str, Vector64],
    coverage: Coverage,
    common: dict[str, Any],
    seed: int,
) -> Measurement:
    two = len(by_group) == 1
    shown = next(iter(by_group.values())) if two else scores
    interval = percentile_interval(lambda rows: scores[rows].mean(axis=1), len(scores), seed=seed)
    leanings = {name: {"skew": float(c.mean()), "stereotype": float(c.std())} for name, c in by_group.items()}
    return Measurement(
        "same",
        float(scores.mean()),
        len(scores),
        coverage,
        interval=interval if len(scores) > 2 else None,
        reading=f"{100 * scores.mean():.1f} % of a word's length lies along the differences of the groups on average",
        items=tuple({"word": w, "value": float(v)} for w, v in zip(found.words, shown, strict=True)),
        details={**(next(iter(leanings.values())) if two else {}), "by_group": leanings},
        **common,
    )
