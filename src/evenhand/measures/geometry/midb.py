"""MIDB: multi-dimensional information-weighted direct bias, along a subspace of first names (Dawkins 2021)."""

from __future__ import annotations

import numpy as np

from evenhand import subspaces
from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, EvenhandError
from evenhand.measures.call import MIN_SHARE, Call, ListCoverage, measure
from evenhand.measures.geometry.biased_words import (
    REST,
    VOCABULARY,
    DirectionSource,
    Restriction,
    WordSource,
    concept_poles,
    direction_source,
    select_words,
)
from evenhand.measures.measurement import Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import mean_interval
from evenhand.stats.units import mean_units
from evenhand.subspaces import Subspace
from evenhand.words import Concept, as_concept

INFO = Info(
    id="midb",
    title="Multi-dimensional information-weighted direct bias",
    takes="words",
    better="zero",
    formula=(
        "MIDB_d = mean_x sum_{i<=d} a_i <g_i, x>,  g_i, a_i: principal directions of all name differences f - m and "
        "their shares of variance;  sign-free: mean_x sqrt(sum a_i <g_i, x>^2)"
    ),
    reading="Above 0: the words are on the side of the positive group's names. The scale is that of the vectors.",
    limits=(
        "Centred, as published, the directions separate names within a group (by age, origin) and need not hold gender "
        "at all: read `cos_mean_difference` and `cos_pair` first. Signed values of different words cancel, and the "
        "sign of each direction is a convention (here towards the positive group). Its correlation with NLI error in "
        "the paper rests on three of 16 embeddings."
    ),
    cites=("dawkins2021",),
    queries=(VOCABULARY,),
    family="geometry",
    definition=3,
    two_groups=True,
)


@measure(INFO)
def midb(
    call: Call,
    vectors: Vectors,
    words: WordSource = VOCABULARY,
    *,
    concept: Concept | str = "gender",
    d: int = 4,
    centre: bool = True,
    signed: bool = True,
    direction: DirectionSource = "own",
    min_share: float = MIN_SHARE,
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean of sum a_i <g_i, x> over words, along principal directions of differences of first names.

    Args:
        vectors: the vectors to measure.
        words: a list of words, its id or its file; the restricted vocabulary V_t by default.
        concept: the concept whose `names` are compared: those of the positive group with those of all other groups.
            Without names of two groups there is no value.
        d: number of directions.
        centre: True is the paper's PCA; False keeps the difference of the two name means.
        signed: False takes the length sqrt(sum a_i <g_i, x>^2), which no choice of signs changes. Every direction
            points to the positive group's mean name.
        direction: "own" learns the directions on these vectors, "original" on the reference.
        min_share: smallest share of the words, and of the names of each side, that the vocabulary must have. Cased
            names are often missing, or present as common nouns (grace, hunter).
        restriction: how the vocabulary is restricted.
        reference: vectors before mitigation.
        seed: recorded only; nothing is drawn at random.

    Returns:
        The mean, with the value of each word in `items` and all four variants in `details`.

    What it does not tell you: whether those directions are about the concept. See `evenhand show midb`.
    """
    concept = as_concept(concept)
    source = direction_source(vectors, reference, direction)
    selection = select_words(vectors, words, concept=concept, restriction=restriction)
    call.describe(selection.name, positive=concept.positive, coverage=selection.coverage, params=selection.restriction)
    if concept.positive not in concept.names or len(concept.names) < 2:
        raise DegenerateError(f"concept {concept.name!r} has no first names of two groups, which MIDB compares")
    positive, rest = _name_lists(concept)
    names = source.locate(positive, own_case=True)[1], source.locate(rest, own_case=True)[1]
    sides = zip((concept.positive, REST), names, strict=True)
    lists = (ListCoverage.of_words(f"{concept.name} names, {side}", coverage) for side, coverage in sides)
    call.require((*selection.lists(), *lists), min_share)
    learned = {flag: subspaces.names(source, positive, rest, k=d, centre=flag) for flag in (True, False)}
    rows, both = selection.matrix(vectors), names[0] + names[1]
    values = _values(rows, learned[centre], signed)
    cosine = _mean_cosines(learned[centre])[0]
    return call.measurement(
        float(values.mean()),
        len(values),
        interval=mean_interval(values),
        reading=f"the first direction has cosine {cosine:.2f} with the mean name difference",
        items=word_items(selection.words, values),
        units=(mean_units("word", selection.words, values),),
        details={
            "centred": _variant(rows, learned[True], source, concept),
            "uncentred": _variant(rows, learned[False], source, concept),
            "names": {"asked": both.asked, "found": len(both.found), "missing": list(both.missing)},
            "sizes": dict(selection.sizes),
        },
    )


def _name_lists(concept: Concept) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the positive group and those of all others."""
    others = (names for group, names in concept.names.items() if group != concept.positive)
    return tuple(concept.names[concept.positive]), tuple(name for names in others for name in names)


def _values(rows: Matrix64, axes: Subspace, signed: bool) -> Vector64:
    coordinates = axes.coordinates(rows)
    return np.asarray(coordinates @ axes.explained if signed else np.sqrt(coordinates**2 @ axes.explained))


def _variant(rows: Matrix64, axes: Subspace, source: Vectors, concept: Concept) -> dict[str, object]:
    return {
        "signed": float(_values(rows, axes, signed=True).mean()),
        "sign_free": float(_values(rows, axes, signed=False).mean()),
        "weights": axes.explained.tolist(),
        "cos_mean_difference": _mean_cosines(axes),
        "cos_pair": _pole_cosine(source, concept, axes),
    }


def _mean_cosines(axes: Subspace) -> list[float]:
    cosines: list[float] = axes.params["cos_mean_difference"]
    return cosines


def _pole_cosine(source: Vectors, concept: Concept, axes: Subspace) -> float | None:
    """Return the cosine of the first direction with she - he, or the concept's own poles; None where they coincide."""
    try:
        return axes.cos(concept_poles(concept).axis(source, normalise=False))
    except EvenhandError:
        return None  # the poles are equal or missing; the measure itself does not need them
