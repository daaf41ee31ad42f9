"""RND: are attribute words nearer to the mean of one group of words or of the other? (Garg et al. 2018)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from evenhand.arrays import Matrix64, Vector64, row_norms, unit_rows
from evenhand.errors import UsageError, unknown_name
from evenhand.measures.association.located_query import MIN_SHARE, Gathered, Group, gather_query
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import percentile_interval
from evenhand.words import Query

Distance = Literal["euclidean", "cosine"]
INFO = Info(
    id="rnd",
    title="Relative Norm Distance",
    takes="query",
    better="zero",
    formula="RND = mean_a ( |a - mean X| - |a - mean Y| );  distance='cosine': 1 - cos instead of the norm",
    reading="Below 0: the attributes lie nearer to the first targets; above 0: nearer to the second.",
    limits=(
        "It is not scale-free: longer vectors give larger values, so that vectors of different training cannot be "
        "compared unless normalised. Words that lean opposite ways cancel; look at the items."
    ),
    cites=("garg2018",),
    queries=("weat-6", "weat-3", "weat-10"),
    arity=(2, None),
)


@measure(INFO)
def rnd(
    vectors: Vectors,
    query: Query | str,
    *,
    distance: Distance = "euclidean",
    normalise: bool = False,
    attribute: str | None = None,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean difference of distances, signed, with that of each attribute word and a bootstrap interval over them.

    One attribute set is measured: the first, or the one named by `attribute`; the values of the others are in the
    details. `normalise=True` scales every word to length 1 first, as Garg et al. do; WEFE does not by default. With
    `distance="cosine"` WEFE subtracts similarities, so that its sign is turned: here both distances have one reading.

    What it does not tell you: whether a value is large. There is no test, and the scale is that of the vectors.
    """
    if distance not in ("euclidean", "cosine"):
        raise UsageError(f"unknown distance {distance!r}", hint="use euclidean or cosine")
    found = gather_query(vectors, query, targets=2, attributes=None, min_share=min_share)
    chosen = _chosen(found, attribute)
    params = {"distance": distance, "normalise": normalise, "attribute": chosen.name, "min_share": min_share}
    common = found.common(vectors, params, seed) | {"positive": f"nearer to {found.targets[1].name}"}
    if found.problem:
        return undefined("rnd", found.problem, found.coverage, **common)
    scaled = unit_rows if normalise else np.asarray
    first, second = (scaled(group.rows).mean(axis=0) for group in found.targets)
    if distance == "cosine" and min(np.linalg.norm(first), np.linalg.norm(second)) == 0:
        reason = "the mean of a target set is the zero vector, which has no cosine"
        return undefined("rnd", reason, found.coverage, **common)
    values = {g.name: _differences(scaled(g.rows), first, second, distance) for g in found.attributes}
    shown = values[chosen.name]
    interval = percentile_interval(lambda rows: shown[rows].mean(axis=1), len(shown), seed=seed)
    near = found.targets[0 if shown.mean() < 0 else 1].name
    return Measurement(
        "rnd",
        float(shown.mean()),
        len(shown),
        found.coverage,
        interval=interval if len(shown) > 2 else None,
        reading=f"{chosen.name} nearer to {near}",
        items=tuple({"word": w, "value": float(v)} for w, v in zip(chosen.words, shown, strict=True)),
        details={"by_set": {name: float(each.mean()) for name, each in values.items()}, **found.details()},
        **common,
    )


def _differences(words: Matrix64, first: Vector64, second: Vector64, distance: Distance) -> Vector64:
    if distance == "euclidean":
        return row_norms(words - first) - row_norms(words - second)
    towards = second / np.linalg.norm(second) - first / np.linalg.norm(first)
    return np.asarray(unit_rows(words) @ towards)


def _chosen(found: Gathered, attribute: str | None) -> Group:
    if attribute is None:
        return found.attributes[0]
    for group in found.attributes:
        if group.name == attribute:
            return group
    raise unknown_name(f"attribute set of {found.query.name!r}", attribute, [g.name for g in found.attributes])
