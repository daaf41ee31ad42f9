"""Direct bias: how much of neutral words is along the direction of a concept (Bolukbasi et al. 2016, section 5.2)."""

from __future__ import annotations

import numpy as np

from evenhand import subspaces
from evenhand.arrays import Matrix64, Vector64, row_norms, unit_rows
from evenhand.errors import UsageError
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.geometry.bias_score import (
    Direction,
    How,
    concept_direction,
    describe_direction,
    direction_lists,
    direction_source,
)
from evenhand.measures.geometry.word_selection import Restriction, Words, WordSelection, select_words
from evenhand.measures.measurement import Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import mean_interval
from evenhand.stats.units import mean_units
from evenhand.subspaces import Subspace
from evenhand.subspaces.subspace import oriented
from evenhand.words import Concept, as_concept

INFO = Info(
    id="direct-bias",
    title="Direct bias",
    takes="words",
    better="lower",
    formula="DB_c = mean_w |cos(w, g)|^c;  in k dimensions |cos| is the length of the unit word's projection",
    reading="0: the words have no component along the direction. Random words in d dimensions: about sqrt(2 / (pi d)).",
    limits=(
        "Projecting the direction out makes it 0 by construction while neighbours and classifiers still find the "
        "concept (Gonen & Goldberg 2019): a 0 here does not mean that bias is gone."
    ),
    cites=("bolukbasi2016", "gonen2019"),
    queries=("bolukbasi2016-professions",),
    family="geometry",
    variants={"old-direction": {"direction": "original"}, "new-direction": {"direction": "own"}},
    definition=3,
    by_construction=("old-direction",),
    in_tradeoff=True,
    plain=7,
    charts=("extreme-words", "projection-density", "word-movement", "scree", "measure-agreement"),
)
LEARNED_FROM = 500  # words, spread over the list, from which the direction across the axis is learned
NEGLIGIBLE = 1e-6  # below the precision of float32 vectors a component counts as 0: 0^0 would count it as a whole word


@measure(INFO)
def direct_bias(
    call: Call,
    vectors: Vectors,
    words: Words,
    *,
    subspace: Subspace | None = None,
    concept: Concept | str = "gender",
    how: How = "pairs",
    direction: Direction = "own",
    c: float = 1.0,
    min_share: float = MIN_SHARE,
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean |cos(w, g)|^c over words.

    Args:
        vectors: the vectors to measure.
        words: a list of words, its id or its file; "vocabulary" is V_t, see `Restriction`.
        subspace: the direction or subspace g; learned from the concept by default.
        concept: the concept whose pairs give g. With three groups or more, g is the first principal direction of all
            pairs; without pairs, that of the concept's recipe or between its positive group and the rest.
        how: "pairs" takes the first principal direction of the pairs with unit vectors, as in the paper; "pair" the
            published pair (she - he) alone, as Dawkins 2021 does.
        direction: "own" learns g on these vectors: what is still there after a mitigation. "original" learns it on the
            reference: what is left along the direction that was removed.
        c: strictness. 0 is the paper's strictest case: the share of words with any component along g.
        min_share: smallest share of the words, and of the pairs, that the vocabulary must have.
        restriction: how the vocabulary is restricted.
        reference: vectors before mitigation.
        seed: recorded only; nothing is drawn at random.

    Returns:
        The mean, with the signed cosine of each word in `items`.

    What it does not tell you: whether bias is gone, see `evenhand show direct-bias`.
    """
    concept = as_concept(concept)
    if not c >= 0:
        raise UsageError(f"c must not be negative, got {c}")
    source = direction_source(vectors, reference, direction)
    selection = select_words(vectors, words, concept=concept, restriction=restriction)
    took_effect = {"direction": "given" if subspace else direction, **selection.restriction}
    call.describe(selection.name, positive=concept.positive, coverage=selection.coverage, params=took_effect)
    lists = (*selection.lists(), *(() if subspace else direction_lists(source, concept, how=how)))
    call.require(lists, min_share)
    axis = subspace or concept_direction(source, concept, how=how)
    cosines = axis.coordinates(unit_rows(selection.matrix(vectors)))
    pictured = {
        "groups": _group_cosines(vectors, concept, axis),
        **({"scree": subspaces.scree(source, axis, seed=seed).to_dict()} if axis.how == "pairs" else {}),
    }
    lengths = _powers(cosines, c)
    value = float(lengths.mean())
    return call.measurement(
        value,
        len(lengths),
        interval=mean_interval(lengths, limits=(0.0, 1.0)),
        reading=_reading(value, c, concept.name),
        items=word_items(selection.words, cosines[:, 0], across=_across(selection, vectors, source, axis)),
        units=(mean_units("word", selection.words, lengths),),
        details={
            "random_level": float(np.sqrt(2 / (np.pi * vectors.dim))),
            "sizes": dict(selection.sizes),
            **describe_direction(axis),
            **pictured,
        },
    )


def _group_cosines(vectors: Vectors, concept: Concept, axis: Subspace) -> dict[str, list[float]]:
    """Return cos(w, g) of the words and names of each group, for a picture."""
    found: dict[str, list[float]] = {}
    for name, words in concept.groups.items():
        rows, _ = vectors.locate([*words, *concept.names.get(name, ())])
        cosines = axis.coordinates(unit_rows(vectors.matrix[rows]))[:, 0] if len(rows) else np.zeros(0)
        found[name] = np.round(cosines, 4).tolist()
    return found


def _across(selection: WordSelection, vectors: Vectors, source: Vectors, axis: Subspace) -> list[float]:
    """Return cosines with the strongest direction of the words across the axis, learned where the axis was learned."""
    rows, _ = source.locate(selection.words)
    spread = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), LEARNED_FROM)).astype(np.int64))]
    rest = axis.reject(unit_rows(source.matrix[spread])) if len(rows) else np.zeros((0, axis.dim))
    if len(rest) < 2 or np.ptp(rest, axis=0).max() <= NEGLIGIBLE:
        return [0.0] * len(selection)
    _, _, right = np.linalg.svd(rest - rest.mean(axis=0), full_matrices=False)
    coordinates = unit_rows(selection.matrix(vectors)) @ oriented(right[:1])[0]
    return [round(float(coordinate), 4) for coordinate in coordinates]


def _powers(cosines: Matrix64, c: float) -> Vector64:
    """Return the length of each unit word's projection onto the subspace, to the power c."""
    lengths = row_norms(cosines)
    return np.where(lengths > NEGLIGIBLE, lengths**c, 0.0)


def _reading(value: float, c: float, concept: str) -> str:
    if c == 1:
        return f"on average {100 * value:.1f} % of a word's length is along the {concept} direction"
    return f"the mean share along the {concept} direction, to the power {c:g}, is {value:.4f}"
