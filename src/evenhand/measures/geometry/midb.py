"""MIDB: multi-dimensional information-weighted direct bias, along a subspace of first names (Dawkins 2021)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from evenhand import subspaces
from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, EvenhandError, UsageError, VocabularyError
from evenhand.measures.geometry.bias_score import Direction, learned_on, pair_axis, pole_pair
from evenhand.measures.geometry.intervals import mean_interval
from evenhand.measures.geometry.word_selection import VOCABULARY, Restriction, pool
from evenhand.measures.measurement import Measurement, undefined, word_items
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept, WordSet, as_concept

INFO = Info(
    id="midb",
    title="Multi-dimensional information-weighted direct bias",
    takes="words",
    better="zero",
    formula=(
        "MIDB_d = mean_x sum_{i<=d} a_i <g_i, x>,  g_i, a_i: principal directions of all name differences f - m and "
        "their shares of variance;  sign-free: mean_x sqrt(sum a_i <g_i, x>^2)"
    ),
    reading="Above 0: the words lie on the side of the positive group's names. The scale is that of the vectors.",
    limits=(
        "Centred, as published, the directions tell names of one group apart (age, origin) and need not hold gender at "
        "all: read `cos_mean_difference` and `cos_pair` first. Signed values of different words cancel, and the sign "
        "of each direction is a convention (ours: towards the positive group). Its correlation with NLI error in the "
        "paper rests on three of 16 embeddings."
    ),
    cites=("dawkins2021",),
    queries=(VOCABULARY,),
    family="geometry",
)


@measure(INFO)
def midb(
    vectors: Vectors,
    words: WordSet | str | Iterable[str] = VOCABULARY,
    *,
    concept: Concept | str = "gender",
    d: int = 4,
    centre: bool = True,
    signed: bool = True,
    direction: Direction = "own",
    least_names: float = 0.5,
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """The mean of sum a_i <g_i, x> over the words (V_t), with the other three variants in the details.

    `centre=True` is the paper's PCA, `centre=False` the one that keeps the difference of the two name means.
    `signed=False` takes the length sqrt(sum a_i <g_i, x>^2), which no choice of signs changes. Every direction points
    to the positive group's mean name. Undefined when less than `least_names` of either list is in the vocabulary:
    cased names are often lost, or met as common nouns (grace, hunter). The interval is over the words.

    What it does not tell you: whether those directions are about the concept. See `evenhand show midb`.
    """
    about, rules = as_concept(concept), restriction or Restriction()
    source = learned_on(vectors, reference, direction)
    asked = pool(vectors, words, concept=about, restriction=rules)
    chosen = {
        "d": d,
        "centre": centre,
        "signed": signed,
        "direction": direction,
        "least_names": least_names,
    }
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "positive": about.positive,
        "params": {"concept": about.name} | chosen | asked.rules,
        "seed": seed,
    }
    if not len(asked):
        return undefined("midb", f"no word of {asked.name} is in the vocabulary", asked.coverage, **common)
    try:
        first, second, names = _names(source, about, least_names)
        learned = {flag: subspaces.names(source, first, second, k=d, centre=flag) for flag in (True, False)}
        rows = asked.matrix(vectors)
    except (DegenerateError, VocabularyError) as error:
        return undefined("midb", error.message, asked.coverage, **common)
    values = _values(rows, learned[centre], signed)
    return Measurement(
        "midb",
        float(values.mean()),
        len(values),
        asked.coverage,
        interval=mean_interval(values, seed=seed),
        reading=f"the first direction has cosine {_mean_cosines(learned[centre])[0]:.2f} with the mean name difference",
        items=word_items(asked.words, values),
        details={
            "centred": _variant(rows, learned[True], source, about),
            "uncentred": _variant(rows, learned[False], source, about),
            "names": {"asked": names.asked, "found": len(names.found), "missing": list(names.missing)},
            "sizes": dict(asked.sizes),
        },
        **common,
    )


def _names(source: Vectors, about: Concept, least: float) -> tuple[WordSet, list[str], Coverage]:
    """The names of the positive group and those of all others, or an error when too few of either were found."""
    if about.positive not in about.names or len(about.names) < 2:
        raise UsageError(f"concept {about.name!r} has no names of two groups", hint="give names={group: [...], ...}")
    positive = about.names[about.positive]
    rest = [name for group, names in about.names.items() if group != about.positive for name in names]
    accounts = source.locate(positive)[1], source.locate(rest)[1]
    if min(account.share for account in accounts) < least:
        found = " and ".join(str(account) for account in accounts)
        raise VocabularyError(f"too few names of {about.name} are in {source.name}: {found}")
    return positive, rest, accounts[0] + accounts[1]


def _values(rows: Matrix64, along: Subspace, signed: bool) -> Vector64:
    coordinates = along.coordinates(rows)
    return np.asarray(coordinates @ along.explained if signed else np.sqrt(coordinates**2 @ along.explained))


def _variant(rows: Matrix64, along: Subspace, source: Vectors, about: Concept) -> dict[str, Any]:
    return {
        "signed": float(_values(rows, along, signed=True).mean()),
        "sign_free": float(_values(rows, along, signed=False).mean()),
        "weights": along.explained.tolist(),
        "cos_mean_difference": _mean_cosines(along),
        "cos_pair": _pair_cosine(source, about, along),
    }


def _mean_cosines(along: Subspace) -> list[float]:
    found: list[float] = along.params["cos_mean_difference"]
    return found


def _pair_cosine(source: Vectors, about: Concept, along: Subspace) -> float | None:
    """Cosine of the first direction with she - he, or what the concept has in its place; None where there is none."""
    try:
        return along.cos(pair_axis(source, pole_pair(about), normalise=False))
    except EvenhandError:
        return None  # he and she equal, or not there: the measure itself does not need them
